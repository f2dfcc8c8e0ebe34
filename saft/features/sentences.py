"""SentenceModel: class log-odds of a text by a linear model of its vectors, means of a frozen encoder's states.

The counterpart of :mod:`saft.features.ngrams` for what an encoder understands: multinomial logistic regression on
standardised means at several depths of the encoder, its strength chosen by the likelihood of rows that it was not
fitted to. Log-odds of a labelled interaction come from a regression without its fold, whose strength was chosen without
its fold as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax

from saft.data.network import HIDDEN
from saft.features.folds import FOLDS, VIEWS
from saft.features.ngrams import LARGEST, MOST_FITTED
from saft.features.regression import log_loss, regress

STRENGTHS = (3e-4, 1e-3, 3e-3)  # C: larger is less regularised
STEPS = 60
MANY = MOST_FITTED // 4  # with so many rows, one fold is enough to choose a strength by
SELECTING = 3_000  # rows that a strength is chosen by are fitted to


@dataclass(frozen=True)
class SentenceModel:
    """
    Args:
        centre, spread: (depths · width,) of the vectors of ``fit``.
        weights, bias, log_priors: (depths · width, classes), (classes,), (classes,) of the regression.
        fitted_log_odds: (views, texts, classes) of the texts given to ``fit``, see :mod:`~saft.features.folds`.
        fitted_directions: (texts, width) of the same, in half precision.
    """

    centre: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    log_priors: np.ndarray
    fitted_log_odds: np.ndarray
    fitted_directions: np.ndarray

    @classmethod
    def fit(
        cls, vectors: np.ndarray, labels: np.ndarray, n_classes: int, folds: np.ndarray, seed: int
    ) -> SentenceModel:
        """Fit to the rows with a label; of the others, only log-odds are computed.

        Args:
            vectors: (texts, depths, width).
            labels: (texts,) HIDDEN where there is none.
            folds: (texts,) of each.
        """
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(np.flatnonzero(labels != HIDDEN))[:MOST_FITTED]
        columns = vectors.reshape(len(vectors), -1)
        centre, spread = columns.mean(axis=0), np.maximum(columns.std(axis=0), 1e-6)
        regressions = _Regressions((columns[chosen] - centre) / spread, labels[chosen], folds[chosen], n_classes)
        blank = np.empty((VIEWS, 0, n_classes), np.float32), np.empty((0, vectors.shape[2]), np.float16)
        models = []
        for hidden in [*(frozenset([fold]) for fold in range(FOLDS)), frozenset[int]()]:
            solved = regressions.best(hidden)
            models.append(cls(centre, spread, solved[:-1], solved[-1], regressions.log_priors(hidden), *blank))
        return replace(
            models[-1],
            fitted_log_odds=np.stack([model.log_odds(vectors) for model in models]),
            fitted_directions=models[-1].directions(vectors).astype(np.float16),
        )

    def directions(self, vectors: np.ndarray) -> np.ndarray:
        """(texts, width) of length 1, so that their products are cosines, from the upper depth.

        What all texts share is taken out first.
        """
        centred = vectors[:, -1] - self.centre[-vectors.shape[2] :]
        return (centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)).astype(np.float32)

    def log_odds(self, vectors: np.ndarray) -> np.ndarray:
        """(texts, classes)."""
        columns = vectors.reshape(len(vectors), len(self.centre))
        logits = (columns - self.centre) / self.spread @ self.weights + self.bias
        return (log_softmax(logits, axis=1) - self.log_priors).clip(-LARGEST, LARGEST).astype(np.float32)


class _Regressions:
    """Regressions to rows outside of some folds, each solved once.

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
