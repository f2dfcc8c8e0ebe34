"""FitReport: how a training went, on the validation rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from saft.learning.callbacks import EpochRecord, TrainerState
from saft.metrics import calibration_error, score, softmax


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
    history: list[EpochRecord]

    @classmethod
    def of(
        cls, state: TrainerState, logits: np.ndarray, labels: np.ndarray, temperature: float, seconds: float
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
            history=state.history,
        )

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        return cls(**{**stored, "history": [EpochRecord(**record) for record in stored["history"]]})

    def __str__(self) -> str:
        stopped = " (interrupted)" if self.interrupted else ""
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        return (
            f"{epochs}{stopped} in {self.seconds:.0f} s, best after epoch {self.best_epoch}. Validation: "
            f"Macro-F1 {self.valid_macro_f1:.1%}, Micro-F1 {self.valid_micro_f1:.1%}, calibration error "
            f"{self.calibration_error_before:.1%} before, {self.calibration_error_after:.1%} after temperature "
            f"{self.temperature:.2f}."
        )
