"""EgoGraph: one interaction with everything that its prediction depends on, apart from the network it came from.

Ego graphs do not depend on each other, so any of them can be predicted together: requests of different people, or one
interaction with this word or that neighbour removed. Message states of neighbours come from the cache, so an ego graph
costs the encoding of its own text and little else. Where sums over all neighbours are heard, these stand in their
place.

A batch of ego graphs is a small network of its own, in which every ego has a user and an item to itself. Batches are
built from it by the loader that training and ``SaftClassifier.predict`` use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saft.data.network import HIDDEN
from saft.features.arrays import Features, ReadText
from saft.features.evidence import Evidence
from saft.features.folds import NO_FOLD, VIEWS
from saft.features.gathering import SIDES
from saft.features.tokens import Tokens, cut_by_length
from saft.features.trees import TreeModel
from saft.learning.loader import PREDICTED_AT_ONCE, BatchLoader, LabelMaskedPass, Sums
from saft.learning.neighbour_cache import NeighbourCache
from saft.learning.prediction import Forward, collect
from saft.learning.sampling import Neighbours
from saft.model.base import InteractionModel
from saft.model.batch import Batch
from saft.settings import Settings


@dataclass(frozen=True)
class Neighbourhood:
    """The sampled neighbours of an interaction, each once. One entry per neighbour."""

    rows: np.ndarray  # their numbers in the network
    is_source: dict[str, np.ndarray]  # side → which of them are in the sample of the user, of the item
    labels: np.ndarray  # visible ones, HIDDEN elsewhere
    states: np.ndarray  # (neighbours, *message shape) their message states

    def without(self, number: int) -> Neighbourhood:
        """Without the interaction of this number, if it is among them."""
        rest = self.rows != number
        is_source = {side: which[rest] for side, which in self.is_source.items()}
        return Neighbourhood(self.rows[rest], is_source, self.labels[rest], self.states[rest])


@dataclass(frozen=True)
class HeardSums:
    """Sums of message states over the other interactions of the user and of the item, in this order."""

    sums: Tensor  # (layers, 2, width)
    counts: Tensor  # (2,) how many others
    counted: Tensor  # () 1 if the interaction's own state is in the sums

    def without(self, state: Tensor, shared: Sequence[str]) -> HeardSums:
        """Without another interaction of this state, which shares these sides."""
        is_shared = torch.tensor([float(side in shared) for side in SIDES])
        return replace(self, sums=self.sums - state * is_shared[:, None], counts=self.counts - is_shared)


@dataclass(frozen=True)
class EgoNode:
    """The user, or the item, of an interaction."""

    slot: int  # row in the table of trained vectors; 0 if training did not see it
    vector: np.ndarray  # attributes, or fixed numbers
    is_source: bool  # whether the interaction itself is in the node's sample


@dataclass(frozen=True)
class EgoGraph:
    number: int  # in the network; that of the next interaction to come if it is not there
    codes: dict[str, int]  # side → its node there
    read: ReadText  # what the readers say of its text
    tokens: np.ndarray  # ids, or states if the encoder has frozen layers
    evidence: Evidence  # of one row
    structure: dict[str, np.ndarray]  # role → (dim,)
    nodes: dict[str, EgoNode]  # side → its user, its item
    neighbourhood: Neighbourhood
    heard: HeardSums | None = None  # where these are heard, the neighbourhood is empty

    def with_node(self, side: str, **changes: Any) -> EgoGraph:
        return replace(self, nodes=self.nodes | {side: replace(self.nodes[side], **changes)})


def stacked_structure(egos: Sequence[EgoGraph]) -> dict[str, np.ndarray]:
    """Role → (egos, dim)."""
    return {role: np.stack([ego.structure[role] for ego in egos]) for role in egos[0].structure}


class EgoPredictor:
    """Outputs of a model for ego graphs.

    Args:
        padding: the token id that stands where a text has no token.
        trees: see :class:`~saft.learning.loader.BatchLoader`.
        session: computes logits instead of the model, if given; takes the same batches.
    """

    def __init__(
        self,
        model: InteractionModel,
        settings: Settings,
        n_classes: int,
        padding: int,
        trees: TreeModel | None = None,
        session: Forward | None = None,
    ) -> None:
        self.trees = trees
        self.model, self.settings, self.n_classes, self.padding = model, settings, n_classes, padding
        self.session = session

    @torch.inference_mode()
    def logits(self, egos: Sequence[EgoGraph]) -> np.ndarray:
        """(egos, classes)."""
        return self._collected(egos, "logits", self.session or self.model)

    @torch.inference_mode()
    def message_states(self, egos: Sequence[EgoGraph]) -> np.ndarray:
        """(egos, *message shape)."""
        return self._collected(egos, "message_state", self.model)

    def batch(self, egos: Sequence[EgoGraph]) -> Batch:
        """These ego graphs as seed rows, their texts in one chunk if they are of similar length."""
        loader, view = self._loader(egos)
        return loader.batch(np.arange(len(egos)), view)

    def _collected(self, egos: Sequence[EgoGraph], what: str, forward: Forward) -> np.ndarray:
        if self.model.training:
            self.model.train(False)
        found = collect(self._batches(egos), len(egos), what, forward)
        return np.empty((0, self.n_classes), np.float32) if found is None else found

    def _batches(self, egos: Sequence[EgoGraph]) -> Iterator[tuple[np.ndarray, Batch]]:
        """Texts of similar length together; every batch is one chunk."""
        lengths = np.array([len(ego.tokens) for ego in egos])
        order = np.argsort(-lengths, kind="stable")
        for alike in cut_by_length(order, lengths[order]):
            for places in np.split(alike, range(PREDICTED_AT_ONCE, len(alike), PREDICTED_AT_ONCE)):
                if len(places):
                    yield places, self.batch([egos[place] for place in places])

    def _loader(self, egos: Sequence[EgoGraph]) -> tuple[BatchLoader, LabelMaskedPass]:
        """The network of these ego graphs: egos first, then their neighbours; the last node of a side has no ego."""
        count = len(egos)
        owner = np.repeat(np.arange(count), [len(ego.neighbourhood.rows) for ego in egos])
        sides = {side: _Side.of(egos, side, owner) for side in SIDES}
        labels = np.concatenate([np.full(count, HIDDEN), *(ego.neighbourhood.labels for ego in egos)]).astype(np.int32)
        features = Features(
            users=sides["user"].nodes,
            items=sides["item"].nodes,
            tokens=self._tokens(egos, len(owner)),
            structure=stacked_structure(egos),
            log_odds=np.empty((VIEWS, len(labels), 0), np.float32),
            parts=np.empty((VIEWS, len(labels), 0), np.float32),
            vectors=np.empty((len(labels), 0), np.float32),
            style=np.empty((len(labels), 0), np.float32),
            folds=np.full(len(labels), NO_FOLD),
            user_vectors=sides["user"].vectors,
            item_vectors=sides["item"].vectors,
            user_slots=sides["user"].slots,
            item_slots=sides["item"].slots,
        )
        view = LabelMaskedPass([], labels, sides["user"].sources, sides["item"].sources)
        evidence = Evidence.stacked([ego.evidence for ego in egos])
        loader = BatchLoader(
            features,
            labels,
            self.n_classes,
            self.settings,
            self._cache(egos),
            evidence=evidence,
            sums=self._sums(egos),
            trees=self.trees,
        )
        return loader, view

    def _tokens(self, egos: Sequence[EgoGraph], n_neighbours: int) -> Tokens:
        """Of the egos; neighbours have none, since they are not encoded."""
        ends = np.cumsum([len(ego.tokens) for ego in egos])
        starts = np.concatenate([[0], ends, np.full(n_neighbours, ends[-1])])
        return Tokens(np.concatenate([ego.tokens for ego in egos]), starts, self.padding)

    def _cache(self, egos: Sequence[EgoGraph]) -> NeighbourCache | None:
        """Message states of the neighbours, whose rows follow those of the egos."""
        if not self.settings.passes_messages or self.settings.sums_states:
            return None
        states = torch.from_numpy(np.concatenate([ego.neighbourhood.states for ego in egos]))
        return NeighbourCache(states.new_zeros(len(egos), *states.shape[1:]), added=states)

    def _sums(self, egos: Sequence[EgoGraph]) -> Sums | None:
        heard = [ego.heard for ego in egos if ego.heard is not None]
        if not heard:
            return None
        parts = zip(*((one.sums, one.counts, one.counted) for one in heard), strict=True)
        sums, counts, counted = (torch.stack(part) for part in parts)
        return sums, counts, counted


@dataclass(frozen=True)
class _Side:
    """The users (or items) of a batch of ego graphs: one per ego, and one that stands for all others."""

    nodes: np.ndarray  # (egos + neighbours,) node of each; a neighbour outside of the sample belongs to the last one
    slots: np.ndarray
    vectors: np.ndarray
    sources: Neighbours

    @classmethod
    def of(cls, egos: Sequence[EgoGraph], side: str, owner: np.ndarray) -> _Side:
        count = len(egos)
        own = [ego.nodes[side] for ego in egos]
        sampled = np.concatenate([ego.neighbourhood.is_source[side] for ego in egos])
        is_source = np.concatenate([[node.is_source for node in own], sampled]).astype(bool)
        nodes = np.concatenate([np.arange(count), np.where(sampled, owner, count)])
        rows = np.flatnonzero(is_source)
        order = np.argsort(nodes[rows], kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(nodes[rows], minlength=count + 1))])
        return cls(
            nodes,
            np.array([*(node.slot for node in own), 0]),
            np.stack([*(node.vector for node in own), np.zeros_like(own[0].vector)]),
            Neighbours(starts, rows[order]),
        )
