"""LiveEvidence: counts and sums around interactions, kept up to date while interactions and labels are added.

What it gives for an interaction is what :func:`saft.features.gathering.gather` gives for the whole network at once.
Counts and sums hold all labels. For a labelled interaction of the network of training, whose evidence leaves out the
labels of its fold, its neighbours are therefore looked at one by one.
"""

from __future__ import annotations

import numpy as np

from saft.data.network import HIDDEN, TextualInteractionNetwork
from saft.features.arrays import Features, ReadText, ReadTexts
from saft.features.evidence import Evidence
from saft.features.folds import FOLDS, NO_FOLD
from saft.features.gathering import (
    SIDES,
    alike_labels,
    cosine_summary,
    count_labels,
    part_of_side,
    sum_values,
)
from saft.online.compared import ComparedMembers
from saft.online.growing import GrowingArray, GrowingSide
from saft.settings import Settings


class LiveEvidence:
    """
    Args:
        network, features: of training; neither is changed.

    Attributes:
        labels: visible ones of all interactions, HIDDEN elsewhere.
        sides: the users and the items.
        label_totals: (classes,) visible labels in the whole network.
    """

    def __init__(self, settings: Settings, network: TextualInteractionNetwork, features: Features) -> None:
        self.settings, self.features, self.n_classes = settings, features, network.n_classes
        self.labels = GrowingArray(network.labels.copy())
        self.label_totals = np.bincount(network.labels[network.is_labelled], minlength=self.n_classes)
        self._fold_totals = count_labels(features.folds, network.labels, FOLDS, self.n_classes)
        self._log_odds, self._directions = GrowingArray(features.log_odds[FOLDS]), GrowingArray(features.vectors)
        self._parts, self._style = GrowingArray(features.parts[FOLDS]), GrowingArray(features.style)
        self._carried = {side: part_of_side(side, self.n_classes) for side in SIDES}
        silent, everyone = network.labels == HIDDEN, np.ones(len(network), bool)
        heard = {side: np.hstack([self._parts.values[:, part], features.style]) for side, part in self._carried.items()}
        self.sides = {
            name: GrowingSide(
                ids,
                nodes,
                vectors,
                count_labels(nodes, network.labels, len(ids), self.n_classes),
                sum_values(nodes, silent, features.log_odds[FOLDS], len(ids)),
                sum_values(nodes, everyone, heard[name], len(ids)),
            )
            for name, ids, nodes, vectors in (
                ("user", network.user_ids, network.users, features.user_vectors),
                ("item", network.item_ids, network.items, features.item_vectors),
            )
        }

        self._compared = {name: ComparedMembers(side, self.labels, settings.seed) for name, side in self.sides.items()}

    def __len__(self) -> int:
        return len(self.labels)

    def append(self, read: ReadTexts, codes: dict[str, int], at: int) -> int:
        """Add an interaction between these nodes, with the text at this place and without a label; its number."""
        number = len(self)
        self._log_odds.append(read.log_odds[FOLDS, at : at + 1])
        self._parts.append(read.parts[FOLDS, at : at + 1])
        self._style.append(read.style[at : at + 1])
        self._directions.append(read.vectors[at : at + 1])
        self.labels.append(np.array([HIDDEN], np.int32))
        for name, side in self.sides.items():
            side.append(number, codes[name])
            self._compared[name].added(codes[name], number)
            side.word_sums.values[codes[name]] += self._said(number)
            side.heard_sums.values[codes[name]] += self._heard(number, name)
        return number

    def relabel(self, number: int, code: int) -> None:
        before = int(self.labels.values[number])
        for change, label in ((-1, before), (1, code)):
            if label != HIDDEN:
                self.label_totals[label] += change
                if number < len(self.features):
                    self._fold_totals[self.features.folds[number], label] += change
                for side in self.sides.values():
                    side.label_counts.values[side.nodes.values[number], label] += change
        became_silent = (code == HIDDEN) - (before == HIDDEN)
        for side in self.sides.values():
            side.word_sums.values[side.nodes.values[number]] += became_silent * self._said(number)
        self.labels.values[number] = code
        for name, side in self.sides.items():
            self._compared[name].relabelled(int(side.nodes.values[number]), number)

    def view(self, number: int) -> int:
        """Which view describes it: that of its fold if it is of the network of training and has a label."""
        is_labelled = number < len(self.features) and self.labels.values[number] != HIDDEN
        return int(self.features.folds[number]) if is_labelled else FOLDS

    def of(
        self,
        number: int,
        codes: dict[str, int],
        own: ReadText,
        without: int | None = None,
    ) -> Evidence:
        """Of one interaction, without its own label.

        Args:
            number: its own, or that of the next one to come.
            codes: side → its node.
            own: what was read in its text.
            without: another one that does not count.
        """
        view = self.view(number)
        labels, alike, likeness, words, around = {}, {}, {}, {}, {}
        own_context = own.parts[: len(own.parts) // 3]
        for name, side in self.sides.items():
            counts, sums = self._around(side, codes[name], number, without, view)
            if self.settings.labels:
                labels[name] = counts[None].astype(np.float64)
            if name not in self.settings.heard_sides:
                continue
            if self.settings.neighbour_words and len(own.log_odds):
                words[name] = sums[None]
            if self.settings.neighbour_words and len(own_context) + len(own.style):
                around[name] = self._others(name, codes[name], number, without, view)[None]
            if self.settings.alike_texts and len(own.vector):
                others = self._compared[name].others(codes[name], number, without)
                weighted, likeness[name] = self._likeness(others, own.vector, view)
                if self.settings.labels:
                    alike[name] = weighted.astype(np.float64)
        degrees = [self._number_of_others(name, codes[name], number, without) for name in self.sides]
        repeats = [self._repeats(codes, number, without)] if self.settings.repeats else []
        return Evidence(
            log_odds=own.log_odds[None],
            totals=self._totals(number, without, view)[None],
            labels=labels,
            alike=alike,
            likeness=likeness,
            words=words,
            own_context=own_context[None] if self.settings.heard_sides else own_context[None, :0],
            style=own.style[None],
            around=around,
            repeats=np.array([repeats], np.float64),
            degrees=np.array([degrees]),
            views=np.array([view]),
        )

    def most_alike(self, number: int, codes: dict[str, int], own: ReadText, most: int) -> np.ndarray:
        """Numbers of other interactions of its user and of its item, at most so many of each, whose texts are most like
        its own; without sentence vectors, labelled ones first."""
        found = []
        for name in self.sides:
            others = self._compared[name].others(codes[name], number)
            near = self._directions.values[others] @ own.vector
            if not len(own.vector):
                near = self.labels.values[others] != HIDDEN
            found.append(others[np.argsort(-near.astype(np.float64), kind="stable")[:most]])
        return np.unique(np.concatenate(found))

    def _number_of_others(self, name: str, code: int, number: int, without: int | None) -> float:
        side = self.sides[name]
        if code >= len(side.ids):
            return 0.0
        absent = {one for one in (number, without) if one is not None and one < len(self)}
        return side.degree(code) - float(sum(side.nodes.values[one] == code for one in absent))

    def between(self, codes: dict[str, int]) -> np.ndarray:
        """Numbers of the interactions between these nodes; looked for among those of the one that has fewer."""
        fewer, more = sorted(codes, key=lambda name: self.sides[name].degree(codes[name]))
        members = self.sides[fewer].members(codes[fewer])
        return members[self.sides[more].nodes.values[members] == codes[more]]

    def _repeats(self, codes: dict[str, int], number: int, without: int | None) -> float:
        """Number of other interactions between these nodes."""
        if any(code >= len(self.sides[name].ids) for name, code in codes.items()):
            return 0.0
        both = self.between(codes)
        return float(np.sum((both != number) & (both != without)))

    def _around(
        self, side: GrowingSide, code: int, number: int, without: int | None, view: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Visible labels of the node's other interactions, and what those without a label say."""
        if code >= len(side.ids):
            return np.zeros(self.n_classes), np.zeros(1 + self._log_odds.values.shape[1])
        if view != FOLDS:
            return self._around_in_fold(side.members(code), number, without, view)
        counts, sums = side.label_counts.values[code].copy(), side.word_sums.values[code].copy()
        for one in (number, without):
            if one is not None and one < len(self) and side.nodes.values[one] == code:
                if self.labels.values[one] == HIDDEN:
                    sums -= self._said(one)
                else:
                    counts[self.labels.values[one]] -= 1
        return counts, sums

    def _around_in_fold(
        self, members: np.ndarray, number: int, without: int | None, fold: int
    ) -> tuple[np.ndarray, np.ndarray]:
        others = members[(members != number) & (members != without)]
        visible, folds = self._visible(others, fold), self._folds(others)
        silent = others[(visible == HIDDEN) & (folds != NO_FOLD)]
        said = self.features.log_odds[fold, silent].sum(axis=0, dtype=np.float64)
        counts = count_labels(np.zeros_like(others), visible, 1, self.n_classes)[0]
        return counts, np.append(len(silent), said)

    def _others(self, name: str, code: int, number: int, without: int | None, view: int) -> np.ndarray:
        """(1 + classes + ·,) number of the node's other interactions, and the sum of what is heard of them."""
        side = self.sides[name]
        if code >= len(side.ids):
            return np.zeros(side.heard_sums.values.shape[1])
        if view != FOLDS:
            members = side.members(code)
            others = members[(members != number) & (members != without) & (self._folds(members) != NO_FOLD)]
            values = np.hstack([self.features.parts[view, others][:, self._carried[name]], self.features.style[others]])
            return np.append(len(others), values.sum(axis=0, dtype=np.float64))
        sums = side.heard_sums.values[code].copy()
        for one in (number, without):
            if one is not None and one < len(self) and side.nodes.values[one] == code:
                sums -= self._heard(one, name)
        return sums

    def _likeness(self, others: np.ndarray, direction: np.ndarray, view: int) -> tuple[np.ndarray, np.ndarray]:
        cosines = direction[None] @ self._directions.values[others].T
        same = np.zeros_like(cosines, dtype=bool)
        return alike_labels(cosines, same, self._visible(others, view), self.n_classes), cosine_summary(cosines, same)

    def _totals(self, number: int, without: int | None, view: int) -> np.ndarray:
        totals = self.label_totals.astype(np.float64)
        hidden = [one for one in (without,) if one is not None]
        if view != FOLDS:
            totals -= self._fold_totals[view]
        elif number < len(self):
            hidden.append(number)
        for label in self._visible(np.array(hidden, np.int64), view):
            if label != HIDDEN:
                totals[label] -= 1
        return totals

    def _visible(self, numbers: np.ndarray, view: int) -> np.ndarray:
        """Labels of these interactions that the view shows."""
        labels = self.labels.values[numbers]
        return labels if view == FOLDS else np.where(self._folds(numbers) == view, HIDDEN, labels)

    def _folds(self, numbers: np.ndarray) -> np.ndarray:
        n_known = len(self.features)
        return np.where(numbers < n_known, self.features.folds[np.minimum(numbers, n_known - 1)], NO_FOLD)

    def _said(self, number: int) -> np.ndarray:
        """(1 + readers · classes,) what it adds to the sums of its user and its item while it has no label."""
        return np.append(1.0, self._log_odds.values[number])

    def _heard(self, number: int, name: str) -> np.ndarray:
        """(1 + classes + ·,) what it adds to the sums of its user, or of its item, that others hear."""
        return np.concatenate([[1.0], self._parts.values[number, self._carried[name]], self._style.values[number]])
