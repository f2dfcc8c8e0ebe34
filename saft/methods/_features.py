"""Methods that learn a small network on fixed features of interactions, with the product's loop and early stopping."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from saft.data.network import TextualInteractionNetwork
from saft.learning.loader import Memory, hash_seed
from saft.learning.prediction import predict_logits
from saft.learning.trainer import Silence, Watcher
from saft.methods._fine_tuned import count_parameters, run_training
from saft.methods._line_graph import LineGraph
from saft.metrics import softmax
from saft.settings import Settings


@dataclass(frozen=True)
class Rows:
    """A batch of rows, and nothing about them but what the loss compares with."""

    targets: Tensor
    answers: Tensor

    def to(self, device: torch.device) -> Rows:
        return Rows(self.targets.to(device), self.answers.to(device))


@dataclass(frozen=True)
class Deal:
    """Rows dealt to batches."""

    batches: list[np.ndarray]


class RowFeed:
    """Deals rows to batches; the model has the features. Without a batch size all rows are one batch."""

    memory: Memory | None = None

    def __init__(
        self, labels: np.ndarray, n_classes: int, seed: int, size: int | None = None, answers: np.ndarray | None = None
    ) -> None:
        self.labels, self.n_classes, self.seed, self.size = labels, n_classes, seed, size
        self.answers = labels.astype(np.int64) if answers is None else answers

    def __len__(self) -> int:
        return len(self.labels)

    def training_passes(self, rows: np.ndarray, epoch: int) -> Iterator[Deal]:
        if self.size is None:
            yield Deal([rows])
        else:
            shuffled = np.random.default_rng(hash_seed(self.seed, epoch)).permutation(rows)
            yield Deal([shuffled[first : first + self.size] for first in range(0, len(rows), self.size)])

    def prediction_passes(self, rows: np.ndarray) -> Iterator[Deal]:
        yield Deal([rows])

    def reading_batches(self, rows: np.ndarray) -> Iterator[Rows]:
        return iter(())

    def unread(self, targets: np.ndarray, seen: Deal) -> np.ndarray:
        return targets[:0]

    def batch(self, targets: np.ndarray, seen: Deal) -> Rows:
        return Rows(torch.from_numpy(targets), torch.from_numpy(self.answers[targets]))

    def fingerprint(self) -> str:
        return hashlib.sha256(self.answers.tobytes()).hexdigest()


@dataclass(frozen=True)
class Logits:
    logits: Tensor


class OverFeatures(nn.Module):
    """A net with the features and the graph it is asked about. Only the net has parameters."""

    def __init__(self, net: nn.Module, features: Tensor, graph: LineGraph) -> None:
        super().__init__()
        self.net, self.features, self.graph = net, features, graph

    def forward(self, batch: Rows) -> Logits:
        return Logits(self.net(self.features, self.graph, batch.targets))


class FeatureMethod(ABC):
    """Features of every interaction, then a net ``(features, graph, targets) → logits`` trained on them.

    ``training`` are the settings of this second step. They are the method's own: a full-batch net takes hundreds of
    steps where an encoder takes a few epochs.
    """

    training: ClassVar[dict[str, Any]] = {}
    batch_size: int | None = None

    def __init__(self, settings: Settings, watcher: Watcher | None) -> None:
        self.settings = settings
        self.watcher: Watcher = watcher or Silence()

    def learn(self, network: TextualInteractionNetwork, train: np.ndarray) -> None:  # noqa: B027 (most need nothing)
        """What the features need to know before any are made. Labels of rows other than ``train`` are hidden."""

    @abstractmethod
    def features(self, network: TextualInteractionNetwork) -> Tensor | np.ndarray:
        """One row per interaction. Labels must not be used."""

    @abstractmethod
    def net(self, width: int, network: TextualInteractionNetwork) -> nn.Module: ...

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        visible = network.showing(train)
        torch.manual_seed(self.settings.seed)
        self.learn(visible, np.asarray(train))
        features = as_tensor(self.features(visible))
        settings = self.settings.changed(**self.training)
        torch.manual_seed(self.settings.seed)
        self.net_ = self.net(features.shape[1], visible)
        self.n_parameters_ = count_parameters(self.net_)
        model = OverFeatures(self.net_, features, LineGraph.of(visible))
        feed = RowFeed(visible.labels, visible.n_classes, settings.seed, self.batch_size)
        run_training(model, feed, np.asarray(train), (np.asarray(valid), network), settings, self.watcher)
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        network = network.showing(np.empty(0, np.int64))
        model = OverFeatures(self.net_, as_tensor(self.features(network)), LineGraph.of(network))
        feed = RowFeed(network.labels, network.n_classes, self.settings.seed)
        return softmax(predict_logits(model, feed, np.asarray(interactions)))


def as_tensor(features: Tensor | np.ndarray) -> Tensor:
    return torch.from_numpy(features) if isinstance(features, np.ndarray) else features


class Perceptron(nn.Module):
    """Linear, ReLU, BatchNorm, Dropout, Linear on each row by itself."""

    def __init__(self, width: int, hidden: int, n_classes: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.BatchNorm1d(hidden),
            nn.Dropout(dropout),
            nn.Linear(hidden, n_classes),
        )

    def forward(self, features: Tensor, graph: LineGraph, targets: Tensor) -> Tensor:
        return self.layers(features[targets])
