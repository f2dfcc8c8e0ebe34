"""NodeSums: what an interaction hears of all others of its user, and of its item, is the sum of their message states.

Line graph attention, and gated attention with one round, weigh all neighbours alike, so that nothing but this sum and
their number reaches an interaction (see :mod:`saft.model.message_passing`). So a table of nodes is kept instead of one
of interactions; no neighbour is drawn, and an answer costs the same with ten neighbours and with a hundred thousand.

While weights are trained, a row's old contribution is replaced by its new one. Therefore every row's last state is kept
beside the sums, in half precision, in a file that is mapped to memory and gone afterwards. A trained model has the sums
alone: what a row contributed itself is taken out by its own state, which its prediction computes anyway.
"""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor

from saft.errors import InputError
from saft.features.gathering import SIDES
from saft.writing import cache_folder


def _make_room(descriptor: int, size: int, folder: Path) -> None:
    """Take the whole file's room now: a disk that becomes full under a mapped file ends the process without a word."""
    try:
        os.posix_fallocate(descriptor, 0, max(size, 1))
    except OSError as error:
        raise InputError(
            f"Training with messages between layers keeps {size / 1e9:.1f} GB in {folder}, and there is no room: "
            f"{error.strerror or error}. Free some, name another folder (SAFT_CACHE), or choose messages='content'."
        ) from error


@dataclass
class SideSums:
    """Of the users, or of the items.

    ``changes`` holds what was added to an extension, which shares the table with the sums that it was made from.
    """

    sums: Tensor  # (nodes, layers, width)
    counts: Tensor  # (nodes,) how many interactions each sum is made of
    is_shared: bool = False
    changes: dict[int, tuple[Tensor, float]] = field(default_factory=dict)

    @classmethod
    def empty(cls, n_nodes: int, *shape: int) -> Self:
        return cls(torch.zeros(n_nodes, *shape), torch.zeros(n_nodes))

    def add(self, nodes: np.ndarray, states: Tensor, times: Tensor) -> None:
        """Add these states to the sums of their nodes; ``times`` is 1 for an interaction that is new there, else 0."""
        if not self.is_shared:
            places = torch.from_numpy(nodes.astype(np.int64))
            self.sums.index_add_(0, places, states)
            self.counts.index_add_(0, places, times)
            return
        for node, state, time in zip(nodes.tolist(), states, times.tolist(), strict=True):
            before, count = self.changes.get(node, (0.0, 0.0))
            self.changes[node] = before + state, count + time

    def of(self, nodes: np.ndarray) -> tuple[Tensor, Tensor]:
        """(nodes, layers, width) their sums, and (nodes,) of how many each is made."""
        sums, counts = self.sums.new_zeros(len(nodes), *self.sums.shape[1:]), self.counts.new_zeros(len(nodes))
        known = np.flatnonzero(nodes < len(self.sums))
        places = torch.from_numpy(nodes[known].astype(np.int64))
        sums[known], counts[known] = self.sums[places], self.counts[places]
        if self.changes:
            for at, node in enumerate(nodes.tolist()):
                if node in self.changes:
                    change, count = self.changes[node]
                    sums[at] += change
                    counts[at] += count
        return sums, counts

    def extension(self) -> SideSums:
        """The same, to be added to without changing these."""
        return SideSums(self.sums, self.counts, True, dict(self.changes))


class NodeSums:
    """Sums of message states by user and by item; a state is (layers, 2, width), for the user and for the item.

    Args:
        nodes: side → (interactions,) the node of each.
        sides: side → sums of its nodes.
        filled: (interactions,) whose states are in the sums.
        rows: (interactions, layers, 2, width) what each of them contributed; None after training.
    """

    def __init__(
        self, nodes: dict[str, np.ndarray], sides: dict[str, SideSums], filled: Tensor, rows: Tensor | None = None
    ) -> None:
        self.nodes, self.sides, self.filled, self.rows = nodes, sides, filled, rows

    @classmethod
    def for_training(cls, nodes: dict[str, np.ndarray], n_nodes: dict[str, int], shape: tuple[int, ...]) -> NodeSums:
        """Empty ones; states of rows are kept in a temporary file beside other files of the cache."""
        layers, _, width = shape
        n_rows = len(nodes["user"])
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        # The file has no name, so it is gone with the last reference, however the process ends.
        with tempfile.TemporaryFile(dir=folder) as file:
            _make_room(file.fileno(), 2 * n_rows * math.prod(shape), folder)
            rows = np.memmap(file, np.float16, "r+", shape=(n_rows, *shape))
        sides = {side: SideSums.empty(n_nodes[side], layers, width) for side in SIDES}
        return cls(nodes, sides, torch.zeros(n_rows, dtype=torch.bool), torch.from_numpy(rows))

    @classmethod
    def trained(cls, nodes: dict[str, np.ndarray], sums: dict[str, Tensor]) -> NodeSums:
        """From stored sums over all interactions."""
        sides = {
            side: SideSums(sums[side], torch.from_numpy(np.bincount(nodes[side], minlength=len(sums[side]))).float())
            for side in SIDES
        }
        return cls(nodes, sides, torch.ones(len(nodes["user"]), dtype=torch.bool))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a message state."""
        layers, width = self.sides["user"].sums.shape[1:]
        return layers, 2, width

    def extended(self, users: np.ndarray, items: np.ndarray) -> NodeSums:
        """The same with more interactions behind the present ones, of known or new nodes. Nothing is copied or changed
        of what is there."""
        filled = torch.cat([self.filled, torch.zeros(len(users) - len(self.filled), dtype=torch.bool)])
        sides = {side: sums.extension() for side, sums in self.sides.items()}
        return NodeSums({"user": users, "item": items}, sides, filled)

    def store(self, rows: np.ndarray, states: Tensor) -> None:
        """Let these be the states of these rows, each given once. After training a row counts from its first state."""
        numbers = torch.from_numpy(rows)
        is_new = ~self.filled[numbers]
        change = states.to("cpu", torch.float32)
        if self.rows is not None:
            halved = states.to("cpu", torch.float16)
            change = halved.float() - self.rows[numbers].float()
            self.rows[numbers] = halved
        else:
            change = change * is_new[:, None, None, None]
        self.filled[numbers] = True
        for place, side in enumerate(SIDES):
            self.sides[side].add(self.nodes[side][rows], change[:, :, place], is_new.float())

    def contains(self, rows: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.filled.numpy()[rows]
        return found

    def of_others(self, rows: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """(rows, layers, 2, width) sums over the other interactions of user and item, (rows, 2) how many these are, and
        (rows,) 1 where the row's own state is still in the sums, to be taken out by whoever computes it."""
        found = [self.sides[side].of(self.nodes[side][rows]) for side in SIDES]
        sums = torch.stack([sums for sums, _ in found], dim=2)
        counted = self.filled[torch.from_numpy(rows)].float()
        counts = torch.stack([counts for _, counts in found], dim=1) - counted[:, None]
        if self.rows is None:
            return sums, counts, counted
        return sums - self.rows[torch.from_numpy(rows)].float(), counts, torch.zeros_like(counted)

    def to_renew(self, stale: np.ndarray) -> np.ndarray:
        """Rows to be stored for the sums to be those of the final weights: all, in full precision, without ``rows``."""
        self.rows = None
        self.filled.zero_()
        for sums in self.sides.values():
            sums.sums.zero_()
            sums.counts.zero_()
        return np.arange(len(stale))

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint of training."""
        found = {"filled": self.filled} | {f"{name}_sums": side.sums for name, side in self.sides.items()}
        found |= {f"{name}_counts": side.counts for name, side in self.sides.items()}
        return found if self.rows is None else found | {"rows": self.rows}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over the content of a checkpoint."""
        for name, present in self.tensors().items():
            present.copy_(tensors[name])
