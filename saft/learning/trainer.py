"""Trainer: batch, loss, backward, step; after every epoch validate, keep the best weights, stop early.

The parts stand in files of their own: what a batch may show (``loader``), learning rates and the best weights
(``optimisation``), the neighbour cache (``neighbour_cache``), checkpoints (``checkpoint``), observers (``callbacks``).
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from saft.learning.callbacks import Callback, CallbackList, EpochRecord, TrainerState
from saft.learning.checkpoint import Checkpoint, Parts
from saft.learning.divergence import DivergedError, refuse_divergence, refuse_divergent_logits
from saft.learning.interface import Loader
from saft.learning.neighbour_cache import CacheRefresher
from saft.learning.objective import class_weights, loss_of
from saft.learning.optimisation import BestWeights, WarmupSchedule, parameter_groups
from saft.learning.prediction import predict_logits
from saft.learning.start import Start
from saft.metrics import macro_f1, micro_f1
from saft.settings import Settings
from saft.writing import as_json

Loss = Callable[[Any, Any], Tensor]  # (the model's output, the batch)


class Trainer:
    """Trains a model on the batches of a loader.

    Args:
        model: a module whose output for a batch has ``logits`` (and ``message_state``).
        loader: whose visible labels are those of the training rows, and no others.
        train: rows to learn from.
        valid: rows to score after every epoch, with their labels; without any, the last epoch is kept.
        loss: what is minimised, if not what the settings say.
        start: what can be predicted before any step, if that is better than chance. It then competes with the
            epochs and is mixed with the best of them, see :mod:`~saft.learning.start`.
        refresh_at_most: rows outside of training whose cached states are renewed after an epoch; None means as many
            as there are training rows.
        checkpoint: folder to continue from, if there is something; written to every ``checkpoint_seconds`` and after
            every epoch.
    """

    def __init__(
        self,
        model: nn.Module,
        loader: Loader,
        train: np.ndarray,
        valid: np.ndarray,
        valid_labels: np.ndarray,
        settings: Settings,
        *,
        loss: Loss | None = None,
        start: Start | None = None,
        refresh_at_most: int | None = None,
        checkpoint: Path | None = None,
        checkpoint_seconds: float = 60.0,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        from accelerate import Accelerator

        self.accelerator = Accelerator()
        self.loader, self.settings, self.train, self.valid, self.valid_labels = (
            loader, settings, train, valid, valid_labels,
        )  # fmt: skip
        self.callbacks = CallbackList(callbacks)
        optimiser = torch.optim.AdamW(parameter_groups(model, settings), eps=settings.epsilon, fused=True)
        self.model, self.optimiser = self.accelerator.prepare(model, optimiser)
        steps = sum(len(view.batches) for view in loader.training_passes(train, 0))
        self.repeats = max(settings.least_steps // max(steps, 1), 1)  # passes over the rows in an epoch
        self.steps_per_epoch = self.repeats * steps
        self.schedule = WarmupSchedule(self.optimiser, settings.epochs * self.steps_per_epoch, settings.warmup)
        self.class_weights = class_weights(loader.labels[train], loader.n_classes) if settings.class_weights else None
        self.loss, self.start = loss or self._loss, start
        self.best = BestWeights()
        self.refresher = CacheRefresher(
            self.model, loader, train, valid, settings.seed, self.callbacks, refresh_at_most
        )
        self.checkpoint = (
            None if checkpoint is None else Checkpoint(checkpoint, checkpoint_seconds, self._fingerprint())
        )
        self.state = TrainerState(epochs=settings.epochs, rows_per_epoch=self.repeats * len(train))

    def run(self) -> TrainerState:
        """Train to the end, or until Ctrl-C; the model then has the best weights. So it has if training diverges, which
        is an error, unless there are none yet."""
        torch.manual_seed(self.settings.seed)
        if self.checkpoint is not None and self.checkpoint.exists:
            self._restore(*self.checkpoint.load())
        elif self.start is not None:
            self.state.best_share = 1.0 if self.start.is_head else 0.0
            if len(self.valid):
                self.state.start_macro_f1, self.state.start_micro_f1 = self._consider(0, self.start.logits)
        self.callbacks.on_train_begin(self.state)
        diverged: DivergedError | None = None
        try:
            while self.state.epoch < self.settings.epochs and not self._is_stuck():
                self.run_epoch()
        except KeyboardInterrupt:
            self.state.interrupted = True
        except DivergedError as error:
            diverged = error
        self.best.restore(self.model)
        if self.start is not None:
            self.start.mix_into(self.accelerator.unwrap_model(self.model), self.state.best_share)
        self.refresher.finish(self.state.best_epoch == self.state.epoch and not self.state.step)
        self.model.train(False)
        if diverged is not None:
            raise diverged
        return self.state

    def run_epoch(self) -> None:
        """The remaining steps of the current epoch, then validation."""
        state, began = self.state, time.perf_counter() - self.state.seconds
        trained = np.zeros(len(self.loader), dtype=bool)
        self.callbacks.on_epoch_begin(state)
        for batch in self.batches(trained):
            loss = self.train_step(batch)
            state.count(len(batch.seed_rows), loss, time.perf_counter() - began)
            self.callbacks.on_step_end(state)
            if self.checkpoint is not None and self.checkpoint.is_due:
                self.checkpoint.save(self._parts(), state)
        self.refresher.after_epoch(state.epoch, trained)
        self._validate()
        state.finish_epoch()
        if self.checkpoint is not None:
            self.checkpoint.save(self._parts(), state)

    def batches(self, trained: np.ndarray | None = None) -> Iterator[Any]:
        """The batches of this epoch that come after its finished steps; marks all rows of the epoch in ``trained``."""
        number, finished = 0, self.state.epoch * self.steps_per_epoch
        process, processes = self.accelerator.process_index, self.accelerator.num_processes
        for view in self._passes():
            whole = len(view.batches) // processes * processes if processes > 1 else len(view.batches)
            for seed_rows in view.batches[process:whole:processes]:
                if trained is not None:
                    trained[seed_rows] = True
                number += 1
                if number > self.state.step:
                    self.refresher.before_step(seed_rows, view, finished + number - 1)
                    yield self.loader.batch(seed_rows, view).to(self.accelerator.device)

    def _passes(self) -> Iterator[Any]:
        """The passes of this epoch: all rows, several times if they are few."""
        first = self.state.epoch * self.repeats
        return chain.from_iterable(
            self.loader.training_passes(self.train, number) for number in range(first, first + self.repeats)
        )

    def train_step(self, batch: Any) -> float:
        """One step of the optimiser; the loss before it."""
        self.schedule.set(self.state.epoch * self.steps_per_epoch + self.state.step)
        self.model.train()
        output = self.model(batch)
        loss = self.loss(output, batch)
        value, where = float(loss.detach()), f"in step {self.state.step + 1} of epoch {self.state.epoch + 1}"
        refuse_divergence("loss", value, where, batch.seed_rows, self.settings)
        self.optimiser.zero_grad(set_to_none=True)
        self.accelerator.backward(loss)
        length = self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf)
        refuse_divergence("gradient", float(length), where, batch.seed_rows, self.settings)
        self.optimiser.step()
        if self.loader.cache is not None:
            self.loader.cache.store(batch.rows, output.message_state)
        return value

    def _loss(self, output: Any, batch: Any) -> Tensor:
        return loss_of(output.logits, batch.targets, self.settings.loss, self.class_weights)

    def _is_stuck(self) -> bool:
        return bool(self.best.tensors) and self.state.epoch - self.state.best_epoch >= self.settings.patience

    def _validate(self) -> None:
        """Score the validation rows and report the epoch."""
        logits = np.empty((0, self.loader.n_classes))
        if len(self.valid):
            logits = predict_logits(self.model, self.loader, self.valid, update_cache=True)
        state, epoch = self.state, self.state.epoch + 1
        scores = self._consider(epoch, logits)
        rate = state.rows / max(state.seconds, 1e-9)
        state.history.append(EpochRecord(epoch, state.mean_loss, *scores, state.seconds, rate))
        self.callbacks.on_epoch_end(state, state.history[-1])

    def _consider(self, epoch: int, logits: np.ndarray) -> tuple[float, float]:
        """(Macro-F1, Micro-F1) of these logits of the validation rows, mixed with those of the start if there is one.

        The weights are kept if they are the best.
        """
        refuse_divergent_logits(logits, epoch, self.valid, self.settings)
        share, goodness, doubt = 1.0, None, 0.0
        if self.start is not None and not self.start.is_head:
            # The start is mixed with itself: an epoch has to be better than that.
            share, goodness = self.start.choose(logits, self.valid_labels)
            share = share if epoch else 0.0
            logits = self.start.mixed(logits, share)
            doubt = self.start.doubt if self.state.best_epoch else 0.0
        predicted, n_classes = logits.argmax(axis=1), self.loader.n_classes
        macro, micro = (f1(self.valid_labels, predicted, n_classes) for f1 in (macro_f1, micro_f1))
        goodness = macro if goodness is None else goodness
        if not len(self.valid) or goodness > self.state.best_goodness - doubt:
            self.best.keep(self.accelerator.unwrap_model(self.model), epoch, macro, self.state)
            self.state.best_share = share
        self.state.best_goodness = max(self.state.best_goodness, goodness)
        return macro, micro

    def _fingerprint(self) -> str:
        """Of everything that the run depends on."""
        digest = hashlib.sha256(as_json(dict(sorted(self.settings.as_dict().items()))).encode())
        digest.update(self.loader.fingerprint().encode())
        for array in (self.train, self.valid):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _parts(self) -> Parts:
        """All tensors that a checkpoint holds."""
        parts = {
            "model": self.model.state_dict(),
            "best": self.best.tensors,
            "random": {"torch": torch.get_rng_state()},
        }
        parts["optimiser"] = {
            f"{number}.{name}": tensor
            for number, state in self.optimiser.state_dict()["state"].items()
            for name, tensor in state.items()
        }
        if self.loader.cache is not None:
            parts["cache"] = self.loader.cache.tensors()
        return parts

    def _restore(self, parts: Parts, state: TrainerState) -> None:
        self.model.load_state_dict(parts["model"])
        self.best.tensors = parts.get("best", {})
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts.get("optimiser", {}).items():
            number, _, rest = name.partition(".")
            moments.setdefault(int(number), {})[rest] = tensor
        self.optimiser.load_state_dict({"state": moments, "param_groups": self.optimiser.state_dict()["param_groups"]})
        if self.loader.cache is not None:
            self.loader.cache.restore(parts["cache"])
        torch.set_rng_state(parts["random"]["torch"])
        self.state = state
