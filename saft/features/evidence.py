"""Evidence: what can be said about an interaction without training an encoder, as counts and sums that grow.

Beside the interaction's own words (class log-odds by each reader, see :mod:`~saft.features.ngrams` and
:mod:`~saft.features.sentences`) there is, by user and by item:

- labels of its other interactions, counted;
- the same labels, each weighted by how alike the two texts are: exp((cos − 1) / T);
- how alike its other texts are, whatever their labels: the mean of the cosines and the largest;
- what the readers say about its other interactions that have no label;
- what all its other texts say about this one, by a linear model of them together (:mod:`~saft.features.context`);
- how they are written, and how this one is (:mod:`~saft.features.style`).

And of both together: how often the two met.

Labels are visible ones only, and never those of the interaction itself or, if it has a label, of its fold.
``Evidence.features`` turns counts into numbers that a linear model can use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from saft.features.context import PRIOR
from saft.features.ngrams import LARGEST

# Few labels are pulled towards the shares of the whole network, as if there were this many more of them.
PRIOR_WEIGHT = 2.0
ALIKE_PRIOR_WEIGHT = 0.05  # the same for labels weighted by likeness, whose weights are small

NEIGHBOURS_TELL = ("labels", "alike", "likeness", "neighbours")  # groups that stand side by side in the features


@dataclass(frozen=True)
class Evidence:
    """One row per interaction. Dictionaries are by side, ``user`` and ``item``; a kind that is not used has no side.

    Args:
        log_odds: (rows, readers · classes) by its own words.
        totals: (rows, classes) visible labels in the whole network.
        labels: side → (rows, classes) visible labels of the node's other interactions.
        alike: side → (rows, classes) the same, weighted by likeness.
        likeness: side → (rows, 2) mean and largest cosine with the texts of the node's other interactions.
        words: side → (rows, 1 + readers · classes) how many others have no label, and the sum of their log-odds.
        own_context: (rows, classes) what its own text says among others; no columns where that is not read.
        style: (rows, ·) how its own text is written; no columns where that is not read.
        around: side → (rows, 1 + classes + ·) number of others, sums of what they carry and of their style.
        repeats: (rows, 1) number of other interactions of the same user with the same item; no column if not counted.
        degrees: (rows, 2) number of the user's and of the item's other interactions; not among :meth:`features`.
        views: (rows,) which view describes each, see :mod:`~saft.features.folds`.
    """

    log_odds: np.ndarray
    totals: np.ndarray
    labels: Mapping[str, np.ndarray]
    alike: Mapping[str, np.ndarray]
    likeness: Mapping[str, np.ndarray]
    words: Mapping[str, np.ndarray]
    own_context: np.ndarray
    style: np.ndarray
    around: Mapping[str, np.ndarray]
    repeats: np.ndarray
    degrees: np.ndarray
    views: np.ndarray

    def __len__(self) -> int:
        return len(self.log_odds)

    def features(self) -> np.ndarray:
        """(rows, columns), float32; see :meth:`groups`. All zeros where nothing is known."""
        parts = [column for columns in self._columns().values() for column in columns]
        return np.hstack([np.empty((len(self), 0)), *parts]).astype(np.float32)

    def groups(self) -> dict[str, slice]:
        """Name of a kind of evidence → its columns in :meth:`features`."""
        found, first = {}, 0
        for name, columns in self._columns().items():
            width = sum(column.shape[1] for column in columns)
            found[name] = slice(first, first + width)
            first += width
        return {name: columns for name, columns in found.items() if columns.start < columns.stop}

    def blocks(self) -> list[slice]:
        """Columns of :meth:`features` that speak of one class each, in the order of the classes."""
        n_classes, found, first = self.totals.shape[1], [], 0
        for name, columns in self._columns().items():
            for column in columns:
                width = column.shape[1]
                if name in ("words", "labels", "alike", "neighbours", "context"):
                    skipped = first + int(name == "neighbours")  # their number stands first; that of labels last
                    found += [
                        slice(skipped + at, skipped + at + n_classes)
                        for at in range(0, width - n_classes + 1, n_classes)
                    ]
                first += width
        return found

    def _columns(self) -> dict[str, list[np.ndarray]]:
        shares = label_shares(self.totals)
        return {
            "words": [self.log_odds],
            "labels": [log_shares(counts, shares, PRIOR_WEIGHT) for counts in self.labels.values()],
            "alike": [log_shares(weights, shares, ALIKE_PRIOR_WEIGHT) for weights in self.alike.values()],
            "likeness": list(self.likeness.values()),
            "neighbours": [_mean_and_number(sums) for sums in self.words.values()],
            "context": [self._in_context()],
            "style": [self.style],
            "style around": [means[:, self.own_context.shape[1] :] for means in self._means_around()],
            "repeats": [np.log1p(self.repeats)],
        }

    def _in_context(self) -> np.ndarray:
        """(rows, classes) log-odds of the text among the others, see :mod:`~saft.features.context`."""
        carried = [means[:, : self.own_context.shape[1]] for means in self._means_around()]
        return np.clip(sum(carried, self.own_context), -LARGEST, LARGEST)

    def _means_around(self) -> list[np.ndarray]:
        """By side: (rows, classes + ·) mean of what others carry, and of their style."""
        return [sums[:, 1:] / (sums[:, :1] + PRIOR) for sums in self.around.values()]

    def take(self, rows: np.ndarray) -> Evidence:
        return self._mapped(lambda array: array[rows])

    def without_labels(self, sides: Sequence[str] = ("user", "item")) -> Evidence:
        """As if no label of these sides were known."""
        return replace(self, labels=_blank(self.labels, sides), alike=_blank(self.alike, sides))

    def without_words(self) -> Evidence:
        """As if no reader said anything about its own text."""
        return replace(
            self,
            log_odds=np.zeros_like(self.log_odds),
            own_context=np.zeros_like(self.own_context),
            style=np.zeros_like(self.style),
        )

    def without_reader(self, columns: slice) -> Evidence:
        """As if the reader of these columns said nothing about its own text."""
        log_odds = self.log_odds.copy()
        log_odds[:, columns] = 0
        return replace(self, log_odds=log_odds)

    def without_neighbours_texts(self) -> Evidence:
        """As if no other text were known."""
        sides = tuple(self.words) + tuple(self.likeness)
        return replace(
            self,
            words=_blank(self.words, sides),
            alike=_blank(self.alike, sides),
            likeness=_blank(self.likeness, sides),
            around=_blank(self.around),
        )

    def without_degrees(self) -> Evidence:
        """As if its user and its item had no other interaction, as far as their number is looked at."""
        return replace(self, degrees=np.zeros_like(self.degrees), repeats=np.zeros_like(self.repeats))

    def without_text(self) -> Evidence:
        """As if its own text were empty: it says nothing and is like no other."""
        return replace(self.without_words(), alike=_blank(self.alike), likeness=_blank(self.likeness))

    @classmethod
    def stacked(cls, parts: Sequence[Evidence]) -> Evidence:
        """The rows of all of them."""

        def joined(name: str) -> Any:
            first = getattr(parts[0], name)
            if isinstance(first, np.ndarray):
                return np.concatenate([getattr(part, name) for part in parts])
            return {side: np.concatenate([getattr(part, name)[side] for part in parts]) for side in first}

        return cls(*(joined(entry.name) for entry in fields(cls)))

    def _mapped(self, change: Any) -> Evidence:
        def each(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return change(value)
            return {side: change(array) for side, array in value.items()}

        return Evidence(*(each(getattr(self, entry.name)) for entry in fields(self)))


def log_shares(counts: np.ndarray, shares: np.ndarray, prior: float) -> np.ndarray:
    """(rows, classes + 1): log(share here / share overall) per class, then log(1 + number / prior · 2)."""
    number = counts.sum(axis=1, keepdims=True)
    here = (counts + prior * shares) / (number + prior)
    return np.hstack([np.log(here / shares), np.log1p(number * PRIOR_WEIGHT / prior)])


def label_shares(counts: np.ndarray) -> np.ndarray:
    """(…, classes) the share of each class among these counts, smoothed so that none is zero."""
    return (counts + 1.0) / (counts + 1.0).sum(axis=-1, keepdims=True)


def _mean_and_number(sums: np.ndarray) -> np.ndarray:
    """(rows, 1 + readers · classes): log(1 + number), and the mean log-odds, as if one neighbour more said nothing."""
    number = sums[:, :1]
    return np.hstack([np.log1p(number), sums[:, 1:] / (number + 1)])


def _blank(by_side: Mapping[str, np.ndarray], sides: Sequence[str] = ("user", "item")) -> dict[str, np.ndarray]:
    return {side: np.zeros_like(array) if side in sides else array for side, array in by_side.items()}
