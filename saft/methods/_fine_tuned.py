"""Methods that train an encoder end to end: the product's featurizer, batches and training loop, another model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from saft.classifier.assembly import Build
from saft.classifier.fitting import fit
from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback, TrainerState
from saft.learning.interface import Loader
from saft.learning.loader import BatchLoader
from saft.learning.neighbour_cache import fill_cache
from saft.learning.prediction import predict_logits
from saft.learning.trainer import Loss, Trainer
from saft.metrics import softmax
from saft.model.base import InteractionModel, Output, Sizes, pooled
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder
from saft.settings import WORDS_ALONE, Settings


class FineTuned:
    """A model around an encoder, trained on the training rows.

    The network that is kept holds the labels of training rows only. Those of validation rows are used by the training
    loop for scoring, and nowhere else.
    """

    def __init__(self, settings: Settings, callbacks: Iterable[Callback], build: Build, **options: str) -> None:
        self.settings, self.callbacks = settings, callbacks
        self.build: Build = partial(build, **options) if options else build

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        self.train = np.asarray(train)
        fitted = fit(self.settings, network, self.train, np.asarray(valid), build=self.build, callbacks=self.callbacks)
        raise_if_interrupted(fitted.state)
        self.assembly = fitted.assembly
        self.n_parameters_ = count_parameters(self.assembly.model)
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        return softmax(predict_logits(self.assembly.model, self.loader(network), np.asarray(interactions)))

    def loader(self, network: TextualInteractionNetwork) -> BatchLoader:
        """Batches of this network, with the labels of training rows only; new rows are encoded into the cache."""
        loader = self.assembly.loader(network.showing(self.train))
        fill_cache(self.assembly.model, loader, np.arange(len(self.assembly.network), len(network)))
        return loader


def run_training(
    model: nn.Module,
    loader: Loader,
    train: np.ndarray,
    scored: tuple[np.ndarray, TextualInteractionNetwork] | None,
    settings: Settings,
    callbacks: Iterable[Callback],
    loss: Loss | None = None,
) -> TrainerState:
    """The product's loop, for a model that the method has put together itself.

    Args:
        scored: rows to stop early by, and the network that has their labels; None trains to the last epoch.
    """
    valid, labels = np.empty(0, np.int64), np.empty(0, np.int64)
    if scored is not None:
        valid, labels = np.asarray(scored[0]), scored[1].labels[scored[0]]
    state = Trainer(model, loader, train, valid, labels, settings, loss=loss, callbacks=callbacks).run()
    raise_if_interrupted(state)
    return state


def raise_if_interrupted(state: TrainerState) -> None:
    """Ctrl-C ends the comparison: scores of a half-trained method cannot be compared."""
    if state.interrupted:
        raise KeyboardInterrupt


def count_parameters(model: nn.Module) -> int:
    """The number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


class TextModel(InteractionModel):
    """An encoder and a linear head on the vector of a text.

    ``mean`` is the default: the embedded encoder was trained for it, and on 5,000 interactions of rotten tomatoes it
    measured 76.4 Macro-F1 against 72.6 for the first token. ``first`` is what the originals take, for encoders whose
    first token was trained to represent the text.

    Attributes:
        first_joined: the first layer in which a text may meet anything else. The encoder's first reads it alone; if
            that one is frozen, it has done so already.
    """

    def __init__(self, encoder: TextEncoder, settings: Settings, sizes: Sizes, pooling: str = "mean") -> None:
        super().__init__(encoder, settings, sizes)
        self.pooling, self.first_joined = pooling, 0 if encoder.frozen else 1
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(encoder.width, sizes.n_classes)

    def pooled(self, texts: list[Tensor], chunks: list[tuple[Tensor, Tensor]]) -> Tensor:
        """(texts, width) from the token states of every chunk."""
        return torch.cat([pooled(states, mask, self.pooling) for states, (_, mask) in zip(texts, chunks, strict=True)])

    def read(self, batch: Batch) -> Tensor:
        """(encoded, width) vectors of the texts, each computed from its text alone."""
        return self.pooled([self.encoder(*chunk) for chunk in batch.texts], batch.texts)

    def start(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(texts, length, width) states before layer ``first_joined``."""
        states = self.encoder.embed(tokens, mask)
        for number in range(self.first_joined):
            states = self.encoder.run_layer(number, states, mask)
        return states

    def answer(self, seen: Tensor, message_state: Tensor | None = None) -> Output:
        return Output(self.head(self.dropout(seen)), seen, message_state)


POOLING = {"pooling": ("mean", "first")}
# Settings of methods that use sampled neighbours, and nothing else of the graph.
SAMPLES_ONLY: dict[str, Any] = {
    "fusion": "residual", "messages": "lga", "distance": "none", "centrality": "none", "nodes": "trained",
    "labels": False, "sampling": "random",
} | WORDS_ALONE  # fmt: skip
# Of the graph, the known labels of the user's and the item's other interactions, and nothing else.
NO_GRAPH_BUT_LABELS: dict[str, Any] = {
    "fusion": "none", "labels": True, "alike_texts": False, "neighbour_words": False, "repeats": False,
    "distance": "none", "centrality": "none", "trees": False,
}  # fmt: skip


def neighbours_of_seed_rows(batch: Batch) -> Tensor:
    """(seeds, encoded + cached) which interactions are sampled neighbours of each seed row, never itself.

    Batches are small, so the mask is dense.
    """
    mask = torch.zeros(len(batch.seed_rows), len(batch.users), dtype=torch.bool, device=batch.users.device)
    for side, nodes in (("user", batch.users), ("item", batch.items)):
        mask |= (nodes[batch.seed_rows][:, None] == nodes[None]) & batch.is_source[side][None]
    mask[torch.arange(len(batch.seed_rows)), batch.seed_rows] = False
    return mask
