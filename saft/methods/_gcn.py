"""Graph convolution behind frozen vectors of interactions' texts.

Kipf and Welling: Semi-Supervised Classification with Graph Convolutional Networks. ICLR 2017. Two layers, on one of two
graphs; the paper does not say which its GCN rows run on:

``bipartite`` (default): users and items start as the mean of their interactions' vectors and go through two layers of
D^(-1/2) (A + I) D^(-1/2); an interaction is classified by [user; item; its own vector].
``line``: h = ReLU(Â x W₁), logits = Â Dropout(h) W₂, where Â is the normalised adjacency of the line graph of
interactions, with loops (see ``_line_graph.py``). Over dozens of neighbours little of an interaction's own text is
left: on 1,500 interactions of rotten tomatoes it measured 57.9 Macro-F1 against 67.1, so it is not the default.

Vectors are standardised first (BatchNorm): on musical instruments this raised the line graph's Macro-F1 from 16.1, the
majority class, to 24.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback
from saft.methods._features import FeatureMethod
from saft.methods._line_graph import LineGraph
from saft.methods._text_vectors import text_vectors
from saft.settings import Settings

HIDDEN_UNITS, DROPOUT = 256, 0.5
# Full batch, hundreds of steps.
GRAPH_TRAINING: dict[str, Any] = {
    "epochs": 300, "least_steps": 0, "patience": 30, "head_learning_rate": 0.01, "weight_decay": 5e-4, "warmup": 0.0,
    "clip": 0.0, "loss": "cross_entropy",
}  # fmt: skip


class LineGcn(nn.Module):
    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.first = nn.Linear(width, HIDDEN_UNITS)
        self.second = nn.Linear(HIDDEN_UNITS, n_classes)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, graph: LineGraph, seed_rows: Tensor) -> Tensor:
        hidden = functional.relu(graph.convolve(self.first(self.norm(x))))
        return graph.convolve(self.second(self.dropout(hidden)))[seed_rows]


class BipartiteGcn(nn.Module):
    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.first = nn.Linear(width, HIDDEN_UNITS)
        self.second = nn.Linear(HIDDEN_UNITS, HIDDEN_UNITS)
        self.dropout = nn.Dropout(DROPOUT)
        self.judge = nn.Sequential(
            nn.Linear(2 * HIDDEN_UNITS + width, HIDDEN_UNITS),
            nn.ReLU(),
            nn.Dropout(DROPOUT),
            nn.Linear(HIDDEN_UNITS, n_classes),
        )

    def forward(self, x: Tensor, graph: LineGraph, seed_rows: Tensor) -> Tensor:
        x = self.norm(x)
        users, items = graph.user_sums(x) / graph.user_degrees, graph.item_sums(x) / graph.item_degrees
        for layer in (self.first, self.second):
            users, items = layer(self.dropout(users)), layer(self.dropout(items))
            users, items = (functional.relu(states) for states in exchanged(graph, users, items))
        own = torch.cat(
            [
                users.index_select(0, graph.users[seed_rows]),
                items.index_select(0, graph.items[seed_rows]),
                x[seed_rows],
            ],
            dim=1,
        )
        return self.judge(own)


def exchanged(graph: LineGraph, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """D^(-1/2) (A + I) D^(-1/2) on the user-item graph, degrees counted with the loop."""
    user_scale, item_scale = (graph.user_degrees + 1) ** -0.5, (graph.item_degrees + 1) ** -0.5
    scaled_users, scaled_items = user_scale * users, item_scale * items
    return (
        user_scale * (graph.user_sums(scaled_items.index_select(0, graph.items)) + scaled_users),
        item_scale * (graph.item_sums(scaled_users.index_select(0, graph.users)) + scaled_items),
    )


GRAPHS: dict[str, type[nn.Module]] = {"bipartite": BipartiteGcn, "line": LineGcn}  # the default first
GRAPH = {"graph": tuple(GRAPHS)}


class FrozenText(FeatureMethod):
    """Frozen vectors of the texts, and a net on the graph of interactions."""

    training: ClassVar[dict[str, Any]] = GRAPH_TRAINING

    def __init__(
        self,
        settings: Settings,
        callbacks: Iterable[Callback],
        pooling: str,
        graph: str = "bipartite",
        net: type[nn.Module] | None = None,
    ) -> None:
        super().__init__(settings, callbacks)
        self.pooling, self.kind = pooling, net or GRAPHS[graph]

    def features(self, network: TextualInteractionNetwork) -> np.ndarray:
        return text_vectors(network.texts, self.settings, self.pooling, self.callbacks.on_message)

    def net(self, width: int, network: TextualInteractionNetwork) -> nn.Module:
        return self.kind(width, network.n_classes)
