"""GLEM: a language model and a graph network, each trained on the other's predictions.

Zhao, Qu, Li, Yan, Liu, Li, Xie and Tang: Learning on Large-scale Text-attributed Graphs via Variational Inference. ICLR
2023.

    0.  LM (``bert.py``) learns from the labels; GNN (``_gcn.py``) learns from the labels on the LM's vectors
    E.  LM:  loss = (1 − a) CE(labels) + a CE(softmax(GNN logits / τ)) on interactions without a label,    a = 0.5
    M.  GNN on the LM's new vectors:  loss = (1 − b) CE(labels) + b CE(softmax(LM logits / τ)),           b = 0.3

τ = 0.2; the most confident 80 % of the pseudo-labels are used, at most as many as there are labels. One round of E and
M. Both branches are kept as they were before or after the round, whichever is better on the validation rows for the
branch that predicts. Differs from the release: there labels of training nodes are an input of the graph network, each
node's own among them; here no label is an input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from saft.classifier.assembly import Assembly
from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback, CallbackList
from saft.learning.prediction import predict_logits, represent
from saft.methods._features import OverFeatures, RowLoader
from saft.methods._fine_tuned import count_parameters, run_training
from saft.methods._gcn import GRAPH_TRAINING, GRAPHS
from saft.methods._line_graph import LineGraph
from saft.methods.bert import Bert
from saft.metrics import softmax
from saft.settings import Settings

LM_TRUST, GNN_TRUST, TEMPERATURE, KEPT = 0.5, 0.3, 0.2, 0.8


@dataclass
class Pair:
    """Both branches before or after the round, and the score of each on the validation rows."""

    language: dict[str, Tensor]
    language_score: float
    gnn: nn.Module
    gnn_score: float


class Glem:
    """``branch`` decides which of the two predicts, ``graph`` what the graph network runs on (``_gcn.py``)."""

    def __init__(
        self, settings: Settings, callbacks: Iterable[Callback], branch: str, graph: str = "bipartite"
    ) -> None:
        self.settings, self.branch, self.graph = settings, branch, graph
        self.callbacks = CallbackList(callbacks)

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        self.train, self.visible = np.asarray(train), network.showing(train)
        self.scored = np.asarray(valid), network
        self.assembly = Assembly.fresh(self.settings, self.visible, Bert)
        self.pair_ = max(self._rounds(), key=self._score)
        self.assembly.model.load_state_dict(self.pair_.language)
        chosen = self.assembly.model if self.branch == "language" else self.pair_.gnn
        self.n_parameters_ = count_parameters(chosen)
        if self.branch == "gnn":
            self.n_parameters_ += count_parameters(self.assembly.model)  # it computes the graph network's vectors
        del self.scored, self.visible  # needed for training only
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        network, rows = network.showing(np.empty(0, np.int64)), np.asarray(interactions)
        if self.branch == "language":
            return softmax(predict_logits(self.assembly.model, self.assembly.loader(network), rows))
        model = OverFeatures(self.pair_.gnn, self._vectors(network), LineGraph.of(network))
        return softmax(predict_logits(model, RowLoader(network.labels, network.n_classes, self.settings.seed), rows))

    def _score(self, pair: Pair) -> float:
        return pair.language_score if self.branch == "language" else pair.gnn_score

    def _rounds(self) -> Iterator[Pair]:
        """Both branches before and after the round of E and M."""
        gold = one_hot(self.visible.labels, self.visible.n_classes)
        language_score = self._train_language(self.train, gold)
        vectors = self._vectors(self.visible)
        gnn, gnn_score, gnn_logits = self._train_gnn(vectors, self.train, gold)
        yield Pair(self._weights(), language_score, gnn, gnn_score)
        rows, targets = self._mixed(gold, gnn_logits, LM_TRUST)
        language_score = self._train_language(rows, targets, epochs=max(self.settings.epochs // 4, 1))
        language_logits = predict_logits(self.assembly.model, self.assembly.loader(), np.arange(len(self.visible)))
        rows, targets = self._mixed(gold, language_logits, GNN_TRUST)
        gnn, gnn_score, _ = self._train_gnn(self._vectors(self.visible), rows, targets)
        yield Pair(self._weights(), language_score, gnn, gnn_score)

    def _mixed(self, gold: np.ndarray, logits: np.ndarray, trust: float) -> tuple[np.ndarray, np.ndarray]:
        """(rows to train on, (interactions, classes) soft targets).

        Targets are scaled so that the mean loss over all rows is (1 − trust) times the labelled rows' mean plus trust
        times that of the others.
        """
        confident = pseudo_labelled(softmax(logits, TEMPERATURE), self.train)
        if not len(confident):
            return self.train, gold
        rows = np.concatenate([self.train, confident])
        targets = np.zeros_like(gold)
        targets[self.train] = gold[self.train] * ((1 - trust) * len(rows) / len(self.train))
        targets[confident] = softmax(logits, TEMPERATURE)[confident] * (trust * len(rows) / len(confident))
        return rows, targets

    def _train_language(self, rows: np.ndarray, targets: np.ndarray, **changed: Any) -> float:
        loader = self.assembly.loader(targets=targets)
        settings = self.settings.changed(loss="cross_entropy", class_weights=False, **changed)
        return run_training(self.assembly.model, loader, rows, self.scored, settings, self.callbacks).best_score

    def _train_gnn(self, vectors: Tensor, rows: np.ndarray, targets: np.ndarray) -> tuple[nn.Module, float, np.ndarray]:
        settings = self.settings.changed(**GRAPH_TRAINING, class_weights=False)  # targets are soft
        torch.manual_seed(settings.seed)
        gnn = GRAPHS[self.graph](vectors.shape[1], self.visible.n_classes)
        model = OverFeatures(gnn, vectors, LineGraph.of(self.visible))
        loader = RowLoader(self.visible.labels, self.visible.n_classes, settings.seed, targets=targets)
        state = run_training(model, loader, rows, self.scored, settings, self.callbacks)
        return gnn, state.best_score, predict_logits(model, loader, np.arange(len(self.visible)))

    def _vectors(self, network: TextualInteractionNetwork) -> Tensor:
        self.callbacks.on_message("Reading all interactions")
        rows = np.arange(len(network))
        return torch.from_numpy(represent(self.assembly.model, self.assembly.loader(network), rows))

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.assembly.model.state_dict().items()}


def one_hot(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """(interactions, classes); zeros where the label is hidden."""
    return (labels[:, None] == np.arange(n_classes)).astype(np.float32)


def pseudo_labelled(probabilities: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Rows outside of ``train``, the most confident ones: a share of them, and no more than there are in ``train``."""
    others = np.setdiff1d(np.arange(len(probabilities)), train)
    order = np.argsort(-probabilities[others].max(axis=1), kind="stable")
    return np.sort(others[order[: min(int(KEPT * len(others)), len(train))]])
