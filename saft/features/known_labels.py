"""What the known labels around an interaction say: how its user was labelled elsewhere, and its item by others.

Only labels that are visible count, and never the interaction's own. What training may see is decided by whoever hides
labels before asking; nothing here can see more than it is given.
"""

import numpy as np

from saft.data.network import HIDDEN

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
        self._shares = shares_of(np.bincount(labels[labels != HIDDEN], minlength=n_classes))

    @staticmethod
    def width(n_classes: int) -> int:
        return 2 * (n_classes + 1)

    def around(self, rows: np.ndarray) -> np.ndarray:
        """(rows, 2·(classes + 1)): by user, then by item, log(share here / share overall) per class, log(1 + count).

        With no label known all of it is 0, so that a new user or item says nothing instead of something strange.
        """
        own = self.labels[rows]
        counted = []
        for nodes, counts in self._sides:
            seen = counts[nodes[rows]]
            seen[np.flatnonzero(own != HIDDEN), own[own != HIDDEN]] -= 1  # never its own
            counted.append(seen)
        by_user, by_item = counted
        return hints_of(by_user, by_item, self._shares)


def shares_of(counts: np.ndarray) -> np.ndarray:
    """(…, classes) the share of each class among this many labels, none of them zero."""
    return (counts + 1.0) / (counts + 1.0).sum(axis=-1, keepdims=True)


def hints_of(by_user: np.ndarray, by_item: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """What these counts of labels, (interactions, classes), say against the shares overall, (classes,) or per row."""
    parts = []
    for seen in (by_user, by_item):
        number = seen.sum(axis=1, keepdims=True)
        here = (seen + PRIOR_WEIGHT * shares) / (number + PRIOR_WEIGHT)
        parts += [np.log(here / shares), np.log1p(number)]
    return np.hstack(parts).astype(np.float32)


def _counts(nodes: np.ndarray, labels: np.ndarray, n_nodes: int, n_classes: int) -> np.ndarray:
    """(nodes, classes) how often each node carries each visible label."""
    visible = labels != HIDDEN
    places = nodes[visible].astype(np.int64) * n_classes + labels[visible]
    return np.bincount(places, minlength=n_nodes * n_classes).reshape(n_nodes, n_classes).astype(np.int32)
