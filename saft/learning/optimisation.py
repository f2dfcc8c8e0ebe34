"""The optimiser: parameter groups, the schedule of learning rates, and the weights that are kept."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from saft.learning.callbacks import TrainerState
from saft.model.base import InteractionModel
from saft.settings import TrainingSettings


def parameter_groups(model: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Pretrained parameters and all others learn at their own rates; biases and norms do not decay."""
    encoder = getattr(model, "encoder", None) if isinstance(model, InteractionModel) else None
    pretrained = set() if encoder is None else {id(parameter) for parameter in encoder.parameters()}
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            groups.setdefault((id(parameter) in pretrained, parameter.ndim > 1), []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": settings.learning_rate if is_pretrained else settings.head_learning_rate,
            "weight_decay": settings.weight_decay if decays else 0.0,
        }
        for (is_pretrained, decays), parameters in groups.items()
    ]


class WarmupSchedule:
    """Learning rates rise linearly from 0 during the warm-up, then fall linearly to 0 at the last step.

    The rate depends on the step's number alone, so a resumed run needs no state of its own.
    """

    def __init__(self, optimiser: Any, steps: int, warmup: float) -> None:
        self.optimiser, self.steps, self.warmup = optimiser, steps, warmup
        self._full = [group["lr"] for group in optimiser.param_groups]

    def factor(self, step: int) -> float:
        """Share of the full rate at this step, counted from 0."""
        rising = self.warmup * self.steps
        if step < rising:
            return (step + 1) / (rising + 1)
        return max((self.steps - step) / max(self.steps - rising, 1), 0.0)

    def set(self, step: int) -> None:
        for group, full in zip(self.optimiser.param_groups, self._full, strict=True):
            group["lr"] = full * self.factor(step)


class BestWeights:
    """The weights of the best epoch so far; its score is in the trainer's state."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def keep(self, model: nn.Module, epoch: int, score: float, state: TrainerState) -> None:
        self.tensors = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        state.best_score, state.best_epoch = score, epoch

    def restore(self, model: nn.Module) -> None:
        if self.tensors:
            model.load_state_dict(self.tensors)
