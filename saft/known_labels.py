"""What the known labels around an interaction say: how its user was labelled elsewhere, and its item by others.

Only labels that are visible count, and never the interaction's own. What training may see is decided by whoever hides
labels before asking; nothing here can see more than it is given.
"""

import numpy as np

from saft.network import HIDDEN

# Worth this many labels: how strongly few labels are pulled towards the shares of the whole network.
PRIOR_WEIGHT = 2.0


class KnownLabels:
    """Counts of visible labels by user and by item.

    Args:
        users, items: of every interaction.
        labels: visible label of every interaction, or HIDDEN.
    """

    def __init__(
        self,
        users: np.ndarray,
        items: np.ndarray,
        labels: np.ndarray,
        n_users: int,
        n_items: int,
        n_classes: int,
    ) -> None:
        self.labels, self.n_classes = labels, n_classes
        self._sides = (
            (users, _counts(users, labels, n_users, n_classes)),
            (items, _counts(items, labels, n_items, n_classes)),
        )
        total = np.bincount(labels[labels != HIDDEN], minlength=n_classes) + 1.0
        self._shares = total / total.sum()

    @staticmethod
    def width(n_classes: int) -> int:
        return 2 * (n_classes + 1)

    def around(self, rows: np.ndarray) -> np.ndarray:
        """(rows, 2·(classes + 1)): by user, then by item, log(share here / share overall) per class, log(1 + count).

        With no label known all of it is 0, so that a new user or item says nothing instead of something strange.
        """
        own = self.labels[rows]
        parts = []
        for nodes, counts in self._sides:
            seen = counts[nodes[rows]].astype(np.float64)
            seen[np.flatnonzero(own != HIDDEN), own[own != HIDDEN]] -= 1  # never its own
            number = seen.sum(axis=1, keepdims=True)
            shares = (seen + PRIOR_WEIGHT * self._shares) / (number + PRIOR_WEIGHT)
            parts += [np.log(shares / self._shares), np.log1p(number)]
        return np.hstack(parts).astype(np.float32)


def _counts(nodes: np.ndarray, labels: np.ndarray, n_nodes: int, n_classes: int) -> np.ndarray:
    """(nodes, classes) how often each node carries each visible label."""
    visible = labels != HIDDEN
    places = nodes[visible].astype(np.int64) * n_classes + labels[visible]
    return np.bincount(places, minlength=n_nodes * n_classes).reshape(n_nodes, n_classes).astype(np.int32)
