"""What every model of interactions has in common: an encoder, and whatever a method builds around it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from saft.model.batch import Batch
from saft.model.encoder import LanguageModel
from saft.settings import Settings


@dataclass(frozen=True)
class Sizes:
    """What a model has to know of the network it is made for."""

    n_classes: int
    n_users: int
    n_items: int
    user_vectors: int  # columns of Nodes.vectors
    item_vectors: int
    clues: int = 0  # columns of what phrases say


@dataclass(frozen=True)
class Output:
    logits: Tensor  # (targets, classes)
    representation: Tensor  # (targets, ·) what the head sees, without labels
    passed_on: Tensor | None = None  # (read, *passes_on), to be remembered


class InteractionModel(nn.Module):
    """Batch → logits of its targets.

    Attributes:
        passes_on: shape of what an interaction passes on to its neighbours; empty if it has nothing to say.
    """

    passes_on: tuple[int, ...] = ()

    def __init__(self, language: LanguageModel, settings: Settings, sizes: Sizes) -> None:
        super().__init__()
        self.language, self.settings, self.sizes = language, settings, sizes
        language.word_vectors().requires_grad_(settings.train_words)

    def forward(self, batch: Batch) -> Output:
        raise NotImplementedError


class NodeTable(nn.Module):
    """A trained vector per user (or item).

    Row 0 is for nodes that training never saw. In training nodes are replaced by it at random, so that new ones are no
    surprise.
    """

    def __init__(self, n_nodes: int, dim: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.vectors = nn.Embedding(n_nodes + 1, dim)
        nn.init.normal_(self.vectors.weight, std=0.02)

    def forward(self, codes: Tensor) -> Tensor:
        if self.training and self.dropout:
            codes = codes * (torch.rand(len(codes), device=codes.device) >= self.dropout)
        return self.vectors(codes)


POOLINGS = ("mean", "first", "last")


def pooled(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """(texts, width) what stands for a text: the mean over its tokens, or the state of its first or last one."""
    if pooling == "mean":
        return masked_mean(states, mask)
    place = torch.zeros_like(mask[:, 0]) if pooling == "first" else mask.sum(dim=1) - 1
    return states[torch.arange(len(states), device=states.device), place]


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """(texts, width) mean over the tokens that are there; padding does not count."""
    there = mask.to(states.dtype)[:, :, None]
    return (states * there).sum(dim=1) / there.sum(dim=1)


def means(texts: list[Tensor], masks: list[Tensor]) -> Tensor:
    """(read, width) masked means of all chunks."""
    return torch.cat([masked_mean(states, mask) for states, mask in zip(texts, masks, strict=True)])
