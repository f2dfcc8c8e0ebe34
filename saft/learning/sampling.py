"""Which neighbours an interaction has, and which interactions share a batch. Seeded, and vectorised over all nodes.

The neighbours of a user (or item) are a sample of its interactions, shared by all of them: S_u and S_i, at most b each.
A batch is its seed rows (those to predict) and the samples of their users and items. Each interaction costs an encoding
of its text, so batches whose seed rows share users and items are cheaper, but too similar ones train worse. So
``plan_batches`` puts small groups that share a node into random batches; ``encoded_per_seed_row`` measures the cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from saft.errors import InputError, did_you_mean
from saft.hashing import fixed_keys
from saft.settings import Settings

WEIGHTS = ("distance", "centrality", "random")


@dataclass(frozen=True)
class Neighbours:
    """Rows of interactions, node after node: those of node n are ``rows[starts[n]:starts[n + 1]]``."""

    starts: np.ndarray  # (nodes + 1,)
    rows: np.ndarray

    @classmethod
    def none(cls, n_nodes: int) -> Neighbours:
        """For nodes without neighbours."""
        return cls(np.zeros(n_nodes + 1, np.int64), np.empty(0, np.int64))

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """The rows of all these nodes, one node after the other."""
        counts = self.starts[nodes + 1] - self.starts[nodes]
        ends = np.cumsum(counts)
        offsets = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        return self.rows[np.repeat(self.starts[nodes], counts) + offsets]


def all_neighbours(nodes: np.ndarray, n_nodes: int) -> Neighbours:
    """Every interaction of every node; ``nodes`` is the user (or item) of each interaction."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=n_nodes))])
    return Neighbours(starts, np.argsort(nodes, kind="stable"))


def sample_neighbours(
    candidates: Neighbours, most: int, rng: np.random.Generator, weights: np.ndarray | None = None
) -> Neighbours:
    """Up to ``most`` of each node's candidates, without replacement, with probability ∝ weight at every draw.

    An exponential race: candidate x gets the key Exp(1)/w(x), and the smallest keys of each node win. (The first has
    probability w/Σw, the next the same among those left, as if drawn one by one.) Candidates of weight 0 are not
    drawn, unless all of a node's are 0: then all are equal.

    Args:
        weights: of every interaction, by row; None means all equal.
    """
    return race(candidates, most, rng.standard_exponential(len(candidates.rows), dtype=np.float32), weights)


def fixed_neighbours(candidates: Neighbours, most: int, seed: int, weights: np.ndarray | None = None) -> Neighbours:
    """As :func:`sample_neighbours`, by keys that depend only on the seed and each row's number.

    So a node's sample is the same whatever else is in the network, and changes little as rows are added.
    """
    return race(candidates, most, fixed_keys(candidates.rows, seed), weights)


def drawn(
    settings: Settings,
    candidates: Neighbours,
    nodes: np.ndarray,
    n_nodes: int,
    vectors: np.ndarray | None,
    rng: np.random.Generator | None,
) -> Neighbours:
    """As the settings say: drawn anew for training; without a generator, the fixed sample of every node."""
    weights = neighbour_weights(settings.sampling, nodes, n_nodes, vectors)
    if rng is None:
        return fixed_neighbours(candidates, settings.sample_size, settings.seed, weights)
    return sample_neighbours(candidates, settings.sample_size, rng, weights)


def race(candidates: Neighbours, most: int, keys: np.ndarray, weights: np.ndarray | None = None) -> Neighbours:
    """The sample of each node, given the candidates' Exp(1) keys."""
    if most < 1:
        raise InputError(f"A sample needs room for at least one neighbour; got {most}.")
    counts = np.diff(candidates.starts)
    if weights is not None:
        keys = _raced(keys, _usable(weights[candidates.rows], candidates.starts))
    chosen = np.isfinite(keys)
    crowded = np.flatnonzero(counts > most)
    if len(crowded):
        _keep_smallest(chosen, keys, candidates.starts, crowded, most)
    taken = np.concatenate([[0], np.cumsum(chosen)])
    return Neighbours(taken[candidates.starts], candidates.rows[chosen])


def neighbour_weights(
    kind: str,
    nodes: np.ndarray,
    n_nodes: int,
    vectors: np.ndarray | None = None,
    seed_rows: np.ndarray | None = None,
) -> np.ndarray | None:
    """Weight of every interaction as a neighbour of its user (or item), for :func:`sample_neighbours`.

    ``distance``: (Σ z of the node's seed rows) · z, below 0 counted as 0. The paper weighs by z_target · z, but a
    sample that all seed rows of a node share cannot depend on one of them; this is the sum over all of them.
    ``centrality``: ‖z‖². ``random``: None, all equal.

    Args:
        nodes: the user (or item) of each interaction.
        vectors: (interactions, k) distance or centrality embedding.
        seed_rows: rows that distances are taken to, e.g. those of a batch; None means every interaction.
    """
    if kind not in WEIGHTS:
        raise InputError(f"Cannot sample by {kind!r}.{did_you_mean(kind, WEIGHTS)} Known are {', '.join(WEIGHTS)}.")
    if kind == "random":
        return None
    if vectors is None or len(vectors) != len(nodes):
        raise InputError(f"Sampling by {kind} needs the embedding of every interaction.")
    if kind == "centrality":
        return np.einsum("ij,ij->i", vectors, vectors)
    rows = np.arange(len(nodes)) if seed_rows is None else np.asarray(seed_rows)
    of_nodes = all_neighbours(nodes[rows], n_nodes)
    active = np.flatnonzero(np.diff(of_nodes.starts))
    anchors = np.zeros((n_nodes, vectors.shape[1]), dtype=vectors.dtype)
    anchors[active] = np.add.reduceat(vectors[rows[of_nodes.rows]], of_nodes.starts[active], axis=0)
    return np.maximum(np.einsum("ij,ij->i", anchors[nodes], vectors), 0)


def plan_batches(
    users: np.ndarray, items: np.ndarray, seed_rows: np.ndarray, size: int, *, group_size: int = 4, seed: int = 0
) -> list[np.ndarray]:
    """Seed rows in batches of ``size``, each once, in an order that the seed determines.

    Each seed row is grouped with others of its user or of its item, at random, at most ``group_size`` in a group;
    groups then come in random order. ``group_size=1`` is plain shuffling.
    """
    if size < 1 or group_size < 1:
        raise InputError(f"Batches and groups need at least one seed row; got size={size}, group_size={group_size}.")
    rng = np.random.default_rng(seed)
    seed_rows = rng.permutation(np.asarray(seed_rows))
    by_user = rng.random(len(seed_rows)) < 0.5
    node = np.where(by_user, users[seed_rows], items[seed_rows].astype(np.int64) + int(users.max(initial=-1)) + 1)
    order = np.argsort(node, kind="stable")
    node, seed_rows = node[order], seed_rows[order]
    first_of_node = np.flatnonzero(np.diff(node, prepend=-1))
    place = np.arange(len(node)) - np.repeat(first_of_node, np.diff(np.append(first_of_node, len(node))))
    group = np.cumsum((place % group_size) == 0) - 1
    shuffled = rng.permutation(int(group[-1]) + 1 if len(group) else 0)[group]
    seed_rows = seed_rows[np.argsort(shuffled, kind="stable")]
    return [seed_rows[start : start + size] for start in range(0, len(seed_rows), size)]


def batch_rows(
    seed_rows: np.ndarray, users: np.ndarray, items: np.ndarray, of_users: Neighbours, of_items: Neighbours
) -> np.ndarray:
    """The distinct interactions of a batch: its seed rows, then the rest of S_u, S_i of their users and items."""
    neighbours = np.concatenate([of_users.of(np.unique(users[seed_rows])), of_items.of(np.unique(items[seed_rows]))])
    return np.concatenate([seed_rows, np.setdiff1d(neighbours, seed_rows)])


def encoded_per_seed_row(
    batches: list[np.ndarray], users: np.ndarray, items: np.ndarray, of_users: Neighbours, of_items: Neighbours
) -> float:
    """How many texts these batches encode per seed row: 1 would mean that neighbours cost nothing."""
    rows = sum(len(batch_rows(batch, users, items, of_users, of_items)) for batch in batches)
    return rows / sum(len(batch) for batch in batches)


def _usable(weights: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Weights of the candidates, with ones for nodes whose candidates all have weight 0."""
    if not np.isfinite(weights).all() or weights.min(initial=0) < 0:
        raise InputError("Sampling weights have to be finite and not below 0.")
    counts = np.diff(starts)
    active = np.flatnonzero(counts)
    hopeless = np.zeros(len(counts), dtype=bool)
    hopeless[active] = np.maximum.reduceat(weights, starts[active]) == 0 if len(active) else False
    return np.where(np.repeat(hopeless, counts), 1, weights) if hopeless.any() else weights


def _raced(keys: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Exp(1)/w; weights of any scale, zeros as infinity."""
    scaled = weights / max(float(weights.max(initial=0)), np.finfo(np.float64).tiny)
    return np.divide(keys, scaled, out=np.full(len(keys), np.inf), where=scaled > 0)


def _keep_smallest(chosen: np.ndarray, keys: np.ndarray, starts: np.ndarray, crowded: np.ndarray, most: int) -> None:
    """Leave only the ``most`` smallest keys of each crowded node chosen.

    Sorts only crowded nodes: their (node, key) pairs as one integer each, since positive floats compare like their
    bits.
    """
    counts = starts[crowded + 1] - starts[crowded]
    ends = np.cumsum(counts)
    inside = np.arange(ends[-1]) - np.repeat(ends - counts - starts[crowded], counts)  # positions of their candidates
    bits = keys[inside].astype(np.float32).view(np.uint32).astype(np.uint64)
    order = np.argsort((np.repeat(np.arange(len(crowded), dtype=np.uint64), counts) << np.uint64(32)) | bits)
    rank = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    chosen[inside[order[rank >= most]]] = False
