"""Arrays and tables of nodes that grow without being copied each time."""

from __future__ import annotations

import numpy as np
import polars as pl

from saft.learning.sampling import all_neighbours


class GrowingArray:
    """An array that can be appended to."""

    def __init__(self, values: np.ndarray) -> None:
        self._room, self._length = values, len(values)

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> np.ndarray:
        return self._room[: self._length]

    def append(self, more: np.ndarray) -> None:
        needed = self._length + len(more)
        if needed > len(self._room) or not self._room.flags.writeable:
            room = np.zeros((max(needed, len(self._room) * 5 // 4), *self._room.shape[1:]), self._room.dtype)
            room[: self._length] = self.values
            self._room = room
        self._room[self._length : needed] = more
        self._length = needed


class GrowingSide:
    """The users, or the items: ids, vectors, interactions, label counts and what the texts of each say.

    Args:
        ids: of the nodes.
        nodes: node of each interaction.
        vectors, label_counts, word_sums, heard_sums: one row per node.
    """

    def __init__(
        self,
        ids: pl.Series,
        nodes: np.ndarray,
        vectors: np.ndarray,
        label_counts: np.ndarray,
        word_sums: np.ndarray,
        heard_sums: np.ndarray,
    ) -> None:
        self.ids = ids.cast(pl.String).to_list()
        self.codes = {text: code for code, text in reversed(list(enumerate(self.ids)))}  # the first place counts
        self.nodes = GrowingArray(nodes)
        self.vectors = GrowingArray(vectors)
        self.label_counts, self.word_sums = GrowingArray(label_counts), GrowingArray(word_sums)
        self.heard_sums = GrowingArray(heard_sums)
        self._n_known = len(ids)
        self._known_members = all_neighbours(nodes, self._n_known)
        self._added_members: dict[int, list[int]] = {}

    def members(self, code: int) -> np.ndarray:
        """Numbers of its interactions, in order."""
        known = self._known_members.of(np.array([code])) if code < self._n_known else np.empty(0, np.int64)
        return np.concatenate([known, np.array(self._added_members.get(code, []), np.int64)])

    def degree(self, code: int) -> int:
        """Number of its interactions."""
        known = self._known_members.starts[code + 1] - self._known_members.starts[code] if code < self._n_known else 0
        return int(known) + len(self._added_members.get(code, []))

    def code_of(self, text: str, vector: np.ndarray) -> int:
        """The code of this id; an unknown id is added with this vector."""
        if text not in self.codes:
            self.codes[text] = len(self.ids)
            self.ids.append(text)
            self.vectors.append(vector[None])
            for sums in (self.label_counts, self.word_sums, self.heard_sums):
                sums.append(np.zeros((1, sums.values.shape[1]), sums.values.dtype))
        return self.codes[text]

    def append(self, number: int, code: int) -> None:
        """The interaction with this number belongs to this node."""
        self.nodes.append(np.array([code]))
        self._added_members.setdefault(code, []).append(number)
