"""TF-IDF+NODES: which words occur, and a trained vector of the user and of the item.

The paper's own baseline.

    logits = W [tfidf(text); z_u; z_i] + b,   z trained, 64 wide

Words as in ``tfidf.py``, kept sparse. Users and items that the network of training lacks share one vector, trained
by ``node_dropout``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from saft.data.network import TextualInteractionNetwork
from saft.methods._card import Method
from saft.methods._features import FeatureMethod
from saft.methods._gcn import GRAPH_TRAINING
from saft.methods._line_graph import LineGraph
from saft.methods.tfidf import learn_words
from saft.model.base import NodeTable
from saft.settings import Settings


class WordsAndNodes(nn.Module):
    def __init__(self, n_words: int, network: TextualInteractionNetwork, settings: Settings) -> None:
        super().__init__()
        self.n_users, self.n_items = network.n_users, network.n_items
        self.users = NodeTable(self.n_users, settings.node_dim, settings.node_dropout)
        self.items = NodeTable(self.n_items, settings.node_dim, settings.node_dropout)
        self.of_words = nn.Parameter(torch.zeros(n_words, network.n_classes))
        self.of_nodes = nn.Linear(2 * settings.node_dim, network.n_classes)

    def forward(self, words: Tensor, graph: LineGraph, seed_rows: Tensor) -> Tensor:
        users, items = graph.users[seed_rows], graph.items[seed_rows]
        nodes = torch.cat(
            [
                self.users(torch.where(users < self.n_users, users + 1, 0)),
                self.items(torch.where(items < self.n_items, items + 1, 0)),
            ],
            dim=1,
        )
        return torch.sparse.mm(words, self.of_words)[seed_rows] + self.of_nodes(nodes)


class TfIdfNodes(FeatureMethod):
    training: ClassVar[dict[str, Any]] = GRAPH_TRAINING

    def learn(self, network: TextualInteractionNetwork, train: np.ndarray) -> None:
        self.words_ = learn_words(network.take(train).texts)

    def features(self, network: TextualInteractionNetwork) -> Tensor:
        counted = self.words_.transform(network.texts.to_list()).tocoo()
        places = torch.from_numpy(np.stack([counted.row, counted.col]).astype(np.int64))
        return torch.sparse_coo_tensor(places, torch.from_numpy(counted.data), counted.shape, check_invariants=True)

    def net(self, width: int, network: TextualInteractionNetwork) -> nn.Module:
        return WordsAndNodes(width, network, self.settings)


METHOD = Method(title="TF-IDF+NODES", paper="baseline of the SAFT paper", build=TfIdfNodes, reads_with_encoder=False)
