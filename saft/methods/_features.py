"""Methods that learn a small network on fixed features of interactions, with the product's loop and early stopping."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from saft.classifier.assembly import Cache
from saft.data.network import TextualInteractionNetwork
from saft.hashing import hash_seed
from saft.learning.callbacks import Callback, CallbackList
from saft.learning.prediction import predict_logits
from saft.methods._fine_tuned import count_parameters, run_training
from saft.methods._line_graph import LineGraph
from saft.metrics import softmax
from saft.settings import Settings


@dataclass(frozen=True)
class Rows:
    """A batch: seed rows, and the targets that the loss compares with. The features are in the model."""

    seed_rows: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> Rows:
        return Rows(self.seed_rows.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Deal:
    """Rows dealt to batches."""

    batches: list[np.ndarray]


class RowLoader:
    """Deals rows to batches; the features are in the model. Without a batch size all rows are one batch."""

    cache: Cache | None = None

    def __init__(
        self, labels: np.ndarray, n_classes: int, seed: int, size: int | None = None, targets: np.ndarray | None = None
    ) -> None:
        self.labels, self.n_classes, self.seed, self.size = labels, n_classes, seed, size
        self.targets = labels.astype(np.int64) if targets is None else targets

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

    def isolated_batches(self, rows: np.ndarray) -> Iterator[Rows]:
        return iter(())

    def uncached(self, seed_rows: np.ndarray, view: Deal) -> np.ndarray:
        return seed_rows[:0]

    def batch(self, seed_rows: np.ndarray, view: Deal) -> Rows:
        return Rows(torch.from_numpy(seed_rows), torch.from_numpy(self.targets[seed_rows]))

    def fingerprint(self) -> str:
        return hashlib.sha256(self.targets.tobytes()).hexdigest()


@dataclass(frozen=True)
class Logits:
    logits: Tensor


class OverFeatures(nn.Module):
    """A net with the features and the graph that it is applied to. Only the net has parameters."""

    def __init__(self, net: nn.Module, features: Tensor, graph: LineGraph) -> None:
        super().__init__()
        self.net, self.features, self.graph = net, features, graph

    def forward(self, batch: Rows) -> Logits:
        return Logits(self.net(self.features, self.graph, batch.seed_rows))


class FeatureMethod(ABC):
    """Features of every interaction, then a net ``(features, graph, seed_rows) → logits`` trained on them.

    ``training`` are the settings of this second step. They are the method's own: a full-batch net takes hundreds of
    steps where an encoder takes a few epochs.
    """

    training: ClassVar[dict[str, Any]] = {}
    batch_size: int | None = None

    def __init__(self, settings: Settings, callbacks: Iterable[Callback]) -> None:
        self.settings = settings
        self.callbacks = CallbackList(callbacks)

    def learn(self, network: TextualInteractionNetwork, train: np.ndarray) -> None:  # noqa: B027 (most need nothing)
        """Fit what ``features`` depends on; called once, before it. Labels of rows other than ``train`` are hidden."""

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
        loader = RowLoader(visible.labels, visible.n_classes, settings.seed, self.batch_size)
        run_training(model, loader, np.asarray(train), (np.asarray(valid), network), settings, self.callbacks)
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        network = network.showing(np.empty(0, np.int64))
        model = OverFeatures(self.net_, as_tensor(self.features(network)), LineGraph.of(network))
        loader = RowLoader(network.labels, network.n_classes, self.settings.seed)
        return softmax(predict_logits(model, loader, np.asarray(interactions)))


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

    def forward(self, features: Tensor, graph: LineGraph, seed_rows: Tensor) -> Tensor:
        return self.layers(features[seed_rows])
