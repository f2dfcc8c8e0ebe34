"""Progress: verdicts per day and per reviewer, and how the model that serves does on what was judged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from scipy.stats import binomtest
from sqlalchemy import Connection, select

from saft import metrics
from saft.server.tables import interactions, served


@dataclass(frozen=True)
class Day:
    day: str  # in UTC
    verdicts: int


@dataclass(frozen=True)
class ReviewerProgress:
    name: str | None
    verdicts: int
    last: float


@dataclass(frozen=True)
class ClassProgress:
    name: str
    judged: int
    predicted: int
    precision: float | None  # None if it was never predicted
    recall: float | None  # None if nothing was judged so


@dataclass(frozen=True)
class ModelProgress:
    judged: int  # interactions that are compared
    accuracy: float  # nan if there are none
    low: float  # Wilson's interval of 95 % around the accuracy
    high: float
    macro_f1: float
    classes: list[ClassProgress]


def days(standing: Iterable[Any]) -> list[Day]:
    """Verdicts that stand, by the day on which they were given; days without any are left out."""
    counts = Counter(datetime.fromtimestamp(verdict.at, UTC).date().isoformat() for verdict in standing)
    return [Day(day, count) for day, count in sorted(counts.items())]


def reviewers(standing: Iterable[Any]) -> list[ReviewerProgress]:
    """Verdicts that stand, by reviewer; the one with the most first."""
    given: dict[str | None, list[float]] = {}
    for verdict in standing:
        given.setdefault(verdict.reviewer, []).append(verdict.at)
    found = [ReviewerProgress(name, len(times), max(times)) for name, times in given.items()]
    return sorted(found, key=lambda one: (-one.verdicts, one.name or ""))


def judged_and_predicted(connection: Connection, model: int) -> list[tuple[str, str]]:
    """(verdict, prediction) of every interaction that was judged and whose label the model was not trained on.

    Left out is what waits for a second opinion: a score that moves would tell the first one.
    """
    tables = interactions.join(served, served.c.interaction == interactions.c.serial)
    compared = select(interactions.c.label, served.c.predicted).select_from(tables)
    ours = (served.c.model == model, served.c.known.is_(False), served.c.waiting.is_(False))
    judged = (interactions.c.reviewed.is_(True), interactions.c.label.is_not(None))
    return [(row.label, row.predicted) for row in connection.execute(compared.where(*ours, *judged))]


def model_progress(pairs: Iterable[tuple[str, str]], classes: Sequence[str]) -> ModelProgress:
    """Scores of predictions against verdicts; verdicts of classes that the model does not have are left out."""
    codes = {name: code for code, name in enumerate(classes)}
    known = [(codes[said], codes[predicted]) for said, predicted in pairs if said in codes]
    labels, predictions = np.array(known, np.int64).reshape(-1, 2).T
    table = metrics.confusion_matrix(labels, predictions, len(classes))
    low, high = _interval(int(table.trace()), len(known))
    return ModelProgress(
        judged=len(known),
        accuracy=metrics.micro_f1(labels, predictions, len(classes)),
        low=low,
        high=high,
        macro_f1=metrics.macro_f1(labels, predictions, len(classes)),
        classes=[_of_class(name, code, table) for name, code in codes.items()],
    )


def _of_class(name: str, code: int, table: np.ndarray) -> ClassProgress:
    judged, predicted, right = int(table[code].sum()), int(table[:, code].sum()), int(table[code, code])
    return ClassProgress(
        name, judged, predicted, right / predicted if predicted else None, right / judged if judged else None
    )


def _interval(right: int, count: int) -> tuple[float, float]:
    if not count:
        return math.nan, math.nan
    found = binomtest(right, count).proportion_ci(method="wilson")
    return float(found.low), float(found.high)
