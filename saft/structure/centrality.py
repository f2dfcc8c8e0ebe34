"""Centrality embedding: how much an interaction holds the graph together.

The spanning centrality s(e) is the share of spanning trees that contain e: 1 for a bridge, small inside a dense part.
It is the squared norm of row e of Ψ, the right singular vectors of the oriented incidence B. With L = B Bᵀ = D − A and
L φ = λ φ: ψ(e) = (φ_u − φ_i)/√λ.

Two embeddings. ``spectral`` is the paper's: the k largest eigenpairs of L. Cut off at k it covers little but hubs.
``sketch`` is unbiased at any k: rows of Bᵀ L⁺ B Q with Q random signs ±1/√k, so that E‖·‖² = s(e).
"""

from abc import abstractmethod
from functools import partial

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import coo_array

from saft.errors import InputError, did_you_mean
from saft.structure.bipartite import BipartiteGraph
from saft.structure.distance import DENSE_UP_TO, widened
from saft.structure.interface import InteractionEmbedding, mean_of
from saft.structure.solvers import fix_signs, solve, top_eigenpairs

METHODS = ("spectral", "sketch")


class LaplacianEmbedding(InteractionEmbedding):
    """z(e) = w(λ) (φ_u + φ_i) for eigenpairs (λ, φ) of D + A, which is D − A with the items' signs flipped."""

    def _fit(self, graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray]:
        values, users, items = self._spectrum(graph)
        self.values_ = np.pad(values, (0, self.dim - len(values)))
        weights = self._weights(values, graph).astype(users.dtype)
        return widened(users * weights, self.dim), widened(items * weights, self.dim)

    def _spectrum(self, graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(eigenvalues, users' and items' parts of the eigenvectors): the largest, unless overridden."""
        return signless_spectrum(graph, self.dim, self.seed)

    @abstractmethod
    def _weights(self, values: np.ndarray, graph: BipartiteGraph) -> np.ndarray:
        """w(λ)."""

    def _folded(
        self, neighbours: np.ndarray, starts: np.ndarray, degrees: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """(D + A) φ = λ φ read as a definition: φ of a new node is the sum over its neighbours divided by λ − d."""
        gap = self.values_ - degrees
        gap = np.where(np.abs(gap) < 1, np.where(gap < 0, -1.0, 1.0), gap)  # λ ≈ d: avoids division by 0
        return np.add.reduceat(neighbours, starts, axis=0) / gap * (self.values_ > 0)


class CentralityEmbedding(LaplacianEmbedding):
    """Vectors whose squared norms estimate (``sketch``) or bound from below (``spectral``) the spanning centrality.

    Args:
        dim: number of columns; those beyond the rank are zero.
        method: ``spectral`` (the paper's) or ``sketch`` (unbiased, as many Laplacian solves as columns).
        seed: of the starting vector or of the signs.
    """

    def __init__(self, dim: int = 64, method: str = "spectral", seed: int = 0) -> None:
        super().__init__(dim, seed)
        self.method = method

    def _fit(self, graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray]:
        if self.method not in METHODS:
            raise InputError(
                f"There is no centrality method {self.method!r}.{did_you_mean(self.method, METHODS)} "
                f"Known are {', '.join(METHODS)}."
            )
        return _sketch(graph, self.dim, self.seed) if self.method == "sketch" else super()._fit(graph)

    def _weights(self, values: np.ndarray, graph: BipartiteGraph) -> np.ndarray:
        return values**-0.5

    def _folded(
        self, neighbours: np.ndarray, starts: np.ndarray, degrees: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        if self.method == "spectral":
            return super()._folded(neighbours, starts, degrees, rng)
        # Row of L y = B q for the new node: its own signs, and the potentials of its neighbours (stored negated).
        signs = rng.choice([-1.0, 1.0], size=neighbours.shape) / np.sqrt(self.dim)
        return mean_of(signs, starts) - mean_of(neighbours, starts)


def signless_spectrum(graph: BipartiteGraph, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ``dim`` largest eigenvalues of D + A above 0, with the users' and items' parts of its eigenvectors.

    On a bipartite graph D + A is D − A with the items' signs flipped, so that differences over interactions become
    sums: ψ(e) = (φ_u + φ_i)/√λ.
    """
    if graph.n_nodes <= DENSE_UP_TO:
        values, vectors = eigh(signless_product(graph, np.eye(graph.n_nodes)))
        zeros = graph.components[0]  # the zeros come first, one per component
        values, vectors = values[zeros:][::-1], vectors[:, zeros:][:, ::-1]
    else:
        values, vectors = top_eigenpairs(partial(signless_product, graph), graph.n_nodes, dim, graph.precision, seed)
        kept = values > 1e3 * np.finfo(graph.precision).eps * values[0]  # the rest is 0, and weights divide by it
        values, vectors = values[kept], vectors[:, kept]
    values, vectors = values[:dim], vectors[:, :dim]
    users, items = vectors[: graph.n_users].copy(), vectors[graph.n_users :].copy()
    fix_signs(users, items)
    return values, users, items


def signless_product(graph: BipartiteGraph, block: np.ndarray) -> np.ndarray:
    """(D + A) times a block of node vectors."""
    users, items = block[: graph.n_users], block[graph.n_users :]
    result = np.empty_like(block)
    np.multiply(users, graph.user_degrees[:, None], out=result[: graph.n_users], casting="same_kind")
    np.multiply(items, graph.item_degrees[:, None], out=result[graph.n_users :], casting="same_kind")
    result[: graph.n_users] += graph.counts @ items
    result[graph.n_users :] += graph.transposed_counts @ users
    return result


def _sketch(graph: BipartiteGraph, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Potentials y = L⁺ B Q, items' negated: their sum over an interaction is its row of Bᵀ L⁺ B Q."""
    rng = np.random.default_rng(seed)
    users = np.empty((graph.n_users, dim), dtype=graph.precision)
    items = np.empty((graph.n_items, dim), dtype=graph.precision)
    # Column by column: signs for all interactions at once would be the largest array of all.
    for column in range(dim):
        signs = (rng.integers(0, 2, size=len(graph), dtype=np.int8) * 2 - 1).astype(np.float64)
        users[:, column] = np.bincount(graph.users, weights=signs, minlength=graph.n_users)
        items[:, column] = -np.bincount(graph.items, weights=signs, minlength=graph.n_items)
    users /= np.sqrt(dim).astype(graph.precision)
    items /= np.sqrt(dim).astype(graph.precision)
    users, items = laplacian_solve(graph, users, items)
    return users, -items


def laplacian_solve(graph: BipartiteGraph, users: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """y with L y = (users, items), for right-hand sides that add up to 0 on every component.

    The larger side is eliminated (it is diagonal), and the rest scaled by degrees: conjugate gradients for
    (I − ÂᵀÂ) w = r on the smaller side, whose condition number is about a quarter of the original one.
    """
    scale_users, scale_items = (
        (degrees[:, None] ** -0.5).astype(users.dtype) for degrees in (graph.user_degrees, graph.item_degrees)
    )
    users, items = users * scale_users, items * scale_items
    if graph.smaller_is_items:
        items = solve(graph.gram, items + graph.normalised_transposed(users), project=graph.without_null)
        users = users + graph.normalised(items)
    else:
        users = solve(graph.gram, users + graph.normalised(items), project=graph.without_null)
        items = items + graph.normalised_transposed(users)
    return users * scale_users, items * scale_items


def spanning_centrality(users: np.ndarray, items: np.ndarray, largest: int = 20_000) -> np.ndarray:
    """Exact spanning centrality of every interaction: the effective resistance between its ends.

    Dense on the smaller side of the graph: with S = D_i − Aᵀ D_u⁻¹ A, K = S⁺ and p = a_u/d_u − δ_i,
    s(e) = 1/d_u + pᵀ K p (written for items as the smaller side).

    Args:
        largest: refuse graphs whose smaller side is larger; memory and time grow with its square and cube.
    """
    graph = BipartiteGraph(users, items)
    size = min(graph.n_users, graph.n_items)
    if size > largest:
        raise InputError(
            f"Exact spanning centrality is dense on the smaller side of the graph, which has {size:,} nodes "
            f"(limit {largest:,}). Use CentralityEmbedding(method='sketch')."
        )
    if graph.smaller_is_items:
        inner, outer, rows = graph.items, graph.users, graph.counts
        inner_degrees, outer_degrees = graph.item_degrees, graph.user_degrees
    else:
        inner, outer, rows = graph.users, graph.items, graph.transposed_counts
        inner_degrees, outer_degrees = graph.user_degrees, graph.item_degrees
    rows = rows.astype(np.float64)
    means = coo_array((1 / outer_degrees, (np.arange(len(outer_degrees)),) * 2)).tocsr() @ rows  # a_u / d_u
    inverse = _pseudo_inverse(np.diag(inner_degrees.astype(np.float64)) - (rows.T @ means).toarray(), graph)
    result = 1 / outer_degrees[outer] + np.diag(inverse)[inner]
    block = max(1, 50_000_000 // size)
    for start in range(0, len(outer_degrees), block):  # means @ inverse, a block of rows at a time
        part = means[start : start + block]
        product = part @ inverse
        quadratic = part.multiply(product).sum(axis=1)
        inside = np.flatnonzero((outer >= start) & (outer < start + block))
        result[inside] += quadratic[outer[inside] - start] - 2 * product[outer[inside] - start, inner[inside]]
    return result


def _pseudo_inverse(matrix: np.ndarray, graph: BipartiteGraph) -> np.ndarray:
    """Of a Laplacian: its null space is constant on each component, so filling that in makes it invertible."""
    count, user_component, item_component = graph.components
    component = item_component if graph.smaller_is_items else user_component
    same = coo_array((np.ones(len(component)), (np.arange(len(component)), component)), shape=(len(component), count))
    filling = (same / np.sqrt(np.bincount(component, minlength=count))).toarray()
    filling = filling @ filling.T
    return np.linalg.inv(matrix + filling) - filling
