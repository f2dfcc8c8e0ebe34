"""Scores of predictions, and calibration of their probabilities.

Labels and predictions are class codes from 0 to C - 1, probabilities and logits have one column per class. All scores
are between 0 and 1, and ``nan`` when there are no rows: nothing was measured, which is not the same as a score of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Outside of these temperatures probabilities are practically all 0 or 1, or all equal.
TEMPERATURES = (0.05, 20.0)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of predictions against known labels."""

    macro_f1: float
    micro_f1: float
    accuracy: float  # the same number as micro_f1, because every row has exactly one class
    per_class: list[dict[str, float]]  # precision, recall, f1, support of each class
    confusion: np.ndarray  # (C, C) counts: rows are the truth, columns the prediction
    calibration_error: float

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {**vars(self), "confusion": self.confusion.tolist()}


@dataclass(frozen=True, eq=False)
class Reliability:
    """Rows sorted into bins of equal width by the probability of their predicted class."""

    confidence: np.ndarray  # (bins,) mean probability, nan in an empty bin
    accuracy: np.ndarray  # (bins,) share of right predictions, nan in an empty bin
    count: np.ndarray  # (bins,) rows


def score(labels: np.ndarray, probabilities: np.ndarray) -> Scores:
    """All scores of the most probable classes and of their probabilities."""
    labels, probabilities = _checked(labels, probabilities)
    table = confusion_matrix(labels, probabilities.argmax(axis=1), probabilities.shape[1])
    return Scores(
        macro_f1=_macro(table),
        micro_f1=_micro(table),
        accuracy=_micro(table),
        per_class=_per_class(table),
        confusion=table,
        calibration_error=calibration_error(labels, probabilities),
    )


def macro_f1(labels: np.ndarray, predictions: np.ndarray, n_classes: int) -> float:
    """The mean F1 of the classes that occur in ``labels``; a class that is never predicted has F1 0.

    A class that was predicted but does not occur is left out of the mean (its false alarms still lower the others'
    recall). scikit-learn's default would count it as 0, and a score would drop because of a class without rows.
    """
    return _macro(confusion_matrix(labels, predictions, n_classes))


def micro_f1(labels: np.ndarray, predictions: np.ndarray, n_classes: int) -> float:
    """F1 of all classes' hits and misses counted together; with one class per row this is the accuracy."""
    return _micro(confusion_matrix(labels, predictions, n_classes))


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray, n_classes: int) -> np.ndarray:
    """(C, C) counts: rows are the truth, columns the prediction."""
    labels, predictions = np.asarray(labels, np.int64), np.asarray(predictions, np.int64)
    if labels.shape != predictions.shape:
        raise ValueError(f"{len(labels):,} labels do not fit {len(predictions):,} predictions")
    for codes in (labels, predictions):  # a hidden label must not be counted as a class
        if codes.size and (codes.min() < 0 or codes.max() >= n_classes):
            raise ValueError(f"class codes run from 0 to {n_classes - 1}; got {codes.min()} to {codes.max()}")
    return np.bincount(labels * n_classes + predictions, minlength=n_classes**2).reshape(n_classes, n_classes)


def calibration_error(labels: np.ndarray, probabilities: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error: how far confidence and accuracy of a bin are apart, averaged over rows."""
    found = reliability(labels, probabilities, bins)
    if not found.count.sum():
        return float("nan")
    return float(np.nansum(found.count * np.abs(found.accuracy - found.confidence)) / found.count.sum())


def reliability(labels: np.ndarray, probabilities: np.ndarray, bins: int = 10) -> Reliability:
    """How often the predicted class is right, by its probability. Bins are open at their lower edge: (0.9, 1.0]."""
    labels, probabilities = _checked(labels, probabilities)
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    # Compared with the edges instead of multiplied by `bins`: 0.7 belongs below the edge 0.7 whatever rounding does.
    places = np.clip(np.searchsorted(np.arange(1, bins + 1) / bins, confidence, side="left"), 0, bins - 1)
    count = np.bincount(places, minlength=bins)
    rows = np.where(count > 0, count, np.nan)
    return Reliability(
        confidence=np.bincount(places, weights=confidence, minlength=bins) / rows,
        accuracy=np.bincount(places, weights=right, minlength=bins) / rows,
        count=count,
    )


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Probabilities from logits; a temperature above 1 moves them towards equal shares."""
    return np.exp(_log_softmax(logits, temperature))


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature under which softmax(logits / T) makes ``labels`` most likely; 1.0 when there are no rows.

    Dividing by a positive number changes no prediction, only its confidence. As in Platt's scaling, with n rows the
    true class has the weight 1 − 1/(n + 2) and the other classes share the rest: a handful of right predictions does
    not justify certainty.
    """
    from scipy.optimize import minimize_scalar

    labels, logits = _checked(labels, logits)
    if not len(labels):
        return 1.0

    doubt = 1 / (len(labels) + 2)
    truth = np.full(logits.shape, doubt / max(logits.shape[1] - 1, 1))
    truth[np.arange(len(labels)), labels] = 1 - doubt

    def negative_log_likelihood(log_temperature: float) -> float:
        return -float((truth * _log_softmax(logits, float(np.exp(log_temperature)))).sum(axis=1).mean())

    bounds = tuple(np.log(TEMPERATURES))
    found = minimize_scalar(negative_log_likelihood, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


def _log_softmax(logits: np.ndarray, temperature: float) -> np.ndarray:
    if not temperature > 0:
        raise ValueError(f"a temperature has to be above 0, not {temperature}")
    scaled = np.asarray(logits, np.float64) / temperature
    shifted = scaled - scaled.max(axis=-1, keepdims=True)  # no exponential overflows
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _checked(labels: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels as integers and one column per class as floats, one row for each label."""
    labels, columns = np.asarray(labels, np.int64), np.asarray(columns, np.float64)
    if columns.ndim != 2 or columns.shape[:1] != labels.shape:
        raise ValueError(f"{len(labels):,} labels need as many rows with one column per class, not {columns.shape}")
    if labels.size and (labels.min() < 0 or labels.max() >= columns.shape[1]):
        raise ValueError(f"class codes run from 0 to {columns.shape[1] - 1}; got {labels.min()} to {labels.max()}")
    return labels, columns


def _macro(confusion: np.ndarray) -> float:
    occurs = confusion.sum(axis=1) > 0
    return float(_f1(confusion)[occurs].mean()) if occurs.any() else float("nan")


def _micro(confusion: np.ndarray) -> float:
    rows = confusion.sum()
    return float(confusion.trace() / rows) if rows else float("nan")


def _f1(confusion: np.ndarray) -> np.ndarray:
    """2 TP / (2 TP + FP + FN) of each class: its row and its column together count TP twice."""
    return _ratio(2 * confusion.diagonal(), confusion.sum(axis=0) + confusion.sum(axis=1))


def _per_class(confusion: np.ndarray) -> list[dict[str, float]]:
    right, support = confusion.diagonal(), confusion.sum(axis=1)
    columns = {
        "precision": _ratio(right, confusion.sum(axis=0)),
        "recall": _ratio(right, support),
        "f1": _f1(confusion),
        "support": support,
    }
    return [{name: values[code].item() for name, values in columns.items()} for code in range(len(confusion))]


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient, and 0 where there is nothing to divide by."""
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)
