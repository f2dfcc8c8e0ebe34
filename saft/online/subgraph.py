"""Case: all that a model is shown of one interaction and of what is around it, apart from the network it came from.

Cases know nothing of each other, so any of them can be answered together: requests of different people, or one
interaction with this word or that neighbour taken away. Neighbours are remembered, not read, so a case costs the
reading of its own text and little else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from saft.data.network import HIDDEN
from saft.features.known_labels import hints_of, shares_of
from saft.features.tokens import Tokens
from saft.learning.loader import PREDICTED_AT_ONCE, cut_by_length
from saft.model.base import Output
from saft.model.batch import Batch, Nodes

SIDES = ("user", "item")


@dataclass(frozen=True)
class Around:
    """The sampled neighbours of an interaction, each once. One entry per neighbour."""

    rows: np.ndarray  # their numbers in the network
    speaks: dict[str, np.ndarray]  # side → which of them are in the sample of the user, of the item
    shares: dict[str, np.ndarray]  # side → which of them have the same user, the same item
    labels: np.ndarray  # visible ones, HIDDEN elsewhere
    states: np.ndarray  # what they pass on

    def without(self, place: int) -> Around:
        rest = np.arange(len(self.rows)) != place
        speaks, shares = ({side: which[rest] for side, which in by.items()} for by in (self.speaks, self.shares))
        return Around(self.rows[rest], speaks, shares, self.labels[rest], self.states[rest])


@dataclass(frozen=True)
class Node:
    """The user, or the item, of an interaction."""

    place: int  # in the table of trained vectors; 0 if training did not know it
    vector: np.ndarray  # its attributes, or Gaussian numbers
    label_counts: np.ndarray  # (classes,) visible labels of its other interactions
    speaks: bool  # whether the interaction itself is in the node's sample


@dataclass(frozen=True)
class Case:
    tokens: np.ndarray
    clues: np.ndarray
    structure: dict[str, np.ndarray]  # role → (dim,)
    nodes: dict[str, Node]  # side → its user, its item
    around: Around
    label_totals: np.ndarray  # (classes,) visible labels in the whole network, never its own

    def with_node(self, side: str, **changes: object) -> Case:
        return replace(self, nodes=self.nodes | {side: replace(self.nodes[side], **changes)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Reading:
    """What cases of one model have in common."""

    model: nn.Module
    padding: int  # the token that stands where there is none
    n_classes: int
    labels: bool  # whether the model sees labels
    fast: Callable[[Batch], np.ndarray] | None = None  # another way to the logits

    @torch.inference_mode()
    def answers(self, cases: Sequence[Case]) -> np.ndarray:
        """(cases, classes) logits."""
        return self._collected(cases, "logits")

    @torch.inference_mode()
    def passed_on(self, cases: Sequence[Case]) -> np.ndarray:
        """(cases, ·) what they pass on to their neighbours, in half precision."""
        return self._collected(cases, "passed_on").astype(np.float16)

    def _collected(self, cases: Sequence[Case], what: str) -> np.ndarray:
        self.model.train(False)
        lengths = np.array([len(case.tokens) for case in cases])
        order = np.argsort(-lengths, kind="stable")
        found = [
            self._found([cases[place] for place in places], what)
            for alike in cut_by_length(order, lengths[order])
            for places in np.split(alike, range(PREDICTED_AT_ONCE, len(alike), PREDICTED_AT_ONCE))
        ]
        return np.concatenate(found)[np.argsort(order)]

    def _found(self, cases: Sequence[Case], what: str) -> np.ndarray:
        batch = self.batch(cases)
        if self.fast is not None and what == "logits":
            return self.fast(batch)
        output: Output = self.model(batch)
        return getattr(output, what).numpy()

    def batch(self, cases: Sequence[Case]) -> Batch:
        """These cases as targets, their texts in one chunk. Each has its user and item for itself."""
        starts = np.concatenate([[0], np.cumsum([len(case.tokens) for case in cases])])
        tokens = Tokens(np.concatenate([case.tokens for case in cases]), starts, self.padding)
        rows = np.arange(len(cases))
        ids, mask = tokens.padded(rows)
        owner = np.repeat(rows, [len(case.around.rows) for case in cases])
        nobody = len(cases)  # node of whoever is not in the sample, on that side
        heard = {side: np.concatenate([case.around.speaks[side] for case in cases]) for side in SIDES}
        members = {side: np.concatenate([rows, np.where(heard[side], owner, nobody)]) for side in SIDES}
        speaks = {
            side: np.concatenate([[case.nodes[side].speaks for case in cases], heard[side]]).astype(bool)
            for side in SIDES
        }
        around = np.concatenate([case.around.labels for case in cases])
        labels = np.concatenate(
            [np.full(len(cases), self.n_classes), np.where(around == HIDDEN, self.n_classes, around)]
        )
        return Batch(
            texts=[(torch.from_numpy(ids), torch.from_numpy(mask))],
            users=torch.from_numpy(members["user"]),
            items=torch.from_numpy(members["item"]),
            user_nodes=_nodes(cases, "user"),
            item_nodes=_nodes(cases, "item"),
            structure={role: _stacked([case.structure[role] for case in cases]) for role in cases[0].structure},
            targets=torch.from_numpy(rows),
            answers=torch.full((len(cases),), HIDDEN),
            labels=torch.from_numpy(labels.astype(np.int64)) if self.labels else None,
            hints=self._hints(cases),
            remembered=torch.from_numpy(np.concatenate([case.around.states for case in cases])).float(),
            speaks={side: torch.from_numpy(who) for side, who in speaks.items()},
            rows=rows,
        )

    def _hints(self, cases: Sequence[Case]) -> Tensor | None:
        parts = [np.stack([case.clues for case in cases])]
        if self.labels:
            counts = [np.stack([case.nodes[side].label_counts for case in cases]) for side in SIDES]
            shares = shares_of(np.stack([case.label_totals for case in cases]))
            parts.insert(0, hints_of(counts[0], counts[1], shares))
        hints = np.hstack(parts)
        return torch.from_numpy(hints) if hints.shape[1] else None


def _nodes(cases: Sequence[Case], side: str) -> Nodes:
    """Those of the cases, and one for nobody."""
    places = [case.nodes[side].place for case in cases] + [0]
    vectors = [case.nodes[side].vector for case in cases]
    return Nodes(torch.tensor(places), _stacked([*vectors, np.zeros_like(vectors[0])]))


def _stacked(vectors: Sequence[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(vectors))
