"""Distance embedding: interactions that are near each other in the graph get vectors that are near each other.

The paper takes the top-k SVD of M = D^(-1/2) E = U Σ Vᵀ (E is the nodes × interactions incidence) and
Z = V (I − Σ²/2)^(-1/2). Here the same Z comes from the users × items matrix, which is far smaller:

M Mᵀ = I + N with N the normalised adjacency. If N φ = λ φ with ‖φ‖ = 1, then σ² = 1 + λ,
v(e) = (φ_u/√d_u + φ_i/√d_i) / √(1 + λ), and a kernel that weighs σ²/2 by g is z(e) = v(e) √g(σ²/2).
Eigenpairs of N are (x, ±y)/√2 with λ = ±μ for the singular triples (x, μ, y) of Â.

λ = 1 occurs once per connected component and would be weighed by 1/0; these directions are constant on each component
and carry no information about distances inside it. All of them are dropped.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from saft.errors import InputError
from saft.structure.bipartite import BipartiteGraph
from saft.structure.interface import ROWS_AT_ONCE, InteractionEmbedding, mean_of
from saft.structure.solvers import fix_signs, top_eigenpairs

# Up to this many nodes all eigenpairs are computed densely: exact, complete, and faster than iterating.
DENSE_UP_TO = 1500
CLOSE_TO_ONE, SMALLEST_GAP = 1e-3, 1e-12
SMALLEST = 1e-8  # eigenvalues below are rounding errors; folding in divides by them


@dataclass(frozen=True)
class NormalisedSpectrum:
    """Eigenpairs of N, largest eigenvalue first, without the ones at ±1 that every component has."""

    values: np.ndarray  # (k,) λ
    user_vectors: np.ndarray  # (users, k) φ_u/√d_u
    item_vectors: np.ndarray  # (items, k) φ_i/√d_i


def normalised_spectrum(graph: BipartiteGraph, dim: int, seed: int) -> NormalisedSpectrum:
    """At most ``dim`` eigenpairs: fewer where the graph has no more, and on large graphs only those with λ > 0.

    (On large graphs whatever follows the positive ones is a vast space of λ = 0, any basis of which is arbitrary.)
    """
    if graph.n_nodes <= DENSE_UP_TO:
        values, users, items = _dense(graph)
    else:
        values, users, items = _iterated(graph, min(dim, min(graph.n_users, graph.n_items)), seed)
    values, users, items = values[:dim], users[:, :dim].copy(), items[:, :dim].copy()
    fix_signs(users, items)
    scale_users, scale_items = (degrees[:, None] ** -0.5 for degrees in (graph.user_degrees, graph.item_degrees))
    return NormalisedSpectrum(values, users * scale_users.astype(users.dtype), items * scale_items.astype(items.dtype))


def _dense(graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    normalised = graph.normalised(np.eye(graph.n_items, dtype=graph.precision))
    adjacency = np.zeros((graph.n_nodes, graph.n_nodes))
    adjacency[: graph.n_users, graph.n_users :] = normalised
    adjacency[graph.n_users :, : graph.n_users] = normalised.T
    values, vectors = eigh(adjacency)
    null = graph.components[0]  # exactly this many eigenvalues are 1, and as many are −1
    kept = slice(null, graph.n_nodes - null)
    values, vectors = values[::-1][kept], vectors[:, ::-1][:, kept]
    return values, vectors[: graph.n_users], vectors[graph.n_users :]


def _iterated(graph: BipartiteGraph, wanted: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    def deflated(block: np.ndarray) -> np.ndarray:
        return graph.gram(graph.without_null(block))

    squared, smaller = top_eigenpairs(deflated, min(graph.n_users, graph.n_items), wanted, graph.precision, seed)
    smaller = graph.without_null(smaller)  # rounding
    kept = squared > 10 * np.finfo(graph.precision).eps  # the rest is rounding, and folding in divides by it
    values, smaller = np.sqrt(np.minimum(squared[kept], 1)), smaller[:, kept]
    larger = graph.across(smaller) / values.astype(smaller.dtype)
    half = np.asarray(0.5, dtype=smaller.dtype) ** 0.5
    users, items = graph.by_side(smaller * half, larger * half)
    close = np.flatnonzero(values > 1 - CLOSE_TO_ONE)
    values[close] = 1 - _gaps(graph, users[:, close], items[:, close])
    return values, users, items


def _gaps(graph: BipartiteGraph, users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """1 − λ of these eigenvectors as Σ_e (φ_u/√d_u − φ_i/√d_i)², which keeps its digits where 1 − λ itself loses them.

    Two large parts that a single interaction joins have a λ so close to 1 that rounding could make it 1, and the weight
    of the direction infinite.
    """
    users = users * graph.user_degrees[:, None] ** -0.5
    items = items * graph.item_degrees[:, None] ** -0.5
    gaps = np.zeros(users.shape[1])
    for first in range(0, len(graph), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        gaps += ((users[graph.users[rows]] - items[graph.items[rows]]) ** 2).sum(axis=0)
    return np.maximum(gaps, SMALLEST_GAP)


class KernelEmbedding(InteractionEmbedding):
    """Z = V √g(σ²/2): inner products are those of the kernel g of the transition matrix on interactions."""

    def _fit(self, graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray]:
        kernel = self._kernel()
        spectrum = normalised_spectrum(graph, self.dim, self.seed)
        halves = (1 + spectrum.values) / 2  # σ²/2, an eigenvalue of the transition matrix
        weights = np.sqrt(kernel(halves) / (1 + spectrum.values)).astype(spectrum.user_vectors.dtype)
        self.values_ = np.zeros(self.dim)
        self.values_[: len(weights)] = spectrum.values
        return widened(spectrum.user_vectors * weights, self.dim), widened(spectrum.item_vectors * weights, self.dim)

    @abstractmethod
    def _kernel(self) -> Callable[[np.ndarray], np.ndarray]:
        """g; an error if a setting is out of range."""

    def _folded(
        self, neighbours: np.ndarray, starts: np.ndarray, degrees: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """N φ = λ φ read as a definition: a node's vector is the mean of its neighbours' vectors divided by λ."""
        usable = np.abs(self.values_) > SMALLEST
        return mean_of(neighbours, starts) * np.divide(1, self.values_, out=np.zeros(self.dim), where=usable)


class DistanceEmbedding(KernelEmbedding):
    """Resistance distance on the line graph (``alpha`` = 1), or its Katz-damped variant (``alpha`` < 1).

    g(σ²/2) = 1/(1 − α σ²/2). At full rank and α = 1, for interactions e ≠ e' of one component,
    RD(e, e') = ‖z_e − z_e'‖² + 2 − ‖v_e − v_e'‖²; the paper leaves out the last two terms, which vanish only where
    V Vᵀ = I, that is on trees.

    Args:
        dim: number of columns; those beyond the rank are zero.
        alpha: damping in (0, 1].
        seed: of the starting block. Same seed, same result.
    """

    def __init__(self, dim: int = 64, alpha: float = 1.0, seed: int = 0) -> None:
        super().__init__(dim, seed)
        self.alpha = alpha

    def _kernel(self) -> Callable[[np.ndarray], np.ndarray]:
        if not 0 < self.alpha <= 1:
            raise InputError(f"alpha has to be above 0 and at most 1; got {self.alpha}.")
        return lambda halves: 1 / (1 - self.alpha * halves)


def widened(factors: np.ndarray, dim: int) -> np.ndarray:
    """The factors with zero columns up to ``dim``: a graph of low rank has fewer eigenpairs."""
    return np.pad(factors, ((0, 0), (0, dim - factors.shape[1])))
