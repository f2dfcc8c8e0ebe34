"""Shortest paths to landmark interactions.

The distance of two interactions on the line graph is 0 for the same pair, else 1 + the shortest path between an end of
the one and an end of the other. Column j of the embedding is 1/(1 + distance to landmark j), 0 where there is no path.
All landmarks are searched at once, a hop at a time, by products of the sparse graph with a block of frontiers.
"""

import numpy as np

from saft.structure.bipartite import BipartiteGraph
from saft.structure.interface import InteractionEmbedding

UNREACHED = np.inf


class ShortestPathEmbedding(InteractionEmbedding):
    """Nearness to ``dim`` landmarks, drawn uniformly from the interactions (so that busy nodes are drawn more often).

    ``user_factors_`` and ``item_factors_`` hold the number of hops from each node to the nearer end of each landmark.
    """

    unknown_factor = UNREACHED

    def _fit(self, graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        rows = rng.permutation(len(graph))[: self.dim]
        self.landmark_users_ = graph.user_codes[graph.users[rows]]
        self.landmark_items_ = graph.item_codes[graph.items[rows]]
        users = np.full((graph.n_users, self.dim), UNREACHED, dtype=np.float32)
        items = np.full((graph.n_items, self.dim), UNREACHED, dtype=np.float32)
        columns = np.arange(len(rows))
        users[graph.users[rows], columns] = 0
        items[graph.items[rows], columns] = 0
        _spread(graph, users, items)
        return users, items

    def _combined(
        self, user_factors: np.ndarray, item_factors: np.ndarray, users: np.ndarray, items: np.ndarray
    ) -> np.ndarray:
        hops = np.minimum(user_factors, item_factors)
        landmarks = len(self.landmark_users_)
        same = (users[:, None] == self.landmark_users_) & (items[:, None] == self.landmark_items_)
        distance = 1 + hops
        distance[:, :landmarks][same] = 0
        return 1 / (1 + distance)

    def _folded(
        self, neighbours: np.ndarray, starts: np.ndarray, degrees: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        return 1 + np.minimum.reduceat(neighbours, starts, axis=0)


def _spread(graph: BipartiteGraph, users: np.ndarray, items: np.ndarray) -> None:
    """Fill in the hops of all nodes, breadth first from those that have 0."""
    hop = 0
    frontiers = users == 0, items == 0
    while frontiers[0].any() or frontiers[1].any():
        hop += 1
        reached_users = (graph.counts @ frontiers[1].astype(np.float32) > 0) & np.isinf(users)
        reached_items = (graph.transposed_counts @ frontiers[0].astype(np.float32) > 0) & np.isinf(items)
        users[reached_users] = hop
        items[reached_items] = hop
        frontiers = reached_users, reached_items
