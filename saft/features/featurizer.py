"""Featurizer: from a network to the arrays that a model reads: tokens, log-odds, structure, users and items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from saft.data.network import TextualInteractionNetwork
from saft.features.arrays import Features, ReadTexts
from saft.features.context import ContextModel
from saft.features.folds import NO_FOLD, VIEWS, fold_of_rows
from saft.features.ngrams import NgramModel
from saft.features.nodes import Attributes, gaussian_vectors
from saft.features.sentences import SentenceModel
from saft.features.style import StyleModel
from saft.features.tokens import Tokens, tokenise
from saft.features.trees import FITTED_DIMENSIONS
from saft.settings import Settings
from saft.structure.standardised import Structure


@dataclass(frozen=True)
class FeaturizerState:
    """What a featurizer has learnt from the network of training."""

    structure: Structure
    attributes: dict[str, Attributes]  # side → how its attributes become numbers
    degrees: dict[str, np.ndarray]  # side → interactions of each node in the network of training; its codes come first
    ngrams: NgramModel | None = None
    sentences: SentenceModel | None = None
    context: ContextModel | None = None
    style: StyleModel | None = None


# Tokens → (texts, depths, width), means of the states that an encoder's frozen layers give them.
SentenceVectors = Callable[[Tokens], np.ndarray]


class Featurizer:
    """Learns from the network of training; then transforms that network, and the same with rows added.

    Attributes:
        state_: what was learnt.
    """

    state_: FeaturizerState

    def __init__(self, settings: Settings, tokenizer: Any, sentence_vectors: SentenceVectors | None = None) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        self.sentence_vectors = sentence_vectors if settings.sentences and settings.words else None

    @classmethod
    def restored(
        cls, settings: Settings, tokenizer: Any, state: FeaturizerState, sentence_vectors: SentenceVectors | None = None
    ) -> Featurizer:
        """A fitted one, from what was stored."""
        featurizer = cls(settings, tokenizer, sentence_vectors)
        featurizer.state_ = state
        return featurizer

    def fit_transform(
        self, network: TextualInteractionNetwork, on_progress: Callable[[int], None] = lambda rows: None
    ) -> Features:
        """Learn from topology, attributes and texts; readers of texts learn from the labels that the network shows."""
        settings, ngrams, sentences, context, style = self.settings, None, None, None, None
        structure = new_structure(settings).fit(network.users, network.items)
        folds = fold_of_rows(len(network), settings.seed)
        tokens, vectors = self._tokens(network.texts, on_progress), np.empty((len(network), 0), np.float32)
        if settings.ngrams and settings.words:
            ngrams = NgramModel.fit(network.texts, network.labels, network.n_classes, folds, settings.seed)
        if settings.style and settings.words:
            style = StyleModel.fit(network.texts)
        if self.sentence_vectors is not None:
            vectors = self.sentence_vectors(tokens)
            learnt_from = network.labels, network.n_classes, folds, settings.seed
            sentences = SentenceModel.fit(vectors, *learnt_from)
            if settings.neighbour_words:
                context = ContextModel.fit(vectors, (network.users, network.items), *learnt_from)
        self.state_ = FeaturizerState(
            structure,
            {"user": _fit_attributes(network.user_attributes), "item": _fit_attributes(network.item_attributes)},
            {"user": network.user_degrees, "item": network.item_degrees},
            ngrams,
            sentences,
            context,
            style,
        )
        return self._features(network, self._read(network.texts, tokens, 0))

    def transform(
        self,
        network: TextualInteractionNetwork,
        known: Features | None = None,
        on_progress: Callable[[int], None] = lambda rows: None,
    ) -> Features:
        """Features of the whole network. ``known`` are those of its first interactions, if they exist already."""
        first = 0 if known is None else len(known)
        return self._features(network, self.read_texts(network.texts[first:], first, on_progress), known)

    def _features(
        self, network: TextualInteractionNetwork, texts: ReadTexts, known: Features | None = None
    ) -> Features:
        """Of the interactions that follow the known ones, whose texts these are; then all together."""
        first, users, items = (0, 0, 0) if known is None else (len(known), known.n_users, known.n_items)
        new_users, new_items = network.users[first:], network.items[first:]
        folds = np.full(len(network), NO_FOLD)
        folds[: self._n_fitted] = fold_of_rows(self._n_fitted, self.settings.seed)[: len(network)]
        features = Features(
            users=new_users,
            items=new_items,
            tokens=texts.tokens,
            # New users and items occur in the new interactions only, so these suffice to fold them in.
            structure=self.state_.structure.transform(new_users, new_items) if len(new_users) else {},
            log_odds=texts.log_odds,
            parts=texts.parts,
            vectors=texts.vectors,
            style=texts.style,
            folds=folds[first:],
            user_vectors=self.node_vectors("user", network.user_ids, network.user_attributes, users),
            item_vectors=self.node_vectors("item", network.item_ids, network.item_attributes, items),
            user_slots=self.node_slots("user", np.arange(users, network.n_users)),
            item_slots=self.node_slots("item", np.arange(items, network.n_items)),
        )
        return features if known is None else known.followed_by(features)

    @property
    def _n_fitted(self) -> int:
        """How many interactions the network of training has."""
        return int(self.state_.degrees["user"].sum())

    def read_texts(
        self, texts: pl.Series, first: int | None = None, on_progress: Callable[[int], None] = lambda rows: None
    ) -> ReadTexts:
        """
        Args:
            first: number of the first text's interaction, the others follow it; None if they are not in the network.
                Interactions of ``fit`` have the log-odds that were computed there.
        """
        return self._read(texts, self._tokens(texts, on_progress), first)

    def _tokens(self, texts: pl.Series, on_progress: Callable[[int], None]) -> Tokens:
        if self.tokenizer is None:
            return Tokens(np.empty(0, np.int32), np.zeros(len(texts) + 1, np.int64), 0)
        if not self.settings.words:
            texts = pl.repeat("", len(texts), eager=True)
        return tokenise(texts, self.tokenizer, self.settings.max_length, on_progress)

    def _read(self, texts: pl.Series, tokens: Tokens, first: int | None) -> ReadTexts:
        ngrams, sentences, style = self.state_.ngrams, self.state_.sentences, self.state_.style
        known = 0 if first is None else min(max(self._n_fitted - first, 0), len(texts))
        fitted = slice(first, (first or 0) + known)
        said = [np.empty((VIEWS, len(texts), 0), np.float32)]
        parts, directions = np.empty((VIEWS, len(texts), 0), np.float32), np.empty((len(texts), 0), np.float32)
        if ngrams is not None:
            said.append(_followed(ngrams.fitted_log_odds[:, fitted], ngrams.log_odds(texts[known:])))
        if sentences is not None and self.sentence_vectors is not None:
            new = self.sentence_vectors(tokens.take(np.arange(known, len(texts))))
            said.append(_followed(sentences.fitted_log_odds[:, fitted], sentences.log_odds(new)))
            known_directions = sentences.fitted_directions[fitted].astype(np.float32)
            directions = np.concatenate([known_directions, sentences.directions(new)])
            if self.state_.context is not None:
                parts = _followed(self.state_.context.fitted_parts[:, fitted], self.state_.context.parts(new))
        written = np.empty((len(texts), 0), np.float32) if style is None else style.transform(texts)
        return ReadTexts(tokens, np.concatenate(said, axis=2), parts, directions, written)

    def node_slots(self, side: str, codes: np.ndarray) -> np.ndarray:
        """Rows of the table of trained vectors; row 0 is for nodes that training did not see."""
        return np.where(codes < len(self.state_.degrees[side]), codes + 1, 0)

    def node_vectors(self, side: str, ids: pl.Series, attributes: pl.DataFrame | None, first: int) -> np.ndarray:
        """(nodes, ·) vectors of the nodes from code ``first`` on; ids and attributes are those of all nodes."""
        known = self.state_.degrees[side][first : len(ids)]
        degrees = np.pad(known, (0, len(ids) - first - len(known)))
        return self._node_vectors(side, ids[first:], None if attributes is None else attributes[first:], degrees)

    def new_node_vectors(self, side: str, ids: pl.Series, attributes: pl.DataFrame | None) -> np.ndarray:
        """(nodes, ·) vectors of nodes that training did not know."""
        return self._node_vectors(side, ids, attributes, np.zeros(len(ids)))

    def _node_vectors(
        self, side: str, ids: pl.Series, attributes: pl.DataFrame | None, degrees: np.ndarray
    ) -> np.ndarray:
        """No vector depends on the name of a node of degree 0, which training did not know."""
        nodes = self.settings.nodes
        if not self.settings.fuses:
            return np.empty((len(ids), 0), np.float32)
        given = self.state_.attributes[side].transform(attributes, len(ids))
        if nodes == "profile":
            return np.hstack([given, self._activity(side, degrees)[:, None]]).astype(np.float32)
        if nodes == "trained" or given.shape[1]:
            return given
        # A user and an item of the same name get different vectors.
        vectors = gaussian_vectors(ids, self.settings.node_dim, 2 * self.settings.seed + (side == "item"))
        return np.where(degrees[:, None] > 0, vectors, 0).astype(np.float32)

    def _activity(self, side: str, degrees: np.ndarray) -> np.ndarray:
        """log(1 + degree), standardised over the interactions of training.

        An unknown node counts as an average one: training never sees a degree of 0.
        """
        known = self.state_.degrees[side]
        logs = np.log1p(known)
        mean = np.average(logs, weights=known)
        spread = np.sqrt(np.average((logs - mean) ** 2, weights=known))
        return np.where(degrees > 0, (np.log1p(degrees) - mean) / max(float(spread), 1e-6), 0.0)


def _followed(fitted: np.ndarray, new: np.ndarray) -> np.ndarray:
    """(views, texts, ·) those of ``fit``, then new ones, of which all views say the same."""
    return np.concatenate([fitted, np.broadcast_to(new, (VIEWS, *new.shape))], axis=1)


def new_structure(settings: Settings) -> Structure:
    """The unfitted embeddings that these settings name; trees alone look at few of their dimensions."""
    whole = settings.fuses and (settings.structure_tokens or settings.sampling != "random")
    dim = settings.structure_dim if whole else min(settings.structure_dim, FITTED_DIMENSIONS)
    if not settings.reads_structure:
        return Structure("none", "none", dim, settings.seed)
    return Structure(settings.distance, settings.centrality, dim, settings.seed)


def _fit_attributes(frame: pl.DataFrame | None) -> Attributes:
    return Attributes(()) if frame is None else Attributes.fit(frame)
