"""Methods that train an encoder end to end: the product's reader, batches, loop and early stopping, another model."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from saft.classifier.assembly import Assembly, Build
from saft.data.network import TextualInteractionNetwork
from saft.learning.loader import Feed, Source
from saft.learning.prediction import predict_logits, refresh
from saft.learning.trainer import Loss, Standing, Trainer, Watcher
from saft.metrics import softmax
from saft.model.base import InteractionModel, Output, Sizes, pooled
from saft.model.batch import Batch
from saft.model.encoder import LanguageModel
from saft.settings import Settings


class FineTuned:
    """A model of the encoder's states, trained on the training rows.

    Labels of training rows are the only ones in the network that is kept; the validation rows' are handed to the loop
    for scoring and go nowhere else.
    """

    def __init__(self, settings: Settings, watcher: Watcher | None, build: Build, **options: str) -> None:
        self.settings, self.watcher = settings, watcher
        self.build: Build = partial(build, **options)

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        self.train = np.asarray(train)
        self.assembly = Assembly.fresh(self.settings, network.showing(self.train), self.build)
        self.n_parameters_ = count_parameters(self.assembly.model)
        run_training(
            self.assembly.model, self.assembly.feed(), self.train, (valid, network), self.settings, self.watcher
        )
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        return softmax(predict_logits(self.assembly.model, self.feed(network), np.asarray(interactions)))

    def feed(self, network: TextualInteractionNetwork) -> Feed:
        """Of this network, with no labels but those of training; what is new in it is read once."""
        feed = self.assembly.feed(network.showing(self.train))
        refresh(self.assembly.model, feed, np.arange(len(self.assembly.network), len(network)))
        return feed


def run_training(
    model: nn.Module,
    feed: Source,
    train: np.ndarray,
    scored: tuple[np.ndarray, TextualInteractionNetwork] | None,
    settings: Settings,
    watcher: Watcher | None,
    loss: Loss | None = None,
) -> Standing:
    """The product's loop. Ctrl-C is for whoever asked for the training: a method half trained is no rival.

    Args:
        scored: rows to stop early by, and the network that has their labels; None trains to the last epoch.
    """
    valid, labels = np.empty(0, np.int64), np.empty(0, np.int64)
    if scored is not None:
        valid, labels = np.asarray(scored[0]), scored[1].labels[scored[0]]
    standing = Trainer(model, feed, train, valid, labels, settings, loss=loss, watcher=watcher).run()
    if standing.interrupted:
        raise KeyboardInterrupt
    return standing


def count_parameters(model: nn.Module) -> int:
    """Those that are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


class TextModel(InteractionModel):
    """An encoder and a linear head on what stands for a text.

    ``mean`` is the default: the embedded encoder was trained for it, and on 5,000 interactions of rotten tomatoes it
    measured 76.4 Macro-F1 against 72.6 for the first token. ``first`` is what the originals take, for encoders whose
    first token was trained to stand for the text.
    """

    def __init__(self, language: LanguageModel, settings: Settings, sizes: Sizes, pooling: str = "mean") -> None:
        super().__init__(language, settings, sizes)
        self.pooling = pooling
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(language.width, sizes.n_classes)

    def pooled(self, texts: list[Tensor], chunks: list[tuple[Tensor, Tensor]]) -> Tensor:
        """(texts, width) from the token states of every chunk."""
        return torch.cat([pooled(states, mask, self.pooling) for states, (_, mask) in zip(texts, chunks, strict=True)])

    def read(self, batch: Batch) -> Tensor:
        """(read, width) every text by itself."""
        return self.pooled([self.language(*chunk) for chunk in batch.texts], batch.texts)

    def answer(self, seen: Tensor, passed_on: Tensor | None = None) -> Output:
        return Output(self.head(self.dropout(seen)), seen, passed_on)


POOLING = {"pooling": ("mean", "first")}
# Settings of methods that are shown sampled neighbours, and nothing else of the graph.
SAMPLES_ONLY: dict[str, Any] = {
    "fusion": "residual", "distance": "none", "centrality": "none", "nodes": "trained", "labels": False,
    "sampling": "random", "phrases": False,
}  # fmt: skip


def neighbours_of_targets(batch: Batch) -> Tensor:
    """(targets, read + remembered) which interactions are sampled neighbours of each target, never itself.

    Batches are small, so the relation is written out.
    """
    mask = torch.zeros(len(batch.targets), len(batch.users), dtype=torch.bool, device=batch.users.device)
    for side, nodes in (("user", batch.users), ("item", batch.items)):
        mask |= (nodes[batch.targets][:, None] == nodes[None]) & batch.speaks[side][None]
    mask[torch.arange(len(batch.targets)), batch.targets] = False
    return mask
