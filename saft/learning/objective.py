"""What training minimises, and at which rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.data.network import HIDDEN
from saft.settings import Settings

FOCUS = 2.0  # γ of the focal loss


def parameter_groups(model: nn.Module, settings: Settings) -> list[dict[str, Any]]:
    """Pretrained and new parameters learn at rates of their own; biases and norms do not decay."""
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((name.startswith("language."), parameter.ndim > 1), []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": settings.learning_rate if pretrained else settings.new_rate,
            "weight_decay": settings.weight_decay if decays else 0.0,
        }
        for (pretrained, decays), parameters in groups.items()
    ]


def rate(done: int, total: int, warmup: float) -> float:
    """Share of the learning rate at this step: up from 0 while warming up, then down to 0 at the end."""
    rising = warmup * total
    if done < rising:
        return (done + 1) / (rising + 1)
    return max((total - done) / max(total - rising, 1), 0.0)


def class_weights(labels: np.ndarray, n_classes: int) -> Tensor:
    """As if every class had as many rows: rows / (classes · rows of the class)."""
    counts = np.bincount(labels[labels != HIDDEN], minlength=n_classes)
    return torch.tensor(counts.sum() / (n_classes * np.maximum(counts, 1)), dtype=torch.float32)


def loss_of(logits: Tensor, answers: Tensor, kind: str, weights: Tensor | None = None) -> Tensor:
    """Mean over targets. ``paper``: Σ_k −y log p − (1 − y) log(1 − p); ``focal``: −(1 − p)^γ log p."""
    if kind == "cross_entropy":
        return functional.cross_entropy(logits, answers, weights)
    logs = functional.log_softmax(logits, dim=1)
    own = logs.gather(1, answers[:, None])[:, 0]
    if kind == "focal":
        losses = -((1 - own.exp()) ** FOCUS) * own
    else:
        others = torch.log1p(-logs.exp().clamp(max=1 - 1e-6))
        losses = -(own + others.sum(dim=1) - others.gather(1, answers[:, None])[:, 0])
    if weights is None:
        return losses.mean()
    weighed = weights.to(losses.device)[answers]
    return (losses * weighed).sum() / weighed.sum()
