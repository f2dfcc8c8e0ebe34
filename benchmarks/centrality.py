"""Do centrality embeddings rank interactions as exact spanning centrality does? A table for docs/structure.md.

    python -m benchmarks.centrality ../shared/data/*.parquet

Spearman correlation with the exact value, at 64 columns: of the squared norms of the spectral embedding (the paper's)
and of the sketch, and of 1/d_u + 1/d_i, which costs nothing. Without files, on the demo network.
"""

import sys
from pathlib import Path

import numpy as np

import saft
from saft.structure import CentralityEmbedding, spanning_centrality


def row(name: str, network: saft.TextualInteractionNetwork) -> str:
    from scipy.stats import spearmanr

    users, items = network.users, network.items
    exact = spanning_centrality(users, items)
    estimates = [
        (CentralityEmbedding(64, method, seed=0).fit_transform(users, items) ** 2).sum(axis=1)
        for method in ("spectral", "sketch")
    ]
    estimates.append(1 / network.user_degrees[users] + 1 / network.item_degrees[items])
    figures = " | ".join(f"{spearmanr(estimate, exact).statistic:+.3f}" for estimate in estimates)
    total = estimates[0].sum() / exact.sum()
    return f"| {name} | {len(network):,} | {figures} | {100 * total:.1f} % | {np.mean(exact):.3f} |"


def main(files: list[str]) -> None:
    columns = ["network", "interactions", "spectral", "sketch", "1/d_u + 1/d_i", "spectral's share of Σ s", "mean s"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    networks = [(Path(file).stem, saft.read(file)) for file in files] or [("demo network", saft.demo_network(20_000))]
    for name, network in networks:
        print(row(name, network), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
