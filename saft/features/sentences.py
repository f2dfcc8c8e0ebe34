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
from saft.features.fold_regressions import FoldRegressions
from saft.features.folds import VIEWS
from saft.features.ngrams import LARGEST, MOST_FITTED


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
        regressions = FoldRegressions((columns[chosen] - centre) / spread, labels[chosen], folds[chosen], n_classes)
        blank = np.empty((VIEWS, 0, n_classes), np.float32), np.empty((0, vectors.shape[2]), np.float16)
        models = [
            cls(centre, spread, solved[:-1], solved[-1], log_priors, *blank)
            for solved, log_priors in regressions.views()
        ]
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
