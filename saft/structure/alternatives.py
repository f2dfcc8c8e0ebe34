"""The other embeddings that the paper compares, as far as they are kernels of a spectrum.

In place of distance: common neighbours. In place of centrality: personalised PageRank, SimRank and commute time. Each
is a weighting of eigenvectors that the main embeddings compute too, so none needs the line graph.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import eigh

from saft.errors import InputError
from saft.structure.bipartite import BipartiteGraph
from saft.structure.centrality import LaplacianEmbedding, laplacian_solve, signless_product
from saft.structure.distance import DENSE_UP_TO, KernelEmbedding
from saft.structure.solvers import fix_signs, top_eigenpairs


class CommonNeighboursEmbedding(LaplacianEmbedding):
    """z_e · z_e' is the number of neighbours that e and e' share on the line graph, loops included: ((EᵀE)²)_ee'.

    E Eᵀ = D + A, so with (D + A) φ = λ φ: z(e) = √λ (φ_u + φ_i). (A user and an item have no common neighbours
    themselves; interactions do.)
    """

    def _weights(self, values: np.ndarray, graph: BipartiteGraph) -> np.ndarray:
        return np.sqrt(values)


class PageRankEmbedding(KernelEmbedding):
    """‖z_e‖² is the personalised PageRank of interaction e with restarts at e, g(σ²/2) = a/(1 − (1 − a) σ²/2).

    Up to the share of the dropped directions, which is the same for all interactions of a component.

    Args:
        restart: a, the probability of a restart.
    """

    def __init__(self, dim: int = 64, restart: float = 0.15, seed: int = 0) -> None:
        super().__init__(dim, seed)
        self.restart = restart

    def _kernel(self) -> Callable[[np.ndarray], np.ndarray]:
        if not 0 < self.restart < 1:
            raise InputError(f"restart has to lie between 0 and 1; got {self.restart}.")
        return lambda halves: self.restart / (1 - (1 - self.restart) * halves)


class SimRankEmbedding(KernelEmbedding):
    """Linearised SimRank of interactions, S = (1 − c) Σ c^l P^l (P^l)ᵀ: g(σ²/2) = (1 − c)/(1 − c (σ²/2)²).

    (SimRank of the user-item graph itself is 0 between a user and an item by construction.)

    Args:
        decay: c.
    """

    def __init__(self, dim: int = 64, decay: float = 0.8, seed: int = 0) -> None:
        super().__init__(dim, seed)
        self.decay = decay

    def _kernel(self) -> Callable[[np.ndarray], np.ndarray]:
        if not 0 < self.decay < 1:
            raise InputError(f"decay has to lie between 0 and 1; got {self.decay}.")
        return lambda halves: (1 - self.decay) / (1 - self.decay * halves**2)


class CommuteTimeEmbedding(LaplacianEmbedding):
    """‖z_e‖² is the commute time between the ends of e, from the *smallest* eigenvalues of L = D − A above 0.

    z(e) = √vol (φ_u − φ_i)/√λ (Qiu and Hancock 2007). At full rank this is √vol times the centrality embedding; cut
    off at k it keeps the other end of the spectrum: long paths instead of hubs.
    """

    def _spectrum(self, graph: BipartiteGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _bottom_spectrum(graph, self.dim, self.seed)

    def _weights(self, values: np.ndarray, graph: BipartiteGraph) -> np.ndarray:
        return np.sqrt(2 * len(graph) / values)


def _bottom_spectrum(graph: BipartiteGraph, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The smallest eigenvalues of L above 0, ascending, and eigenvectors with the items' signs flipped."""
    if graph.n_nodes <= DENSE_UP_TO:
        values, vectors = eigh(signless_product(graph, np.eye(graph.n_nodes)))
        first = graph.components[0]  # the zeros come first, one per component
        values, vectors = values[first : first + dim], vectors[:, first : first + dim]
    else:
        inverse, vectors = top_eigenpairs(partial(_inverse, graph), graph.n_nodes, dim, graph.precision, seed)
        kept = inverse > 1e-9
        values, vectors = 1 / inverse[kept], vectors[:, kept]
    users, items = vectors[: graph.n_users].copy(), vectors[graph.n_users :].copy()
    fix_signs(users, items)
    return values, users, items


def _inverse(graph: BipartiteGraph, block: np.ndarray) -> np.ndarray:
    """(D + A)⁺ times a block of node vectors: its largest eigenvalues are 1 / the smallest of D + A above 0."""
    block = _without_constants(graph, block)
    users, items = laplacian_solve(graph, block[: graph.n_users], np.negative(block[graph.n_users :]))
    return _without_constants(graph, np.concatenate([users, -items]))


def _without_constants(graph: BipartiteGraph, block: np.ndarray) -> np.ndarray:
    """Without the null space of D + A: on each component +1 for users and −1 for items."""
    count, user_component, item_component = graph.components
    component = np.concatenate([user_component, item_component])
    sign = np.ones((graph.n_nodes, 1), dtype=block.dtype)
    sign[graph.n_users :] = -1
    order = np.argsort(component, kind="stable")
    starts = np.searchsorted(component[order], np.arange(count))
    sizes = np.bincount(component, minlength=count)[:, None]
    means = np.add.reduceat((block * sign)[order], starts, axis=0) / sizes
    return block - sign * means[component].astype(block.dtype)
