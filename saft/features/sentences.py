"""SentenceModel: class log-odds of a text by a linear model of its sentence vector, the mean of a frozen encoder's states.

The counterpart of :mod:`saft.features.ngrams` for what an encoder understands: multinomial logistic regression on
standardised vectors, its strength chosen by the likelihood of rows that it was not fitted to. Log-odds of a labelled
interaction come from a regression without its fold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import log_softmax

from saft.data.network import HIDDEN
from saft.features.folds import FOLDS, VIEWS
from saft.features.ngrams import LARGEST, MOST_FITTED
from saft.features.regression import log_loss, regress

STRENGTHS = (1e-3, 3e-3, 1e-2, 3e-2)  # C: larger is less regularised
STEPS = 100


@dataclass(frozen=True)
class SentenceModel:
    """
    Args:
        centre, spread: (width,) of the vectors of ``fit``.
        weights, bias, log_priors: (width, classes), (classes,), (classes,) of the regression.
        fitted_log_odds: (views, texts, classes) of the texts given to ``fit``, see :mod:`~saft.features.folds`.
    """

    centre: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    log_priors: np.ndarray
    fitted_log_odds: np.ndarray

    @classmethod
    def fit(cls, vectors: np.ndarray, labels: np.ndarray, n_classes: int, folds: np.ndarray, seed: int) -> SentenceModel:
        """Fit to the rows with a label; of the others, only log-odds are computed.

        Args:
            vectors: (texts, width).
            labels: (texts,) HIDDEN where there is none.
            folds: (texts,) of each.
        """
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(np.flatnonzero(labels != HIDDEN))[:MOST_FITTED]
        centre, spread = vectors.mean(axis=0), np.maximum(vectors.std(axis=0), 1e-6)
        columns, known, fold = (vectors[chosen] - centre) / spread, labels[chosen], folds[chosen]
        blank = np.empty((VIEWS, 0, n_classes), np.float32)

        def fitted(some: np.ndarray, strength: float) -> SentenceModel:
            counts = np.bincount(known[some], minlength=n_classes)
            log_priors = np.log((counts + 1) / (counts + 1).sum()).astype(np.float32)
            start = np.zeros((vectors.shape[1] + 1, n_classes))
            start[-1] = log_priors
            rows = torch.from_numpy(columns[some])
            solved = regress(rows, rows.T, known[some], start, strength, STEPS)
            return cls(centre, spread, solved[:-1], solved[-1], log_priors, blank)

        strength = _best_strength(lambda some, strength: fitted(some, strength).weights_and_bias, columns, known, fold)
        models = [fitted(np.flatnonzero(fold != hidden), strength) for hidden in range(FOLDS)]
        models.append(fitted(np.arange(len(chosen)), strength))
        return replace(models[-1], fitted_log_odds=np.stack([model.log_odds(vectors) for model in models]))

    @property
    def weights_and_bias(self) -> tuple[np.ndarray, np.ndarray]:
        return self.weights, self.bias

    def directions(self, vectors: np.ndarray) -> np.ndarray:
        """(texts, width) of length 1, so that their products are cosines; what all texts share is taken out first."""
        centred = vectors - self.centre
        return (centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)).astype(np.float32)

    def log_odds(self, vectors: np.ndarray) -> np.ndarray:
        """(texts, classes)."""
        logits = (vectors - self.centre) / self.spread @ self.weights + self.bias
        return (log_softmax(logits, axis=1) - self.log_priors).clip(-LARGEST, LARGEST).astype(np.float32)


def _best_strength(
    fit: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]],
    columns: np.ndarray,
    known: np.ndarray,
    fold: np.ndarray,
) -> float:
    """The strength with the best likelihood of rows outside of the fit: one fold is enough where rows are many."""
    scored = range(FOLDS) if len(known) < MOST_FITTED // 4 else range(1)
    losses = []
    for strength in STRENGTHS:
        loss = 0.0
        for hidden in scored:
            weights, bias = fit(np.flatnonzero(fold != hidden), strength)
            out = fold == hidden
            loss += log_loss(columns[out] @ weights + bias, known[out]) * out.sum()
        losses.append(loss)
    return STRENGTHS[int(np.argmin(losses))]
