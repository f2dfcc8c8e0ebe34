"""Structural embeddings and neighbour sampling on power-law graphs shaped like the paper's largest (101k × 28k, 800k).

- The distance embedding against the paper's way: ``sklearn.utils.extmath.randomized_svd`` of the nodes × interactions
  incidence matrix. And its singular values against exact ones (ARPACK, double precision).
- Both embeddings at one and at ten million interactions: time per interaction should not grow, memory should fit.
- The centrality sketch against the spectral centrality, and sampling in candidates per second.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np

from benchmarks.measuring import Figure, compare, report_cost

PAPER, MILLION, TEN_MILLION = 800_000, 1_000_000, 10_000_000
DIM = 64


def figures() -> list[Figure]:
    way = compare("benchmarks.structure", ["distance", "incidence_svd"], [str(PAPER)], repeats=3)
    small = compare("benchmarks.structure", ["both", "centrality", "sketch"], [str(MILLION)], repeats=3)
    large = compare("benchmarks.structure", ["both"], [str(TEN_MILLION)], repeats=1)["both"]
    growth = (large.seconds / TEN_MILLION) / (small["both"].seconds / MILLION)
    return [
        Figure(
            "distance embedding, 800,000 interactions: speed against randomized_svd of the incidence",
            way["incidence_svd"].seconds / way["distance"].seconds,
            "×",
            ">= 6",
        ),
        Figure("distance embedding: worst singular value against ARPACK", 100 * worst_error(PAPER), "% off", "<= 1"),
        Figure("both embeddings: time per interaction at 10 million against 1 million", growth, "×", "<= 1.5"),
        Figure("both embeddings of 10 million interactions: peak memory", large.peak_mb / 1024, "GB", "<= 8"),
        Figure(
            "centrality of 1,000,000 interactions: sketch against spectral, time",
            small["sketch"].seconds / small["centrality"].seconds,
            "×",
        ),
        Figure("sampling 5 neighbours by weight: candidates", sampling_rate() / 1e6, "million/s", ">= 5"),
    ]


def power_law(interactions: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Users and items drawn with Zipf weights, in the proportions of the paper's Amazon-Products."""
    rng = np.random.default_rng(seed)
    return (
        _zipf(interactions * 101_498 // 800_144, 0.6, interactions, rng),
        _zipf(interactions * 27_965 // 800_144, 0.7, interactions, rng),
    )


def worst_error(interactions: int) -> float:
    """Largest relative error of the singular values √(1 + λ) of the incidence, against exact ones."""
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.linalg import svds

    from saft.structure import DistanceEmbedding

    users, items = power_law(interactions)
    counts = coo_array((np.ones(interactions), (users, items))).tocsr()
    scale_users, scale_items = (np.maximum(np.bincount(codes), 1) ** -0.5 for codes in (users, items))
    normalised = diags_array(scale_users) @ counts @ diags_array(scale_items)
    exact = np.sort(svds(normalised, k=DIM + 8, return_singular_vectors=False, rng=np.random.default_rng(0)))[::-1]
    exact = exact[exact < 1 - 1e-9][:DIM]  # without the null direction of each component
    ours = DistanceEmbedding(DIM).fit(users, items).values_
    return float(np.abs(np.sqrt((1 + ours) / (1 + exact)) - 1).max())


def sampling_rate(candidates: int = 5_000_000, repeats: int = 5) -> float:
    """Candidates per second, for users and items in turn."""
    from saft.learning.sampling import all_neighbours, sample_neighbours

    weights = np.random.default_rng(0).random(candidates)
    sides = [all_neighbours(codes, int(codes.max()) + 1) for codes in power_law(candidates)]
    seconds = []
    for repeat in range(repeats):
        for side in sides:
            start = time.perf_counter()
            sample_neighbours(side, 5, np.random.default_rng(repeat), weights)
            seconds.append(time.perf_counter() - start)
    return candidates / median(seconds)


def embed(names: list[str], users: np.ndarray, items: np.ndarray) -> list[np.ndarray]:
    from saft.structure import CentralityEmbedding, DistanceEmbedding

    made = {
        "distance": DistanceEmbedding(DIM),
        "centrality": CentralityEmbedding(DIM),
        "sketch": CentralityEmbedding(DIM, method="sketch"),
    }
    return [made[name].fit_transform(users, items) for name in names]


def incidence_svd(users: np.ndarray, items: np.ndarray) -> np.ndarray:
    """The paper's distance embedding as its authors compute it: one singular vector too many, the first dropped."""
    from scipy.sparse import coo_array
    from sklearn.utils.extmath import randomized_svd

    count, n_users = len(users), int(users.max()) + 1
    nodes = np.concatenate([users, items + n_users])
    values = np.maximum(np.bincount(nodes), 1)[nodes] ** -0.5
    matrix = coo_array((values, (nodes, np.tile(np.arange(count), 2)))).tocsr()
    _, sigma, right = randomized_svd(matrix, DIM + 1, random_state=0)
    return right[1:].T / np.sqrt(np.maximum(1 - sigma[1:] ** 2 / 2, 1e-9))


def _zipf(nodes: int, exponent: float, draws: int, rng: np.random.Generator) -> np.ndarray:
    weights = np.cumsum(np.arange(1, nodes + 1) ** -exponent)
    return np.searchsorted(weights, rng.random(draws) * weights[-1]).astype(np.int32)


if __name__ == "__main__":
    what, size = sys.argv[1], int(sys.argv[2])
    graph = power_law(size)
    work: dict[str, Callable[[], object]] = {
        "distance": partial(embed, ["distance"], *graph),
        "centrality": partial(embed, ["centrality"], *graph),
        "sketch": partial(embed, ["sketch"], *graph),
        "both": partial(embed, ["distance", "centrality"], *graph),
        "incidence_svd": partial(incidence_svd, *graph),
    }
    if what != "incidence_svd":
        import saft.structure  # noqa: F401  (not counted: imports are not what is compared)
    report_cost(work[what])
