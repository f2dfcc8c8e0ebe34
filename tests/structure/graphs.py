"""Small graphs of every awkward kind, and slow literal versions of the paper's matrices."""

import numpy as np


def random_graph(users: int, items: int, interactions: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Every user and item interacts at least once; the rest is random, repeated pairs included."""
    rng = np.random.default_rng(seed)
    more = interactions - users - items
    u = np.concatenate([np.arange(users), rng.integers(users, size=items), rng.integers(users, size=more)])
    i = np.concatenate([rng.integers(items, size=users), np.arange(items), rng.integers(items, size=more)])
    return u, i


def connected() -> tuple[np.ndarray, np.ndarray]:
    u, i = random_graph(9, 7, 30, seed=3)
    return np.append(u, np.arange(9)), np.append(i, np.zeros(9, dtype=int))  # every user has an interaction with item 0


def beside(*graphs: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The graphs side by side, as components of one."""
    users, items, n_users, n_items = [], [], 0, 0
    for u, i in graphs:
        users.append(u + n_users)
        items.append(i + n_items)
        n_users, n_items = n_users + u.max() + 1, n_items + i.max() + 1
    return np.concatenate(users), np.concatenate(items)


def tree() -> tuple[np.ndarray, np.ndarray]:
    return np.array([0, 0, 1, 1, 2, 3]), np.array([0, 1, 1, 2, 2, 2])


PAIR = np.array([0]), np.array([0])
GRAPHS = {
    "connected": connected(),
    "repeated pairs": tuple(np.tile(part, 2) for part in connected()),
    "three components": beside(connected(), tree(), connected()),
    "isolated pairs": beside(PAIR, connected(), PAIR, PAIR),
    "tree": tree(),
}


def incidence(users: np.ndarray, items: np.ndarray, sign: int = 1) -> np.ndarray:
    """E (or B with sign = −1): nodes × interactions, users first."""
    n_users, n_items = users.max() + 1, items.max() + 1
    matrix = np.zeros((n_users + n_items, len(users)))
    matrix[users, np.arange(len(users))] = 1
    matrix[n_users + items, np.arange(len(users))] = sign
    return matrix


def transitions(users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """P = Eᵀ D⁻¹ E / 2: from an interaction to one of its ends, and to one of that end's interactions."""
    ends = incidence(users, items)
    return ends.T @ np.diag(1 / ends.sum(axis=1)) @ ends / 2


def components(users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The component of every interaction, by flooding."""
    neighbours = incidence(users, items).T @ incidence(users, items) > 0
    label = np.arange(len(users))
    while True:
        spread = np.where(neighbours, label[None], len(users)).min(axis=1)
        if np.array_equal(spread, label):
            return label
        label = spread


def squared_distances(vectors: np.ndarray) -> np.ndarray:
    return ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
