"""Callbacks observe a training: subclass :class:`Callback` and override the methods that you need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EpochRecord:
    """One epoch in figures. Validation scores are between 0 and 1, and nan without validation rows."""

    epoch: int  # from 1
    loss: float
    valid_macro_f1: float
    valid_micro_f1: float
    seconds: float
    rows_per_second: float


@dataclass
class TrainerState:
    """How far a training is, without its tensors. A checkpoint stores it as JSON."""

    epochs: int = 0  # planned
    rows_per_epoch: int = 0
    epoch: int = 0  # finished epochs
    step: int = 0  # finished steps of the current epoch
    rows: int = 0  # seed rows of these steps
    loss_sum: float = 0.0  # over these rows
    seconds: float = 0.0  # spent in these steps
    best_score: float = -1.0  # validation Macro-F1 of the weights that are kept
    best_epoch: int = 0  # 0 is the start
    best_goodness: float = -1e9  # what decides between epochs: that score, or the start's judgement
    best_share: float = 1.0  # how much of what training added to the start is kept
    start_macro_f1: float = math.nan  # validation scores before the first step; nan if the start is no candidate
    start_micro_f1: float = math.nan
    history: list[EpochRecord] = field(default_factory=list)
    interrupted: bool = False

    @property
    def mean_loss(self) -> float:
        return self.loss_sum / max(self.rows, 1)

    def count(self, rows: int, loss: float, seconds: float) -> None:
        """Add a finished step."""
        self.step += 1
        self.rows += rows
        self.loss_sum += loss * rows
        self.seconds = seconds

    def finish_epoch(self) -> None:
        self.epoch += 1
        self.step = self.rows = 0
        self.loss_sum = self.seconds = 0.0


class Callback:
    """Does nothing; the base of all callbacks."""

    def on_train_begin(self, state: TrainerState) -> None:
        """Before the first epoch; the state holds the scores of the start."""

    def on_epoch_begin(self, state: TrainerState) -> None:
        """Before the first step of an epoch, or before the next step of a resumed one."""

    def on_step_end(self, state: TrainerState) -> None:
        """After the optimiser's step."""

    def on_epoch_end(self, state: TrainerState, record: EpochRecord) -> None:
        """After validation."""

    def on_message(self, message: str) -> None:
        """Work besides the steps, such as tokenising, reports its progress in words."""


class CallbackList(Callback):
    """Several callbacks, called in order."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._callbacks = tuple(callbacks)

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)

    def on_train_begin(self, state: TrainerState) -> None:
        for callback in self._callbacks:
            callback.on_train_begin(state)

    def on_epoch_begin(self, state: TrainerState) -> None:
        for callback in self._callbacks:
            callback.on_epoch_begin(state)

    def on_step_end(self, state: TrainerState) -> None:
        for callback in self._callbacks:
            callback.on_step_end(state)

    def on_epoch_end(self, state: TrainerState, record: EpochRecord) -> None:
        for callback in self._callbacks:
            callback.on_epoch_end(state, record)

    def on_message(self, message: str) -> None:
        for callback in self._callbacks:
            callback.on_message(message)
