"""From a network to the numbers that a model reads: tokens, structure, and what is known of users and items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from saft.data.network import TextualInteractionNetwork
from saft.features.ngrams import Phrases
from saft.features.nodes import Attributes, gaussian_vectors
from saft.features.tokens import Tokens, tokenise
from saft.settings import Settings
from saft.structure.standardised import Structure


@dataclass(frozen=True)
class Inputs:
    """One entry per interaction, except where it says otherwise. An interaction's own label is in none of them."""

    users: np.ndarray
    items: np.ndarray
    tokens: Tokens
    structure: dict[str, np.ndarray]  # role → (interactions, dim)
    clues: np.ndarray  # (interactions, classes) what its phrases say; without columns if nobody asked them
    user_vectors: np.ndarray  # (users, ·) attributes, or Gaussian numbers where there are none
    item_vectors: np.ndarray  # (items, ·)
    seen_users: int  # codes below this were there in training
    seen_items: int

    def __len__(self) -> int:
        return len(self.users)

    @property
    def n_users(self) -> int:
        return len(self.user_vectors)

    @property
    def n_items(self) -> int:
        return len(self.item_vectors)

    def followed_by(self, more: Inputs) -> Inputs:
        """These interactions, users and items, then those."""
        if not len(more):
            return self
        return replace(
            self,
            users=np.concatenate([self.users, more.users]),
            items=np.concatenate([self.items, more.items]),
            tokens=self.tokens.followed_by(more.tokens),
            structure={role: np.concatenate([own, more.structure[role]]) for role, own in self.structure.items()},
            clues=np.concatenate([self.clues, more.clues]),
            user_vectors=np.concatenate([self.user_vectors, more.user_vectors]),
            item_vectors=np.concatenate([self.item_vectors, more.item_vectors]),
        )


class Reader:
    """Learns from the network of training how to read; then reads that network, and the same with rows added."""

    def __init__(self, settings: Settings, tokenizer: Any) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        fused = settings.fusion != "none"
        self.structure = Structure(
            settings.distance if fused else "none",
            settings.centrality if fused else "none",
            settings.structure_dim,
            settings.seed,
        )
        self.phrases: Phrases | None = None

    def learn(self, network: TextualInteractionNetwork) -> Reader:
        """From topology and attributes; the phrases, from the labels that the network shows."""
        self.structure.fit(network.users, network.items)
        self.user_attributes = _learnt(network.user_attributes)
        self.item_attributes = _learnt(network.item_attributes)
        self.seen_users, self.seen_items = network.n_users, network.n_items
        if self.settings.phrases and self.settings.words:
            self.phrases = Phrases.learn(network.texts, network.labels, network.n_classes, self.settings.seed)
        return self

    def read(
        self,
        network: TextualInteractionNetwork,
        known: Inputs | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Inputs:
        """Inputs of the whole network. ``known`` are those of its first interactions, if they were read before."""
        first, users, items = (0, 0, 0) if known is None else (len(known), known.n_users, known.n_items)
        texts = network.texts[first:]
        if not self.settings.words:
            texts = pl.repeat("", len(texts), eager=True)
        new_users, new_items = network.users[first:], network.items[first:]
        inputs = Inputs(
            users=new_users,
            items=new_items,
            tokens=tokenise(texts, self.tokenizer, self.settings.max_length, progress),
            # Whoever is new occurs in the new interactions only: folding in needs no others.
            structure=self.structure.transform(new_users, new_items) if len(texts) else {},
            clues=self._clues(texts, first),
            user_vectors=self.node_vectors("user", network.user_ids[users:], _rest(network.user_attributes, users)),
            item_vectors=self.node_vectors("item", network.item_ids[items:], _rest(network.item_attributes, items)),
            seen_users=self.seen_users,
            seen_items=self.seen_items,
        )
        return inputs if known is None else known.followed_by(inputs)

    def _clues(self, texts: pl.Series, first: int) -> np.ndarray:
        """Of the interactions from ``first`` on."""
        if self.phrases is None:
            return np.empty((len(texts), 0), np.float32)
        learnt = self.phrases.learnt[first:]
        return np.concatenate([learnt, self.phrases.read(texts[len(learnt) :])])

    def node_vectors(self, side: str, ids: pl.Series, attributes: pl.DataFrame | None) -> np.ndarray:
        """(ids, ·) attributes where there are some to go by, else Gaussian numbers."""
        if self.settings.fusion == "none":
            return np.empty((len(ids), 0), np.float32)
        learnt = {"user": self.user_attributes, "item": self.item_attributes}[side]
        if learnt.width or self.settings.nodes == "trained":
            return learnt.transform(attributes, len(ids))
        # A user and an item of the same name are not the same thing.
        return gaussian_vectors(ids, self.settings.node_dim, 2 * self.settings.seed + (side == "item"))


def _rest(frame: pl.DataFrame | None, first: int) -> pl.DataFrame | None:
    return None if frame is None else frame[first:]


def _learnt(frame: pl.DataFrame | None) -> Attributes:
    return Attributes(()) if frame is None else Attributes.learn(frame)
