"""SimTeG: the encoder is trained on the labels, frozen, and its vectors go into a graph network.

Duan, Liu, Chua, Yan, Ooi, Xie and He: SimTeG: A Frustratingly Simple Approach Improves Textual Graph Learning. 2023,
arXiv 2308.02565.

    1.  encoder (``bert.py``) trained on the labels of the training rows, with early stopping
    2.  x_e = mean over the tokens of its last layer, from then on fixed
    3.  graph network on x, three times with other first weights;   logits = mean of the three

``graph`` is what the network runs on: convolution between users and items or on the line graph (``_gcn.py``), or
GraphSAGE over all interactions that share a user or an item (``bert_graphsage.py``). Differs from the original: there
the encoder learns low-rank updates of all layers, here the upper layers, as many as for every method; the mean is over
networks on one encoder, there over several encoders too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from saft.data.network import TextualInteractionNetwork
from saft.hashing import hash_seed
from saft.learning.callbacks import Callback, CallbackList
from saft.learning.prediction import predict_logits, represent
from saft.methods._card import Method
from saft.methods._features import OverFeatures, RowLoader
from saft.methods._fine_tuned import FineTuned, count_parameters, run_training
from saft.methods._gcn import GRAPH_TRAINING, GRAPHS
from saft.methods._line_graph import LineGraph
from saft.methods.bert import Bert
from saft.methods.bert_graphsage import GraphSage
from saft.metrics import softmax
from saft.settings import TEXT_ONLY, Settings

MEMBERS = 3
NETS: dict[str, type[nn.Module]] = GRAPHS | {"sage": GraphSage}


class SimTeg:
    def __init__(self, settings: Settings, callbacks: Iterable[Callback], graph: str = "bipartite") -> None:
        self.settings, self.kind = settings, NETS[graph]
        self.callbacks = CallbackList(callbacks)

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        self.language_ = FineTuned(self.settings, self.callbacks, build=Bert).fit(network, train, valid)
        visible = network.showing(train)
        vectors, graph = self._vectors(visible), LineGraph.of(visible)
        settings = self.settings.changed(**GRAPH_TRAINING)
        loader = RowLoader(visible.labels, visible.n_classes, settings.seed)
        self.nets_ = []
        for member in range(MEMBERS):
            chosen = settings.changed(seed=settings.seed if not member else hash_seed(settings.seed, member))
            torch.manual_seed(chosen.seed)
            net = self.kind(vectors.shape[1], visible.n_classes)
            model = OverFeatures(net, vectors, graph)
            run_training(model, loader, np.asarray(train), (np.asarray(valid), network), chosen, self.callbacks)
            self.nets_.append(net)
        self.n_parameters_ = self.language_.n_parameters_ + sum(map(count_parameters, self.nets_))
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        network = network.showing(np.empty(0, np.int64))
        vectors, graph = self._vectors(network), LineGraph.of(network)
        loader = RowLoader(network.labels, network.n_classes, self.settings.seed)
        models = [OverFeatures(net, vectors, graph) for net in self.nets_]
        return softmax(np.mean([predict_logits(model, loader, np.asarray(interactions)) for model in models], axis=0))

    def _vectors(self, network: TextualInteractionNetwork) -> Tensor:
        self.callbacks.on_message("Reading all interactions")
        rows = np.arange(len(network))
        return torch.from_numpy(represent(self.language_.assembly.model, self.language_.loader(network), rows))


METHOD = Method(
    title="SimTeG",
    paper="Duan et al. 2023",
    build=SimTeg,
    settings=TEXT_ONLY,
    options={"graph": tuple(NETS)},
)
