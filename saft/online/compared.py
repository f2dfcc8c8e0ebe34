"""ComparedMembers: of users (or items) with many interactions, those whose texts others are compared with.

Which they are is decided by :func:`saft.features.gathering.compared`: labelled ones first, then by a fixed order. They
are chosen once per node, when it is first asked for, and then kept up to date, so that a prediction costs the same with
a hundred thousand interactions of an item as with a few hundred.
"""

from __future__ import annotations

import numpy as np

from saft.data.network import HIDDEN
from saft.features import gathering
from saft.online.growing import GrowingArray, GrowingSide


class ComparedMembers:
    """
    Args:
        side: the nodes.
        labels: visible ones of all interactions, HIDDEN elsewhere; as they are when something is asked or changes.
    """

    def __init__(self, side: GrowingSide, labels: GrowingArray, seed: int) -> None:
        self.side, self.labels, self.seed = side, labels, seed
        self._chosen: dict[int, np.ndarray] = {}  # of busy nodes, each in its order

    def others(self, code: int, number: int, without: int | None = None) -> np.ndarray:
        """Numbers of interactions of this node that the text of interaction ``number`` is compared with.

        Args:
            number: it is not compared with itself. The next one to come takes a place all the same, as in a table.
            without: another one that does not count.
        """
        if self.side.degree(code) < gathering.MOST_COMPARED:
            members = self.side.members(code)
            return members[(members != number) & (members != without)]
        chosen = self._of(code)
        if without is not None and (chosen == without).any():  # somebody else takes its place
            members = self.side.members(code)
            chosen = self._first(members[members != without])
        if number == len(self.labels):
            chosen = self._first(np.append(chosen, number))
        return chosen[chosen != number]

    def added(self, code: int, number: int) -> None:
        """The node has one interaction more."""
        if code in self._chosen:
            self._chosen[code] = self._first(np.append(self._chosen[code], number))

    def relabelled(self, code: int, number: int) -> None:
        """The label of one of its interactions is another one than before."""
        chosen = self._chosen.get(code)
        if chosen is None:
            return
        if self.labels.values[number] == HIDDEN:
            del self._chosen[code]  # it loses its place to one that is not among the chosen
        else:
            self._chosen[code] = self._first(np.union1d(chosen, [number]))

    def _of(self, code: int) -> np.ndarray:
        if code not in self._chosen:
            self._chosen[code] = self._first(self.side.members(code))
        return self._chosen[code]

    def _first(self, numbers: np.ndarray) -> np.ndarray:
        known = np.minimum(numbers, len(self.labels) - 1)
        silent = (numbers == len(self.labels)) | (self.labels.values[known] == HIDDEN)
        return gathering.first_in_order(numbers, silent, self.seed)
