"""Embeddings of interactions from the topology alone. Depends on numpy and scipy only.

Every embedding has the same interface, on integer arrays with one entry per interaction::

    vectors = DistanceEmbedding(dim=64).fit(users, items).transform(users, items)   # (interactions, 64)

``extend`` folds new users and items in; ``embedding(name)`` makes one by name.
"""

from typing import Any

from saft.errors import InputError, did_you_mean
from saft.structure.alternatives import (
    CommonNeighboursEmbedding,
    CommuteTimeEmbedding,
    PageRankEmbedding,
    SimRankEmbedding,
)
from saft.structure.centrality import CentralityEmbedding, spanning_centrality
from saft.structure.distance import DistanceEmbedding
from saft.structure.interface import InteractionEmbedding
from saft.structure.landmarks import ShortestPathEmbedding
from saft.structure.walks import Node2Vec

__all__ = [
    "CENTRALITIES",
    "DISTANCES",
    "CentralityEmbedding",
    "CommonNeighboursEmbedding",
    "CommuteTimeEmbedding",
    "DistanceEmbedding",
    "InteractionEmbedding",
    "Node2Vec",
    "PageRankEmbedding",
    "ShortestPathEmbedding",
    "SimRankEmbedding",
    "embedding",
    "spanning_centrality",
]

# Choices for the distance embedding and for the centrality embedding, by name.
DISTANCES: dict[str, type[InteractionEmbedding]] = {
    "distance": DistanceEmbedding,
    "node2vec": Node2Vec,
    "shortest_path": ShortestPathEmbedding,
    "common_neighbours": CommonNeighboursEmbedding,
}
CENTRALITIES: dict[str, type[InteractionEmbedding]] = {
    "centrality": CentralityEmbedding,
    "pagerank": PageRankEmbedding,
    "commute_time": CommuteTimeEmbedding,
    "simrank": SimRankEmbedding,
}


def embedding(name: str, **settings: Any) -> InteractionEmbedding:
    """The embedding of this name, e.g. ``embedding("simrank", dim=32)``."""
    known = DISTANCES | CENTRALITIES
    if name not in known:
        raise InputError(f"There is no embedding {name!r}.{did_you_mean(name, known)} Known are {', '.join(known)}.")
    return known[name](**settings)
