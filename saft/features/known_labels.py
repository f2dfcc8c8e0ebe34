"""Known labels around an interaction: how its user's other interactions are labelled, and its item's.

Only visible labels count, and never the interaction's own. The caller hides labels before it counts; nothing here can
see more than it is given.
"""

from __future__ import annotations

import numpy as np

from saft.data.network import HIDDEN

# Few labels are pulled towards the shares of the whole network, as if there were this many more of them.
PRIOR_WEIGHT = 2.0


class KnownLabels:
    """Counts of visible labels by user and by item.

    Args:
        labels: visible label of every interaction, or HIDDEN.
        users, items: of every interaction.
        user_counts, item_counts: (nodes, classes) visible labels of each user, of each item.
        totals: (classes,) visible labels of the whole network, or (interactions, classes) where they differ.
    """

    def __init__(
        self,
        labels: np.ndarray,
        users: np.ndarray,
        items: np.ndarray,
        user_counts: np.ndarray,
        item_counts: np.ndarray,
        totals: np.ndarray,
    ) -> None:
        self.labels = labels
        self._sides = ((users, user_counts), (items, item_counts))
        self._shares = label_shares(totals)

    @classmethod
    def count(
        cls, users: np.ndarray, items: np.ndarray, labels: np.ndarray, n_users: int, n_items: int, n_classes: int
    ) -> KnownLabels:
        """Count the labels of a whole network."""
        user_counts = count_labels(users, labels, n_users, n_classes)
        item_counts = count_labels(items, labels, n_items, n_classes)
        totals = np.bincount(labels[labels != HIDDEN], minlength=n_classes)
        return cls(labels, users, items, user_counts, item_counts, totals)

    @staticmethod
    def width(n_classes: int) -> int:
        return 2 * (n_classes + 1)

    def features(self, rows: np.ndarray) -> np.ndarray:
        """(rows, 2·(classes + 1)): by user, then by item, log(share here / share overall) per class, log(1 + count).

        All zeros where no label is known.
        """
        own = self.labels[rows]
        shares = self._shares if self._shares.ndim == 1 else self._shares[rows]
        parts = []
        for nodes, counts in self._sides:
            seen = counts[nodes[rows]]
            seen[np.flatnonzero(own != HIDDEN), own[own != HIDDEN]] -= 1  # without its own label
            number = seen.sum(axis=1, keepdims=True)
            here = (seen + PRIOR_WEIGHT * shares) / (number + PRIOR_WEIGHT)
            parts += [np.log(here / shares), np.log1p(number)]
        return np.hstack(parts).astype(np.float32)


def label_shares(counts: np.ndarray) -> np.ndarray:
    """(…, classes) the share of each class among these counts, smoothed so that none is zero."""
    return (counts + 1.0) / (counts + 1.0).sum(axis=-1, keepdims=True)


def count_labels(nodes: np.ndarray, labels: np.ndarray, n_nodes: int, n_classes: int) -> np.ndarray:
    """(nodes, classes) how often each node carries each visible label."""
    visible = labels != HIDDEN
    places = nodes[visible].astype(np.int64) * n_classes + labels[visible]
    return np.bincount(places, minlength=n_nodes * n_classes).reshape(n_nodes, n_classes).astype(np.int32)
