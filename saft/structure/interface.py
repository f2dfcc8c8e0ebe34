"""Base of all structural embeddings: fit on a graph, transform interactions, fold new nodes in.

An embedding keeps one vector per user and one per item; the embedding of an interaction is their sum (shortest paths
combine them differently). So transforming is two gathers and an addition, whether or not an interaction was in the fit,
and a new user or item needs only a vector of its own.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from saft.errors import InputError
from saft.structure.bipartite import BipartiteGraph, checked

ROWS_AT_ONCE = 16_384


class InteractionEmbedding(ABC):
    """As in scikit-learn, the constructor only stores settings, ``fit`` learns, and learnt attributes end in ``_``.

    Attributes:
        user_factors_, item_factors_: (users, dim) and (items, dim); zero for nodes that are not known.
        known_users_, known_items_: which codes have a vector.
    """

    unknown_factor = 0.0  # what stands in the vector of a node that cannot be folded in

    def __init__(self, dim: int = 64, seed: int = 0) -> None:
        self.dim = dim
        self.seed = seed

    def fit(self, users: np.ndarray, items: np.ndarray) -> Self:
        """Learn from interactions: one entry per interaction, users and items as integer codes from 0."""
        if self.dim < 1:
            raise InputError(f"An embedding needs at least one dimension; got dim={self.dim}.")
        graph = BipartiteGraph(users, items)
        user_factors, item_factors = self._fit(graph)
        # Nodes are numbered inside the graph without gaps; codes that never interact have no vector.
        self.user_factors_ = _scattered(user_factors, graph.user_codes)
        self.item_factors_ = _scattered(item_factors, graph.item_codes)
        self.known_users_ = np.isin(np.arange(len(self.user_factors_)), graph.user_codes)
        self.known_items_ = np.isin(np.arange(len(self.item_factors_)), graph.item_codes)
        return self

    def transform(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """(interactions, dim). New users and items are folded in from these interactions; the tables do not change."""
        users, items = checked(users, items)
        if not len(_unknown(users, self.known_users_)) and not len(_unknown(items, self.known_items_)):
            return self._gathered(self.user_factors_, self.item_factors_, users, items, users, items)
        by_user, by_item = self._folded_tables(users, items)
        return self._gathered(by_user.factors, by_item.factors, by_user.inverse, by_item.inverse, users, items)

    def closeness(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """(interactions, 1) cosine of the user's and of the item's vector: how near the two are in the graph.

        An interaction's own vector does not tell: it is made of both. 0 where one of them is nowhere.
        """
        users, items = checked(users, items)
        by_user, by_item = self._folded_tables(users, items)
        result = np.zeros((len(users), 1), np.float32)
        for first in range(0, len(users), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            one, other = by_user.factors[by_user.inverse[rows]], by_item.factors[by_item.inverse[rows]]
            lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
            np.divide((one * other).sum(axis=1), lengths, out=result[rows, 0], where=lengths > 0, casting="unsafe")
        return result

    def fit_transform(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        return self.fit(users, items).transform(users, items)

    def extend(self, users: np.ndarray, items: np.ndarray) -> Self:
        """Fold in the users and items of these interactions that are not known yet; known ones stay as they are.

        A node gets its vector from its neighbours that have one, so chains of new nodes are filled in step by step.
        Nodes without any path to a known one keep the zero vector.
        """
        users, items = checked(users, items)
        new_users, new_items = _unknown(users, self.known_users_), _unknown(items, self.known_items_)
        if not len(new_users) and not len(new_items):
            return self
        by_user, by_item = self._folded_tables(users, items)
        self.user_factors_, self.known_users_ = _grown(self.user_factors_, self.known_users_, users)
        self.item_factors_, self.known_items_ = _grown(self.item_factors_, self.known_items_, items)
        self.user_factors_[new_users] = by_user.factors_of(new_users)
        self.item_factors_[new_items] = by_item.factors_of(new_items)
        self.known_users_[new_users] = True
        self.known_items_[new_items] = True
        return self

    def _folded_tables(self, users: np.ndarray, items: np.ndarray) -> "tuple[_NodeTable, _NodeTable]":
        """The users and items of these interactions with their vectors, new ones folded in."""
        by_user = _NodeTable.of(users, self.user_factors_, self.known_users_, self.unknown_factor)
        by_item = _NodeTable.of(items, self.item_factors_, self.known_items_, self.unknown_factor)
        rng = np.random.default_rng(self.seed)
        while True:
            # Both sides are computed before either is stored: a round uses the vectors of the round before.
            new_users, user_factors = self._fold_side(by_user, by_item, rng)
            new_items, item_factors = self._fold_side(by_item, by_user, rng)
            if not len(new_users) and not len(new_items):
                return by_user, by_item
            by_user.store(new_users, user_factors)
            by_item.store(new_items, item_factors)

    @abstractmethod
    def _fit(self, graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray]:
        """(user factors, item factors) in the graph's own numbering."""

    @abstractmethod
    def _folded(
        self, neighbours: np.ndarray, starts: np.ndarray, degrees: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Vectors of new nodes.

        Args:
            neighbours: factors of their known neighbours, one row per interaction, node after node.
            starts: where each node's rows start.
            degrees: (nodes, 1) interactions of each node, with known neighbours or not.
        """

    def _combined(
        self, user_factors: np.ndarray, item_factors: np.ndarray, users: np.ndarray, items: np.ndarray
    ) -> np.ndarray:
        """The vectors of interactions from those of their users and items, (interactions, dim) each, and the codes."""
        return user_factors + item_factors

    def _gathered(
        self,
        user_factors: np.ndarray,
        item_factors: np.ndarray,
        user_rows: np.ndarray,
        item_rows: np.ndarray,
        users: np.ndarray,
        items: np.ndarray,
    ) -> np.ndarray:
        """Combine the rows of both tables, a part at a time: at ten million rows this halves the peak of memory."""
        result = np.empty((len(users), self.dim), dtype=user_factors.dtype)
        for first in range(0, len(users), ROWS_AT_ONCE):
            rows = slice(first, first + ROWS_AT_ONCE)
            result[rows] = self._combined(
                user_factors[user_rows[rows]], item_factors[item_rows[rows]], users[rows], items[rows]
            )
        return result

    def _fold_side(
        self, side: "_NodeTable", other: "_NodeTable", rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows of nodes that can be folded in now, their vectors)."""
        usable = ~side.known[side.inverse] & other.known[other.inverse]
        order = np.flatnonzero(usable)[np.argsort(side.inverse[usable], kind="stable")]
        new, starts = np.unique(side.inverse[order], return_index=True)
        if not len(new):
            return new, np.empty((0, self.dim))
        degrees = np.bincount(side.inverse, minlength=len(side.known))[new][:, None]
        return new, self._folded(other.factors[other.inverse[order]], starts, degrees, rng)


@dataclass(frozen=True)
class _NodeTable:
    """The distinct nodes of some interactions, with copies of their vectors."""

    codes: np.ndarray  # (nodes,) ascending
    inverse: np.ndarray  # (interactions,) row of each interaction's node
    factors: np.ndarray  # (nodes, dim), zero where not known
    known: np.ndarray  # (nodes,)

    @classmethod
    def of(cls, nodes: np.ndarray, factors: np.ndarray, known: np.ndarray, unknown_factor: float) -> "_NodeTable":
        codes, inverse = np.unique(nodes, return_inverse=True)
        inside = np.where(codes < len(known), codes, 0)
        there = known[inside] & (codes < len(known))
        return cls(codes, inverse, np.where(there[:, None], factors[inside], unknown_factor), there)

    def store(self, rows: np.ndarray, factors: np.ndarray) -> None:
        self.factors[rows] = factors
        self.known[rows] = True

    def factors_of(self, codes: np.ndarray) -> np.ndarray:
        return self.factors[np.searchsorted(self.codes, codes)]


def mean_of(neighbours: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """(nodes, dim): the mean of each node's rows."""
    counts = np.diff(np.append(starts, len(neighbours)))[:, None]
    return np.add.reduceat(neighbours, starts, axis=0) / counts


def _scattered(factors: np.ndarray, codes: np.ndarray) -> np.ndarray:
    if len(codes) == codes[-1] + 1:  # no gaps
        return factors
    table = np.zeros((codes[-1] + 1, factors.shape[1]), dtype=factors.dtype)
    table[codes] = factors
    return table


def _grown(factors: np.ndarray, known: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables with a row for each of these codes: the same arrays if they suffice, else copies with spare rows.

    The spare rows avoid a copy of the whole table for every single node that is added.
    """
    needed = int(codes.max()) + 1
    if needed <= len(known) and factors.flags.writeable and known.flags.writeable:
        return factors, known
    more = max(needed - len(known), len(known) // 8)
    return np.pad(factors, ((0, more), (0, 0))), np.pad(known, (0, more))


def _unknown(codes: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The distinct codes that have no vector."""
    outside = codes >= len(known)
    return np.unique(codes[outside | ~known[np.where(outside, 0, codes)]])
