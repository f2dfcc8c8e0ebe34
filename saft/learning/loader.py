"""Feed: decides what the model may see, and puts it into batches.

Targets are predicted in passes. In a pass the labels of all its targets are hidden, from messages and from everything
that is computed from labels; whatever is visible is therefore safe to show. Training rows are dealt to several passes
in every epoch, so that each is a target once, with its own label and those of the other targets of its pass hidden:
training looks like prediction, where the labels asked for are not there either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from saft.data.network import HIDDEN
from saft.features.featurizer import Inputs
from saft.features.known_labels import KnownLabels
from saft.features.tokens import Tokens
from saft.learning.frozen_layers import FrozenLayers
from saft.learning.sampling import (
    Neighbours,
    all_neighbours,
    batch_rows,
    neighbour_weights,
    plan_batches,
    sample_neighbours,
    steady_neighbours,
)
from saft.model.batch import Batch, Nodes
from saft.settings import Settings

NARROWER = 0.75  # a chunk ends where texts get shorter than this share of its longest
SMALLEST_CHUNK = 12
PREDICTED_AT_ONCE = 128


class Memory:
    """What every interaction passed on to its neighbours when it was last read, in half precision.

    ``states`` is (interactions, *what one passes on), ``known`` says which of them were read at all. Interactions
    added later stand in a block of their own, so that answering a request about a few new ones does not copy what is
    known of a million old ones.
    """

    def __init__(self, states: Tensor, known: Tensor | None = None) -> None:
        self.states = states
        self.known = torch.ones(len(states), dtype=torch.bool) if known is None else known
        self.added = states[:0]

    @classmethod
    def empty(cls, rows: int, *shape: int) -> Memory:
        return cls(torch.zeros(rows, *shape, dtype=torch.float16), torch.zeros(rows, dtype=torch.bool))

    def with_room(self, rows: int) -> Memory:
        """The same memory with room for more interactions behind the known ones; the known part is shared."""
        grown = Memory(self.states, self.known)
        grown.added = self.states.new_zeros(rows - len(self.states), *self.states.shape[1:])
        return grown

    def store(self, rows: np.ndarray, passed_on: Tensor) -> None:
        passed_on = passed_on.to("cpu", torch.float16)
        old = torch.from_numpy(rows < len(self.states))
        numbers = torch.from_numpy(rows)
        self.states[numbers[old]] = passed_on[old]
        self.known[numbers[old]] = True
        self.added[numbers[~old] - len(self.states)] = passed_on[~old]

    def knows(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows were read; added ones are read as they come."""
        old = rows < len(self.known)
        return ~old | self.known.numpy()[np.where(old, rows, 0)]

    def recall(self, rows: np.ndarray) -> Tensor:
        numbers, known = torch.from_numpy(rows), len(self.states)
        states = self.states[numbers.clamp(max=known - 1)]
        late = numbers >= known
        states[late] = self.added[numbers[late] - known]
        return states.float()


@dataclass(frozen=True)
class Pass:
    """Targets in batches, and what may be seen while they are predicted."""

    batches: list[np.ndarray]
    labels: np.ndarray  # (interactions,) visible labels; HIDDEN for every target
    known: KnownLabels | None
    of_users: Neighbours
    of_items: Neighbours


class Source(Protocol):
    """Where batches come from: a :class:`Feed`, or anything else that deals rows to batches."""

    labels: np.ndarray
    n_classes: int
    memory: Memory | None

    def __len__(self) -> int: ...
    def training_passes(self, rows: np.ndarray, epoch: int) -> Iterator[Any]: ...
    def prediction_passes(self, rows: np.ndarray) -> Iterator[Any]: ...
    def reading_batches(self, rows: np.ndarray) -> Iterator[Any]: ...
    def unread(self, targets: np.ndarray, seen: Any) -> np.ndarray: ...
    def batch(self, targets: np.ndarray, seen: Any) -> Any: ...
    def fingerprint(self) -> str: ...


class Feed:
    """Batches for one network.

    Args:
        labels: of every interaction that may ever be seen; HIDDEN elsewhere. Validation and test labels stay outside.
        memory: where neighbours are remembered; None if they are to be read with every batch.
        alone: show no neighbours.
        frozen: what the encoder's frozen layers say of the texts; None if they are read from their tokens.
        answers: what the loss compares with, if not the labels; e.g. (interactions, classes) for soft ones.
    """

    def __init__(
        self,
        inputs: Inputs,
        labels: np.ndarray,
        n_classes: int,
        settings: Settings,
        memory: Memory | None = None,
        alone: bool = False,
        answers: np.ndarray | None = None,
        frozen: FrozenLayers | None = None,
    ) -> None:
        self.inputs, self.labels, self.n_classes = inputs, labels, n_classes
        self.answers = labels.astype(np.int64) if answers is None else answers
        self.settings, self.memory = settings, memory
        self.texts: Tokens | FrozenLayers = frozen or inputs.tokens
        self.alone = alone or not settings.hears_neighbours
        self.n_users, self.n_items = inputs.n_users, inputs.n_items
        self._of_users = all_neighbours(inputs.users, self.n_users)
        self._of_items = all_neighbours(inputs.items, self.n_items)
        starts = np.zeros(max(self.n_users, self.n_items) + 1, np.int64)
        self._nobody = Neighbours(starts, np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.inputs)

    def fingerprint(self) -> str:
        """Of everything that is shown."""
        digest = hashlib.sha256()
        inputs = self.inputs
        for array in (inputs.users, inputs.items, inputs.tokens.flat, inputs.clues, self.labels, self.answers):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def training_passes(self, rows: np.ndarray, epoch: int) -> Iterator[Pass]:
        """Every row once as a target, shuffled by seed and epoch."""
        settings = self.settings
        for number, targets in enumerate(self._dealt(rows, seed=[settings.seed, epoch])):
            size = len(targets) if settings.full_batch else settings.batch_size
            seed = hash_seed(settings.seed, epoch, number)
            batches = plan_batches(
                self.inputs.users, self.inputs.items, targets, size, together=settings.together, seed=seed
            )
            yield self._pass(targets, batches, self._sampled(np.random.default_rng(seed)))

    def prediction_passes(self, rows: np.ndarray) -> Iterator[Pass]:
        """Every row once as a target; rows whose label is visible are dealt to passes in which it is not."""
        visible = self.labels[rows] != HIDDEN
        for targets in [rows[~visible], *self._dealt(rows[visible], seed=[self.settings.seed])]:
            if len(targets):
                yield self._pass(targets, self._in_order(targets), self._sampled(None))

    def reading_batches(self, rows: np.ndarray) -> Iterator[Batch]:
        """These rows without any neighbour, to find out what they pass on."""
        for targets in self._in_order(rows):
            yield self.batch(targets, self._blind)

    @cached_property
    def _blind(self) -> Pass:
        """No label is visible, no neighbour is there. Made once: training reads a few rows before many a step."""
        hidden = np.full(len(self.labels), HIDDEN, dtype=self.labels.dtype)
        known = self._known(hidden) if self.settings.labels else None
        return Pass([], hidden, known, self._nobody, self._nobody)

    def hints_in_training(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows, hints) of labelled interactions, this many at most, each with its label hidden as in training."""
        seed = [self.settings.seed]
        labelled = np.random.default_rng(seed).permutation(np.flatnonzero(self.labels != HIDDEN))
        deals = self._dealt(labelled, seed)
        chosen = [targets[: max(most // len(deals), 1)] for targets in deals]
        seen = (self._pass(targets, [], (self._nobody, self._nobody)) for targets in deals)
        hints = [self._hints(few, one) for few, one in zip(chosen, seen, strict=True)]
        return np.concatenate(chosen), np.concatenate(hints)

    def _dealt(self, rows: np.ndarray, seed: list[int]) -> list[np.ndarray]:
        if not self.settings.labels:
            return [rows]
        deals = min(max(round(1 / self.settings.hidden_share), 1), max(len(rows), 1))
        return np.array_split(np.random.default_rng(seed).permutation(rows), deals)

    def _in_order(self, targets: np.ndarray) -> list[np.ndarray]:
        """Batches without a will to mix: by length, or by user where neighbours have to be read as well."""
        if self.settings.full_batch:
            return [targets]
        key = self.inputs.tokens.lengths if self.memory is not None or self.alone else self.inputs.users
        ordered = targets[np.argsort(key[targets], kind="stable")]
        return [ordered[first : first + PREDICTED_AT_ONCE] for first in range(0, len(ordered), PREDICTED_AT_ONCE)]

    def _pass(self, targets: np.ndarray, batches: list[np.ndarray], sampled: tuple[Neighbours, Neighbours]) -> Pass:
        visible = self.labels.copy()
        visible[targets] = HIDDEN
        known = self._known(visible) if self.settings.labels else None
        return Pass(batches, visible, known, *sampled)

    def _known(self, visible: np.ndarray) -> KnownLabels:
        inputs = self.inputs
        return KnownLabels(inputs.users, inputs.items, visible, self.n_users, self.n_items, self.n_classes)

    def _sampled(self, rng: np.random.Generator | None) -> tuple[Neighbours, Neighbours]:
        """Drawn anew for training; without a generator, the sample that a node always has."""
        settings, inputs = self.settings, self.inputs
        if self.alone:
            return self._nobody, self._nobody
        if settings.full_batch:
            return self._of_users, self._of_items
        vectors = inputs.structure.get(settings.sampling)
        sampled = []
        for candidates, nodes, count in (
            (self._of_users, inputs.users, self.n_users),
            (self._of_items, inputs.items, self.n_items),
        ):
            weights = neighbour_weights(settings.sampling, nodes, count, vectors)
            if rng is None:
                sampled.append(steady_neighbours(candidates, settings.neighbours, settings.seed, weights))
            else:
                sampled.append(sample_neighbours(candidates, settings.neighbours, rng, weights))
        return sampled[0], sampled[1]

    def unread(self, targets: np.ndarray, seen: Pass) -> np.ndarray:
        """Neighbours of these targets that are to be remembered and were never read."""
        if self.memory is None:
            return targets[:0]
        neighbours = self._with_neighbours(targets, seen)[len(targets) :]
        return neighbours[~self.memory.knows(neighbours)]

    def _with_neighbours(self, targets: np.ndarray, seen: Pass) -> np.ndarray:
        return batch_rows(targets, self.inputs.users, self.inputs.items, seen.of_users, seen.of_items)

    def batch(self, targets: np.ndarray, seen: Pass) -> Batch:
        """The batch of these targets, all of them targets of the pass."""
        inputs = self.inputs
        around = self._with_neighbours(targets, seen)
        read, remembered = around, around[:0]
        if self.memory is not None:
            read, remembered = around[: len(targets)], around[len(targets) :]
            remembered = remembered[self.memory.knows(remembered)]
        order = np.argsort(-inputs.tokens.lengths[read], kind="stable")
        read = read[order]
        rows = np.concatenate([read, remembered])
        users, user_nodes = batch_nodes(inputs.users[rows], inputs.user_vectors, inputs.seen_users)
        items, item_nodes = batch_nodes(inputs.items[rows], inputs.item_vectors, inputs.seen_items)
        shown = np.where(seen.labels[rows] == HIDDEN, self.n_classes, seen.labels[rows])
        hints = self._hints(read, seen)
        return Batch(
            texts=padded_chunks(self.texts, read),
            users=users,
            items=items,
            user_nodes=user_nodes,
            item_nodes=item_nodes,
            structure={role: torch.from_numpy(vectors[read]) for role, vectors in inputs.structure.items()},
            targets=torch.from_numpy(np.argsort(order)[: len(targets)]),
            answers=torch.from_numpy(self.answers[targets]),
            labels=None if seen.known is None else torch.from_numpy(shown.astype(np.int64)),
            hints=torch.from_numpy(hints) if hints.shape[1] else None,
            remembered=None if self.memory is None else self.memory.recall(remembered),
            speaks=self._speaks(rows, targets, seen),
            rows=read,
        )

    def _hints(self, rows: np.ndarray, seen: Pass) -> np.ndarray:
        """(rows, ·) what known labels around them say, then what their phrases say; perhaps nothing."""
        parts = [] if seen.known is None else [seen.known.around(rows)]
        return np.hstack([*parts, self.inputs.clues[rows]])

    def _speaks(self, rows: np.ndarray, targets: np.ndarray, seen: Pass) -> dict[str, Tensor]:
        """Under the paper's fusion everybody in a batch speaks, as its P says."""
        if self.settings.fusion == "paper":
            return {}
        sampled = {
            "user": seen.of_users.of(np.unique(self.inputs.users[targets])),
            "item": seen.of_items.of(np.unique(self.inputs.items[targets])),
        }
        return {side: torch.from_numpy(np.isin(rows, speakers)) for side, speakers in sampled.items()}


def padded_chunks(texts: Tokens | FrozenLayers, rows: np.ndarray) -> list[tuple[Tensor, Tensor]]:
    """(tokens or their states, mask) of these rows, longest text first, chunk by chunk."""
    chunks = cut_by_length(rows, texts.lengths[rows])
    return [(torch.from_numpy(read), torch.from_numpy(mask)) for read, mask in map(texts.padded, chunks)]


def cut_by_length(rows: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Rows, longest text first, in chunks cut where going on would mean mostly padding."""
    starts = [0]
    for place, length in enumerate(lengths.tolist()):
        if length < NARROWER * lengths[starts[-1]] and place - starts[-1] >= SMALLEST_CHUNK:
            starts.append(place)
    return np.split(rows, starts[1:])


def batch_nodes(codes: np.ndarray, vectors: np.ndarray, seen: int) -> tuple[Tensor, Nodes]:
    """The node of each interaction as a place among the distinct ones, and these."""
    distinct, inside = np.unique(codes, return_inverse=True)
    places = np.where(distinct < seen, distinct.astype(np.int64) + 1, 0)
    return torch.from_numpy(inside), Nodes(torch.from_numpy(places), torch.from_numpy(vectors[distinct]))


def hash_seed(*numbers: int) -> int:
    """One seed from several, so that neighbouring ones are unrelated."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1)[0])
