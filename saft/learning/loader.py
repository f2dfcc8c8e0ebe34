"""BatchLoader: decides what the model may see, and puts it into batches. This is the guard against leaking labels.

Rows are predicted in passes. A pass hides the labels of all its seed rows, from messages and from everything that is
computed from labels; whatever is visible is then safe to show. Training rows are dealt to passes by their folds, so
that each is a seed row once in an epoch, with its own label and those of its fold hidden. So training looks like
prediction, where the labels in question are unknown too; and the evidence of a row (see
:mod:`~saft.features.evidence`), which hides the same labels, is the same in every epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from saft.data.network import HIDDEN
from saft.features.arrays import Features
from saft.features.evidence import NEIGHBOURS_TELL, Evidence
from saft.features.folds import NO_FOLD
from saft.features.gathering import SIDES, Kinds, Rows, gather
from saft.features.tokens import Tokens, cut_by_length
from saft.features.trees import SideFeatures, TreeModel
from saft.hashing import hash_seed
from saft.learning.frozen_layers import FrozenStates
from saft.learning.neighbour_cache import NeighbourCache
from saft.learning.node_sums import NodeSums
from saft.learning.sampling import Neighbours, all_neighbours, batch_rows, drawn, plan_batches
from saft.model.batch import Batch, Heard, Nodes
from saft.settings import Settings

PREDICTED_AT_ONCE = 128
Sums = tuple[Tensor, Tensor, Tensor]  # as NodeSums.of_others gives them
Chunks = list[tuple[Tensor, Tensor]]  # (tokens or their states, mask) of each


@dataclass(frozen=True)
class LabelMaskedPass:
    """Seed rows in batches, and the view of the network while they are predicted."""

    batches: list[np.ndarray]
    labels: np.ndarray  # (interactions,) visible labels; HIDDEN for every seed row
    of_users: Neighbours
    of_items: Neighbours


class BatchLoader:
    """Batches of one network.

    Args:
        labels: of every interaction that may ever be seen; HIDDEN elsewhere. Validation and test labels stay outside.
        cache: message states of neighbours, or their sums; None if neighbours are encoded with every batch.
        isolated: show no neighbours.
        targets: what the loss compares with, if not the labels; e.g. (interactions, classes) for soft ones.
        frozen: output of the encoder's frozen layers; None if texts are read from their tokens.
        evidence: of every interaction, if it is not to be gathered from the features.
        sums: of the states that every interaction hears, if they are not looked up in a cache.
        trees: whose log-odds are side features as well.
    """

    def __init__(
        self,
        features: Features,
        labels: np.ndarray,
        n_classes: int,
        settings: Settings,
        cache: NeighbourCache | NodeSums | None = None,
        *,
        isolated: bool = False,
        targets: np.ndarray | None = None,
        frozen: FrozenStates | None = None,
        evidence: Evidence | None = None,
        sums: Sums | None = None,
        trees: TreeModel | None = None,
    ) -> None:
        self.features, self.labels, self.n_classes = features, labels, n_classes
        self.targets = labels.astype(np.int64) if targets is None else targets
        self.settings, self.cache, self.trees = settings, cache, trees
        self.texts: Tokens | FrozenStates = frozen or features.tokens
        self._given_evidence, self.isolated = evidence, isolated or not settings.passes_messages
        self._given_sums, self._sums = sums, cache if isinstance(cache, NodeSums) else None

    def __len__(self) -> int:
        return len(self.features)

    def fingerprint(self) -> str:
        """Of everything that batches show."""
        digest, features = hashlib.sha256(), self.features
        read = features.tokens.flat, features.log_odds, features.parts, features.vectors, features.style
        for array in (features.users, features.items, *read, self.labels, self.targets):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def training_passes(self, rows: np.ndarray, epoch: int) -> Iterator[LabelMaskedPass]:
        """Every row once as a seed row, shuffled by seed and epoch."""
        settings, features = self.settings, self.features
        passes = self._dealt(rows)
        for number in np.random.default_rng([settings.seed, epoch]).permutation(len(passes)).tolist():
            seed_rows = passes[number]
            size = len(seed_rows) if settings.full_batch else settings.batch_size
            seed = hash_seed(settings.seed, epoch, number)
            batches = plan_batches(
                features.users, features.items, seed_rows, size, group_size=settings.group_size, seed=seed
            )
            yield self._pass(seed_rows, batches, *self._sampled(np.random.default_rng(seed)))

    def prediction_passes(self, rows: np.ndarray) -> Iterator[LabelMaskedPass]:
        """Every row once as a seed row; rows whose label is visible are dealt to passes in which it is hidden."""
        visible = self.labels[rows] != HIDDEN
        for seed_rows in [rows[~visible], *self._dealt(rows[visible])]:
            if len(seed_rows):
                yield self._pass(seed_rows, self.in_order(seed_rows), *self._sampled(None))

    def isolated_batches(self, rows: np.ndarray) -> Iterator[Batch]:
        """These rows without any neighbour or label, to compute their message states."""
        for seed_rows in self.in_order(rows):
            yield self.batch(seed_rows, self._blind)

    @cached_property
    def evidence(self) -> Evidence:
        """Of every interaction, each without the labels that its pass hides."""
        return self._gather(slice(None)) if self._given_evidence is None else self._given_evidence

    @property
    def n_side_features(self) -> int:
        """Columns of the side features, without gathering anything."""
        return self._gather(slice(0)).features().shape[1] + (0 if self.trees is None else self.n_classes)

    @property
    def learnt_columns(self) -> slice:
        """Those of the side features that the trained part of a model sees: what neighbours tell of it."""
        settings, groups = self.settings, self._gather(slice(0)).groups()
        hears_texts = settings.fuses and settings.messages == "content"
        told = [groups[name] for name in (NEIGHBOURS_TELL if hears_texts else ("labels",)) if name in groups]
        return slice(told[0].start, told[-1].stop) if told else slice(0, 0)

    @property
    def side_features(self) -> np.ndarray:
        """(interactions, ·) the evidence in numbers, then what trees say of it."""
        return self.beside.of(np.arange(len(self)))

    @cached_property
    def beside(self) -> SideFeatures:
        """Side features of the rows that are asked for."""
        return SideFeatures(self.evidence, self.features.structure, self.trees)

    def uncached(self, seed_rows: np.ndarray, view: LabelMaskedPass) -> np.ndarray:
        """Neighbours of these rows that belong into the cache and are not in it."""
        if self.cache is None or (self._sums is not None and self._sums.filled.all()):
            return seed_rows[:0]
        neighbours = self.with_neighbours(seed_rows, view)[len(seed_rows) :]
        return neighbours[~self.cache.contains(neighbours)]

    def batch(self, seed_rows: np.ndarray, view: LabelMaskedPass) -> Batch:
        """The batch of these rows, all of them seed rows of the pass."""
        around = seed_rows if self._sums is not None else self.with_neighbours(seed_rows, view)
        encoded, cached = around, around[:0]
        if isinstance(self.cache, NeighbourCache):
            encoded, cached = around[: len(seed_rows)], around[len(seed_rows) :]
            cached = cached[self.cache.contains(cached)]
        order = np.argsort(-self.features.tokens.lengths[encoded], kind="stable")
        encoded = encoded[order]
        return self.collate(encoded, cached, np.argsort(order)[: len(seed_rows)], view, self.padded_chunks(encoded))

    def collate(
        self, encoded: np.ndarray, cached: np.ndarray, positions: np.ndarray, view: LabelMaskedPass, texts: Chunks
    ) -> Batch:
        """Put a batch together. No other code makes one.

        Args:
            encoded: rows whose ``texts`` are given, in their order.
            cached: rows whose message states are looked up.
            positions: of the seed rows among the encoded ones.
        """
        features, rows, seed_rows = self.features, np.concatenate([encoded, cached]), encoded[positions]
        users, user_nodes = Nodes.of(features.users[rows], features.user_vectors, features.user_slots)
        items, item_nodes = Nodes.of(features.items[rows], features.item_vectors, features.item_slots)
        visible = np.where(view.labels[rows] == HIDDEN, self.n_classes, view.labels[rows])
        of_seed_rows = self.beside.of(seed_rows)
        side_features = np.zeros((len(encoded), of_seed_rows.shape[1]), np.float32)
        side_features[positions] = of_seed_rows  # those of a neighbour may rest on a seed row's label
        return Batch(
            texts=texts,
            users=users,
            items=items,
            user_nodes=user_nodes,
            item_nodes=item_nodes,
            structure={role: torch.from_numpy(vectors[encoded]) for role, vectors in features.structure.items()},
            seed_rows=torch.from_numpy(positions),
            targets=torch.from_numpy(self.targets[seed_rows]),
            labels=torch.from_numpy(visible.astype(np.int64)) if self.settings.labels else None,
            side_features=torch.from_numpy(side_features) if side_features.shape[1] else None,
            cached=self.cache.lookup(cached) if isinstance(self.cache, NeighbourCache) else None,
            is_source=self._is_source(rows, seed_rows, view),
            heard=self._heard(encoded, view),
            rows=encoded,
        )

    def padded_chunks(self, rows: np.ndarray) -> Chunks:
        """(tokens or their states, mask) of these rows, longest text first, chunk by chunk."""
        chunks = cut_by_length(rows, self.texts.lengths[rows])
        return [(torch.from_numpy(read), torch.from_numpy(mask)) for read, mask in map(self.texts.padded, chunks)]

    def _heard(self, rows: np.ndarray, view: LabelMaskedPass) -> Heard | None:
        """Sums over all neighbours of these rows, without the labels that their pass hides."""
        if self._given_sums is not None:
            sums, counts, counted = (tensor[torch.from_numpy(rows)] for tensor in self._given_sums)
        elif self._sums is None:
            return None
        elif self.isolated or view is self._blind:
            return Heard.nobody(len(rows), self._sums.shape, self.n_classes)
        else:
            sums, counts, counted = self._sums.of_others(rows)
        labels = torch.zeros(len(rows), 2, self.n_classes)
        for place, side in enumerate(SIDES):
            if side in self.evidence.labels:
                labels[:, place] = torch.from_numpy(self.evidence.labels[side][rows])
        return Heard(sums, counts, labels, counted)

    def _gather(self, rows: slice) -> Evidence:
        settings, features = self.settings, self.features
        given = Rows(
            features.users[rows], features.items[rows], self.labels[rows], features.folds[rows],
            features.log_odds[:, rows], features.parts[:, rows], features.vectors[rows], features.style[rows],
            self.n_classes, settings.seed,
        )  # fmt: skip
        kinds = settings.labels, settings.alike_texts, settings.neighbour_words, settings.repeats, settings.heard_sides
        return gather(given, Kinds(*kinds))

    def _dealt(self, rows: np.ndarray) -> list[np.ndarray]:
        """Labelled rows by fold; those without a fold each have a pass of their own."""
        if not self.settings.labels:
            return [rows]
        folds = self.features.folds[rows]
        passes = [rows[folds == fold] for fold in np.unique(folds[folds != NO_FOLD])]
        return passes + [rows[place : place + 1] for place in np.flatnonzero(folds == NO_FOLD).tolist()]

    def in_order(self, seed_rows: np.ndarray) -> list[np.ndarray]:
        """Batches for prediction: by text length, or by user where neighbours are encoded as well."""
        if self.settings.full_batch:
            return [seed_rows]
        key = self.features.tokens.lengths if self.cache is not None or self.isolated else self.features.users
        ordered = seed_rows[np.argsort(key[seed_rows], kind="stable")]
        return [ordered[first : first + PREDICTED_AT_ONCE] for first in range(0, len(ordered), PREDICTED_AT_ONCE)]

    def _pass(self, seed_rows: np.ndarray, batches: list[np.ndarray], *sampled: Neighbours) -> LabelMaskedPass:
        visible = self.labels.copy()
        visible[seed_rows] = HIDDEN
        return LabelMaskedPass(batches, visible, *sampled)

    @cached_property
    def _blind(self) -> LabelMaskedPass:
        """No label is visible and there is no neighbour. Made once: training needs it before many a step."""
        hidden = np.full(len(self.labels), HIDDEN, dtype=self.labels.dtype)
        return LabelMaskedPass([], hidden, self._nobody, self._nobody)

    @cached_property
    def _nobody(self) -> Neighbours:
        return Neighbours.none(max(self.features.n_users, self.features.n_items))

    @cached_property
    def _of_users(self) -> Neighbours:
        return all_neighbours(self.features.users, self.features.n_users)

    @cached_property
    def _of_items(self) -> Neighbours:
        return all_neighbours(self.features.items, self.features.n_items)

    def _sampled(self, rng: np.random.Generator | None) -> tuple[Neighbours, Neighbours]:
        """As :func:`~saft.learning.sampling.drawn`, of users and of items."""
        settings, features = self.settings, self.features
        if self.isolated:
            return self._nobody, self._nobody
        if settings.full_batch or self._sums is not None:
            return self._of_users, self._of_items
        vectors = features.structure.get(settings.sampling)
        return (
            drawn(settings, self._of_users, features.users, features.n_users, vectors, rng),
            drawn(settings, self._of_items, features.items, features.n_items, vectors, rng),
        )

    def with_neighbours(self, seed_rows: np.ndarray, view: LabelMaskedPass) -> np.ndarray:
        return batch_rows(seed_rows, self.features.users, self.features.items, view.of_users, view.of_items)

    def _is_source(self, rows: np.ndarray, seed_rows: np.ndarray, view: LabelMaskedPass) -> dict[str, Tensor]:
        """Which rows send messages. Under the paper's fusion all of a batch do, as its P has it."""
        if self.settings.fusion == "paper":
            return {}
        sampled = {
            "user": view.of_users.of(np.unique(self.features.users[seed_rows])),
            "item": view.of_items.of(np.unique(self.features.items[seed_rows])),
        }
        return {side: torch.from_numpy(np.isin(rows, sources)) for side, sources in sampled.items()}
