"""ContextModel: class log-odds of a text among the texts around it, by one linear model of all their vectors.

    log-odds = own(x) + Σ_sides Σ_others carried_side(x_other) / (number of others + PRIOR)

x is a text's sentence vector, the others are all other interactions of its user (of its item), with a label or without.
Both maps are linear and solved together, by multinomial regression on [x; mean x of the user's others; mean x of the
item's others]. So what an interaction means for others is one number per class and side, and of a node the sum of these
is all that has to be kept.

For a labelled interaction both maps come from a regression without its fold, see :mod:`~saft.features.folds`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from saft.data.network import HIDDEN
from saft.features.fold_regressions import FoldRegressions
from saft.features.folds import VIEWS
from saft.features.ngrams import MOST_FITTED

PRIOR = 2.0  # as if each node had so many more interactions that say nothing


@dataclass(frozen=True)
class ContextModel:
    """
    Args:
        centre: (depths · width,) of the vectors of ``fit``.
        own: (depths · width, classes) map of the own text; its offsets are ``bias``, (classes,).
        carried: (width, 2 · classes) maps of the upper depth to others of the user, and of the item.
        fitted_parts: (views, texts, 3 · classes) of the texts given to ``fit``, see :meth:`parts`.
    """

    centre: np.ndarray
    own: np.ndarray
    bias: np.ndarray
    carried: np.ndarray
    fitted_parts: np.ndarray

    @classmethod
    def fit(
        cls,
        vectors: np.ndarray,
        nodes: tuple[np.ndarray, np.ndarray],
        labels: np.ndarray,
        n_classes: int,
        folds: np.ndarray,
        seed: int,
    ) -> ContextModel:
        """Fit to the rows with a label.

        Args:
            vectors: (texts, depths, width).
            nodes: user and item of each text.
            labels: (texts,) HIDDEN where there is none.
            folds: (texts,) of each.
        """
        chosen = np.random.default_rng(seed).permutation(np.flatnonzero(labels != HIDDEN))[:MOST_FITTED]
        columns = vectors.reshape(len(vectors), -1)
        centre = columns.mean(axis=0)
        centred = columns - centre
        upper = centred[:, -vectors.shape[2] :]
        columns = np.hstack([centred, *(mean_of_others(side, upper) for side in nodes)])
        spread = np.maximum(columns.std(axis=0), 1e-6)
        regressions = FoldRegressions(columns[chosen] / spread, labels[chosen], folds[chosen], n_classes)
        width, nothing = centred.shape[1], np.empty((VIEWS, 0, 3 * n_classes), np.float32)
        models = []
        for solved, log_priors in regressions.views():
            weights, bias = solved[:-1] / spread[:, None], solved[-1] - log_priors
            # Only differences between classes count; around their mean, blank parts say nothing.
            weights, bias = weights - weights.mean(axis=1, keepdims=True), bias - bias.mean()
            by_side = np.hstack(np.split(weights[width:], 2))
            models.append(cls(centre, weights[:width], bias, by_side.astype(np.float32), nothing))
        return replace(models[-1], fitted_parts=np.stack([model.parts(vectors) for model in models]))

    def parts(self, vectors: np.ndarray) -> np.ndarray:
        """(texts, 3 · classes) what a text says of itself, to others of its user, and to others of its item."""
        centred = vectors.reshape(len(vectors), len(self.centre)) - self.centre
        own = centred @ self.own + self.bias
        return np.hstack([own, centred[:, -len(self.carried) :] @ self.carried]).astype(np.float32)


def mean_of_others(nodes: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(rows, width) mean vector of the other rows of the same node, as if PRIOR more of them were zero."""
    order = np.argsort(nodes, kind="stable")
    first = np.flatnonzero(np.diff(nodes[order], prepend=-1))
    sums = np.add.reduceat(vectors[order], first) if len(order) else vectors
    sizes = np.diff(first, append=len(order))
    place = np.empty(len(nodes), np.int64)
    place[order] = np.repeat(np.arange(len(first)), sizes)
    return (sums[place] - vectors) / (sizes[place] - 1 + PRIOR)[:, None].astype(vectors.dtype)
