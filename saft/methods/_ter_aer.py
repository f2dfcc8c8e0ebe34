"""TER+AER: the position of an interaction in the graph, and the texts around it; a perceptron on both.

Wang, Yang, Huang and Xiao: Efficient and Effective Edge-wise Graph Representation Learning. KDD 2023.

With P = ½ (P_u + P_i), one step of a walk from interaction to interaction (``_line_graph.py``), and Z the top
eigenvectors of P weighed by √g(eigenvalue):

    PPR:   g(s) = a/(1 − (1 − a) s),   X = a Σ_l (1 − a)^l P^l X₀,     a = ½
    HKPR:  g(s) = e^{t(s − 1)},        X = e^{−t} Σ_l t^l/l! P^l X₀,   t = 1
    logits = perceptron([Z; X])

X₀ are frozen text vectors. Differs from the release: eigenvectors come from the user-item matrix, exactly, instead of a
randomised SVD of P (the eigenvector of each connected component, constant on it, is left out); sums are cut off where
the rest is below ε for every entry (the release divides by column sums, which mean nothing where numbers have signs);
X₀ is not overwritten; softmax and cross-entropy instead of one sigmoid per class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback
from saft.methods._features import FeatureMethod, Perceptron
from saft.methods._line_graph import LineGraph
from saft.methods._text_vectors import text_vectors
from saft.settings import Settings
from saft.structure.alternatives import PageRankEmbedding
from saft.structure.distance import KernelEmbedding

RESTART, HEAT, REST = 0.5, 1.0, 1e-5
DIMENSIONS = 256


class HeatEmbedding(KernelEmbedding):
    """Z = V √e^{t(s − 1)}."""

    def _kernel(self) -> Callable[[np.ndarray], np.ndarray]:
        return lambda halves: np.exp(HEAT * (halves - 1))


def spread_by_pagerank(x: Tensor, graph: LineGraph) -> Tensor:
    """a Σ_l (1 − a)^l P^l x, by Horner's rule, until what is left is below ε of the whole."""
    result = x
    for _ in range(math.ceil(math.log(REST) / math.log(1 - RESTART))):
        result = x + (1 - RESTART) * graph.walk(result)
    return RESTART * result


def spread_by_heat(x: Tensor, graph: LineGraph) -> Tensor:
    """e^{−t} Σ_l t^l/l! P^l x, until the weights that are left are below ε."""
    term, result, weight, order = x, x, math.exp(-HEAT), 0
    left = 1 - weight
    while left > REST:
        order += 1
        term = graph.walk(term) * (HEAT / order)
        result = result + term
        weight *= HEAT / order
        left -= weight
    return math.exp(-HEAT) * result


class TerAer(FeatureMethod):
    training: ClassVar[dict[str, Any]] = {
        "epochs": 200, "least_steps": 0, "patience": 30, "head_learning_rate": 1e-3, "weight_decay": 0.0, "warmup": 0.0,
        "clip": 0.0, "loss": "cross_entropy",
    }  # fmt: skip
    batch_size = 10_000

    def __init__(self, settings: Settings, callbacks: Iterable[Callback], kernel: str) -> None:
        super().__init__(settings, callbacks)
        pagerank = kernel == "pagerank"
        self.spread = spread_by_pagerank if pagerank else spread_by_heat
        self.embedding = (
            PageRankEmbedding(DIMENSIONS, restart=RESTART, seed=settings.seed)
            if pagerank
            else HeatEmbedding(DIMENSIONS, seed=settings.seed)
        )

    def learn(self, network: TextualInteractionNetwork, train: np.ndarray) -> None:
        self.callbacks.on_message("Computing structure")
        where = self.embedding.fit_transform(network.users, network.items)[train]
        spread = where.std(axis=0)
        self.scale = np.where(spread > 1e-12, 1 / np.maximum(spread, 1e-12), 0.0)

    def features(self, network: TextualInteractionNetwork) -> Tensor:
        where = self.embedding.transform(network.users, network.items) * self.scale
        texts = torch.from_numpy(text_vectors(network.texts, self.settings, "mean", self.callbacks.on_message))
        return torch.cat([torch.from_numpy(where).float(), self.spread(texts, LineGraph.of(network))], dim=1)

    def net(self, width: int, network: TextualInteractionNetwork) -> nn.Module:
        return Perceptron(width, width, network.n_classes)
