"""FoldRegressions: multinomial regressions to rows outside of some folds, each with a strength chosen without them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from saft.features.folds import FOLDS
from saft.features.ngrams import MOST_FITTED
from saft.features.regression import log_loss, regress

STRENGTHS = (3e-4, 1e-3, 3e-3)  # C: larger is less regularised
STEPS = 60
MANY = MOST_FITTED // 4  # with so many rows, one fold is enough to choose a strength by
SELECTING = 3_000  # rows that a strength is chosen by are fitted to


class FoldRegressions:
    """Each is solved once.

    Args:
        columns: (rows, width), standardised.
        known, fold: (rows,) class and fold of each.
    """

    def __init__(self, columns: np.ndarray, known: np.ndarray, fold: np.ndarray, n_classes: int) -> None:
        self.columns, self.known, self.fold, self.n_classes = columns, known, fold, n_classes
        self._solved: dict[tuple[frozenset[int], float, int | None], np.ndarray] = {}

    def best(self, hidden: frozenset[int]) -> np.ndarray:
        """(width + 1, classes) weights and, last, offsets. The hidden folds do not choose the strength either."""
        scored = [fold for fold in range(FOLDS) if fold not in hidden]
        if len(self.known) >= MANY:
            scored = [(max(hidden, default=-1) + 1) % FOLDS]
        losses = [sum(self._held_out_loss(hidden, fold, strength) for fold in scored) for strength in STRENGTHS]
        return self._solve(hidden, STRENGTHS[int(np.argmin(losses))])

    def log_priors(self, hidden: frozenset[int]) -> np.ndarray:
        """(classes,) log of the share of each among the rows outside of these folds."""
        counts = np.bincount(self.known[self._outside(hidden)], minlength=self.n_classes) + 1
        return np.log(counts / counts.sum()).astype(np.float32)

    def _outside(self, hidden: frozenset[int]) -> np.ndarray:
        return np.flatnonzero(~np.isin(self.fold, list(hidden)))

    def _held_out_loss(self, hidden: frozenset[int], scored: int, strength: float) -> float:
        """Summed over the rows of a fold, by the regression without it and without the hidden ones."""
        out = np.flatnonzero(self.fold == scored)
        if not len(out):
            return 0.0
        solved = self._solve(hidden | {scored}, strength, SELECTING)
        return log_loss(self.columns[out] @ solved[:-1] + solved[-1], self.known[out]) * len(out)

    def _solve(self, hidden: frozenset[int], strength: float, most: int | None = None) -> np.ndarray:
        """Fitted to the rows outside of the hidden folds, at most so many of them; they stand in random order."""
        key = hidden, strength, most
        if key not in self._solved:
            some = self._outside(hidden)[:most]
            start = np.zeros((self.columns.shape[1] + 1, self.n_classes), np.float32)
            start[-1] = self.log_priors(hidden)
            rows = self.columns[some]
            self._solved[key] = regress(rows, rows.T, self.known[some], start, strength, STEPS) if len(some) else start
        return self._solved[key]

    def views(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(weights and offsets, log priors) without fold 0, 1, …, and last to all rows."""
        for hidden in [*(frozenset([fold]) for fold in range(FOLDS)), frozenset[int]()]:
            yield self.best(hidden), self.log_priors(hidden)
