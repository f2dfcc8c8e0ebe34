"""FitReport: how a training went, on the validation rows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from saft.learning.callbacks import EpochRecord, TrainerState
from saft.metrics import calibration_error, score, softmax
from saft.writing import nan_to_null, null_to_nan


@dataclass(frozen=True)
class FitReport:
    """Scores and calibration errors are between 0 and 1, and nan without validation rows."""

    epochs: int
    best_epoch: int
    interrupted: bool
    seconds: float
    temperature: float
    calibration_error_before: float
    calibration_error_after: float
    valid_macro_f1: float
    valid_micro_f1: float
    start_macro_f1: float  # before the first step; nan if the start was no candidate
    start_micro_f1: float
    history: list[EpochRecord]
    trains_encoder: bool = True  # if not, there are no epochs: a regression is all there is

    @classmethod
    def of(
        cls,
        state: TrainerState,
        logits: np.ndarray,
        labels: np.ndarray,
        temperature: float,
        seconds: float,
        trains_encoder: bool = True,
    ) -> Self:
        """From the trainer's state, and the logits and labels of the validation rows."""
        scores = score(labels, softmax(logits, temperature))
        return cls(
            epochs=state.epoch,
            best_epoch=state.best_epoch,
            interrupted=state.interrupted,
            seconds=seconds,
            temperature=temperature,
            calibration_error_before=calibration_error(labels, softmax(logits)),
            calibration_error_after=scores.calibration_error,
            valid_macro_f1=scores.macro_f1,
            valid_micro_f1=scores.micro_f1,
            start_macro_f1=state.start_macro_f1,
            start_micro_f1=state.start_micro_f1,
            history=state.history,
            trains_encoder=trains_encoder,
        )

    def to_json(self) -> dict[str, Any]:
        """For a JSON file, which has no nan: null stands for it."""
        stored = asdict(self)
        stored["history"] = [nan_to_null(record) for record in stored["history"]]
        return nan_to_null(stored)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        history = [EpochRecord(**null_to_nan(record)) for record in stored["history"]]
        return cls(**{**null_to_nan(stored), "history": history})

    @property
    def kept(self) -> str:
        """Which weights the model has, in words."""
        return kept_weights(self.best_epoch, self.epochs, self.trains_encoder)

    def __str__(self) -> str:
        stopped = " (interrupted)" if self.interrupted else ""
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        trained = f"{epochs}{stopped} in {self.seconds:.0f} s, {self.kept}."
        if not self.trains_encoder:
            trained = f"Fitted in {self.seconds:.0f} s: {self.kept}."
        if math.isnan(self.valid_macro_f1):
            return f"{trained} Without validation rows nothing was scored, and probabilities are not calibrated."
        return (
            f"{trained} Validation: Macro-F1 {self.valid_macro_f1:.1%}, Micro-F1 {self.valid_micro_f1:.1%}, "
            f"calibration error {self.calibration_error_before:.1%} before, {self.calibration_error_after:.1%} after "
            f"temperature {self.temperature:.2f}."
        )


def kept_weights(best_epoch: int, epochs: int, trains_encoder: bool = True) -> str:
    """Which weights a model has after this many epochs, in words."""
    if not trains_encoder:
        return "a regression, no encoder was trained"
    if best_epoch:
        return f"best after epoch {best_epoch}"
    if epochs:
        return "best before the first epoch: no epoch was better than regression and trees"
    return "not trained"
