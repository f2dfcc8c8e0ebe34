"""The base of all models of interactions: an encoder, and whatever a method builds around it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.errors import InputError
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder, masked_mean
from saft.settings import Settings


@dataclass(frozen=True)
class Sizes:
    """Sizes of the network that a model is made for."""

    n_classes: int
    n_users: int
    n_items: int
    user_vectors: int  # columns of Nodes.vectors
    item_vectors: int
    side_features: int = 0  # columns of Batch.side_features
    learnt: slice = field(default_factory=lambda: slice(0, 0))  # those of them that the trained part sees


@dataclass(frozen=True)
class Output:
    logits: Tensor  # (seeds, classes)
    representation: Tensor  # (seeds, ·) the input of the head, without labels
    message_state: Tensor | None = None  # (encoded, *message_shape), for the neighbour cache


class InteractionModel(nn.Module):
    """Batch → logits of its seed rows.

    Attributes:
        encoder: the pretrained part, which learns at a rate of its own.
        message_shape: of an interaction's message state; empty if the model passes no messages.
        hears_sums: whether it takes the sum of all neighbours' states instead of those of some.
    """

    message_shape: tuple[int, ...] = ()
    hears_sums: bool = False

    def __init__(self, encoder: TextEncoder, settings: Settings, sizes: Sizes) -> None:
        super().__init__()
        self.encoder, self.settings, self.sizes = encoder, settings, sizes
        if encoder.frozen and settings.train_words:
            raise InputError("train_words=True needs trained_layers to be all layers: word vectors are below them.")
        encoder.word_vectors().requires_grad_(settings.train_words)

    def forward(self, batch: Batch) -> Output:
        raise NotImplementedError


class SideFeatureModel(InteractionModel):
    """A model whose head also sees the side features.

    Some of them, the learnt ones, are trained with; the head starts from the best that can be done with these alone.
    Weights of the others stay zero until the start is mixed in, see :mod:`saft.learning.start`.

    Attributes:
        head: linear; its last columns belong to the side features.
    """

    head: nn.Linear

    @property
    def n_side_features(self) -> int:
        return self.sizes.side_features

    @property
    def n_learnt(self) -> int:
        return self.sizes.learnt.stop - (self.sizes.learnt.start or 0)

    def start_from_side_features(self, solved: Tensor) -> None:
        """Start the head from this solution: (side features + 1, classes) weights and, last, biases.

        It gives the logits alone, until training adds the rest.
        """
        with torch.no_grad():
            self.head.weight.zero_()
            self.head.weight[:, -self.n_side_features :] = solved[:-1].T
            self.head.bias.copy_(solved[-1])

    def as_learnt(self, side_features: Tensor) -> Tensor:
        """The same with zeros where training does not look."""
        seen = torch.zeros_like(side_features)
        seen[:, self.sizes.learnt] = side_features[:, self.sizes.learnt]
        return seen

    @torch.no_grad()
    def side_logits(self, side_features: Tensor) -> Tensor:
        """(rows, classes) the part of the logits that comes from the side features."""
        return functional.linear(side_features, self.head.weight[:, -self.n_side_features :], self.head.bias)


class NodeTable(nn.Module):
    """A trained vector per user (or item).

    Row 0 is for nodes that training did not see. In training it replaces other rows at random, so that its vector is
    trained too.
    """

    def __init__(self, n_nodes: int, dim: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.vectors = nn.Embedding(n_nodes + 1, dim)
        nn.init.normal_(self.vectors.weight, std=0.02)

    def forward(self, slots: Tensor) -> Tensor:
        if self.training and self.dropout:
            slots = slots * (torch.rand(len(slots), device=slots.device) >= self.dropout)
        return self.vectors(slots)


POOLINGS = ("mean", "first", "last")


def pooled(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """(texts, width) the vector of a text: the mean over its tokens, or the state of its first or last one."""
    if pooling == "mean":
        return masked_mean(states, mask)
    place = torch.zeros_like(mask[:, 0]) if pooling == "first" else mask.sum(dim=1) - 1
    return states[torch.arange(len(states), device=states.device), place]


def means(texts: list[Tensor], masks: list[Tensor]) -> Tensor:
    """(encoded, width) masked means of all chunks."""
    return torch.cat([masked_mean(states, mask) for states, mask in zip(texts, masks, strict=True)])
