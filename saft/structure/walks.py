"""node2vec (Grover and Leskovec 2016) on the user-item graph, with walks for all nodes at once.

Walks: from w, having come from v, the next node x is drawn with weight 1/p if x = v and 1/q otherwise. (The third case
of the paper, x adjacent to v, does not occur: a bipartite graph has no triangles.) Parallel interactions count.

Vectors: skip-gram with negative sampling factorises the shifted pointwise mutual information of nodes that occur within
a window (Levy and Goldberg 2014), so that matrix is counted from the walks and factorised directly: deterministic, and
no library beyond scipy.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from saft.structure.bipartite import BipartiteGraph
from saft.structure.distance import widened
from saft.structure.interface import InteractionEmbedding, mean_of
from saft.structure.solvers import fix_signs, top_eigenpairs

MOST_TRIES = 64  # proposals per step; the chance that all are refused is below (1 − smallest/largest weight)^64


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of every node (users first, then items), one entry per interaction."""

    starts: np.ndarray  # (nodes + 1,)
    neighbours: np.ndarray  # (2 × interactions,)

    @classmethod
    def of(cls, graph: BipartiteGraph) -> "Adjacency":
        source = np.concatenate([graph.users, graph.items + graph.n_users])
        target = np.concatenate([graph.items + graph.n_users, graph.users])
        degrees = np.concatenate([graph.user_degrees, graph.item_degrees])
        return cls(np.concatenate([[0], np.cumsum(degrees)]), target[np.argsort(source, kind="stable")])

    def step(self, nodes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A uniformly drawn interaction of each node, followed to its other end."""
        degrees = self.starts[nodes + 1] - self.starts[nodes]
        return self.neighbours[self.starts[nodes] + (rng.random(len(nodes)) * degrees).astype(np.int64)]


def random_walks(
    adjacency: Adjacency, nodes: np.ndarray, length: int, rng: np.random.Generator, p: float = 1.0, q: float = 1.0
) -> np.ndarray:
    """(walks, length) nodes; one walk from each of ``nodes``."""
    walks = np.empty((len(nodes), length), dtype=np.int32)
    walks[:, 0] = nodes
    for place in range(1, length):
        walks[:, place] = adjacency.step(walks[:, place - 1], rng)
        if place > 1 and p != q:
            _reconsider(walks, place, adjacency, rng, p, q)
    return walks


def _reconsider(
    walks: np.ndarray, place: int, adjacency: Adjacency, rng: np.random.Generator, p: float, q: float
) -> None:
    """Rejection sampling: uniform proposals, each kept with its weight over the largest one, or drawn again."""
    largest = max(1 / p, 1 / q)
    undecided = np.arange(len(walks))
    for _ in range(MOST_TRIES):
        back = walks[undecided, place] == walks[undecided, place - 2]
        accept = rng.random(len(undecided)) * largest < np.where(back, 1 / p, 1 / q)
        undecided = undecided[~accept]
        if not len(undecided):
            return
        walks[undecided, place] = adjacency.step(walks[undecided, place - 1], rng)


def shifted_mutual_information(walks: np.ndarray, n_nodes: int, window: int, negatives: float = 1.0) -> csr_array:
    """max(0, log(#(a, b) · total / (#a · #b)) − log negatives) for nodes a, b within a window, in both directions."""
    counts = csr_array((n_nodes, n_nodes), dtype=np.float32)
    for offset in range(1, min(window, walks.shape[1] - 1) + 1):
        left, right = walks[:, :-offset].ravel(), walks[:, offset:].ravel()
        counts = counts + coo_array((np.ones(len(left), np.float32), (left, right)), shape=counts.shape).tocsr()
    counts = (counts + counts.T).tocoo()
    occurrences = np.bincount(counts.row, weights=counts.data, minlength=n_nodes)
    expected = occurrences[counts.row] * occurrences[counts.col] / occurrences.sum()
    information = np.maximum(np.log(counts.data / expected) - np.log(negatives), 0)
    result = coo_array((information, (counts.row, counts.col)), shape=counts.shape).tocsr()
    result.eliminate_zeros()
    return result


class Node2Vec(InteractionEmbedding):
    """The mean of the user's and the item's node2vec vectors.

    Args:
        walks, length, window: per node; more is smoother and slower.
        p, q: return and in-out parameters.
    """

    def __init__(
        self,
        dim: int = 64,
        walks: int = 5,
        length: int = 10,
        window: int = 4,
        p: float = 1.0,
        q: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(dim, seed)
        self.walks, self.length, self.window, self.p, self.q = walks, length, window, p, q

    def _fit(self, graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        starts = np.tile(np.arange(graph.n_nodes), self.walks)
        walks = random_walks(Adjacency.of(graph), starts, self.length, rng, self.p, self.q)
        information = shifted_mutual_information(walks, graph.n_nodes, self.window).astype(graph.precision)
        # The best W Wᵀ for a symmetric matrix: its largest eigenvalues, as far as they are above 0.
        values, vectors = top_eigenpairs(
            lambda block: information @ block, graph.n_nodes, self.dim, graph.precision, self.seed
        )
        vectors = vectors * np.sqrt(np.maximum(values, 0)).astype(vectors.dtype) / 2  # so that sums are means
        fix_signs(vectors)
        vectors = widened(vectors, self.dim)
        return vectors[: graph.n_users], vectors[graph.n_users :]

    def _folded(
        self, neighbours: np.ndarray, starts: np.ndarray, degrees: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        return mean_of(neighbours, starts)
