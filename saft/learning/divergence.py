"""Training that diverges: numbers that are none (nan, infinite) stop it with a sentence, before they reach a weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from saft.data.diagnosis import numbered
from saft.errors import InputError
from saft.settings import Settings


class DivergedError(InputError):
    """The message says where it happened and what to change.

    Attributes:
        fitted: the model with the best weights from before, as :func:`saft.classifier.fitting.fit` would have returned
            it; None if there were none yet.
    """

    fitted: Any = None


def refuse_divergence(what: str, value: float, where: str, rows: np.ndarray, settings: Settings) -> None:
    """DivergedError unless this value (a loss, the length of a gradient) is a finite number.

    Args:
        where: in which step and epoch.
        rows: of the step, counted from 0.
    """
    if math.isfinite(value):
        return
    raise DivergedError(
        f"Training diverged: the {what} became {value} {where}, on {numbered('row', (np.sort(rows) + 1).tolist())}. "
        f"{_advice(settings)}"
    )


def refuse_divergent_logits(logits: np.ndarray, epoch: int, rows: np.ndarray, settings: Settings) -> None:
    """DivergedError unless the predictions of these rows after an epoch (0: before the first) are finite numbers."""
    wrong = rows[~np.isfinite(logits).all(axis=1)]
    if len(wrong):
        where = f"after epoch {epoch}" if epoch else "before the first epoch"
        raise DivergedError(
            f"Training diverged: {where}, predictions of {numbered('row', (wrong + 1).tolist())} of validation are no "
            f"finite numbers. {_advice(settings)}"
        )


def _advice(settings: Settings) -> str:
    precision = " or precision=fp32" if settings.precision != "fp32" else ""
    return (
        f"Try a lower learning_rate (now {settings.learning_rate:g}) and head_learning_rate (now "
        f"{settings.head_learning_rate:g}){precision}, and look for extreme numbers in these rows."
    )
