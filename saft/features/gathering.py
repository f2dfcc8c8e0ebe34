"""Evidence of every interaction of a network at once: counts and sums by user and by item.

Labels that a view hides are subtracted from the counts of the whole network, so that all views cost little more than
one. Likeness compares an interaction with at most ``MOST_COMPARED`` others of its user and of its item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from saft.data.network import HIDDEN
from saft.features.evidence import Evidence
from saft.features.folds import FOLDS, NO_FOLD, view_of_rows
from saft.hashing import fixed_keys

MOST_COMPARED = 256
TEMPERATURE = 0.3  # of the weights of alike texts
SIDES = ("user", "item")


@dataclass(frozen=True)
class Kinds:
    """Which kinds of evidence are wanted."""

    labels: bool = True
    alike: bool = True
    words: bool = True
    repeats: bool = True
    heard: tuple[str, ...] = SIDES  # whose texts are heard: those of the same user, of the same item


@dataclass(frozen=True)
class Rows:
    """What evidence is gathered from, one entry per interaction.

    Args:
        users, items: their nodes.
        labels: visible ones, HIDDEN elsewhere.
        folds: see :mod:`~saft.features.folds`.
        log_odds: (views, rows, readers · classes).
        parts: (views, rows, 3 · classes), see :mod:`~saft.features.context`; no columns where that is not read.
        vectors: (rows, width) of length 1; no columns where there is no sentence vector.
        style: (rows, ·), see :mod:`~saft.features.style`; no columns where that is not read.
        seed: draws the others that likeness is measured with.
    """

    users: np.ndarray
    items: np.ndarray
    labels: np.ndarray
    folds: np.ndarray
    log_odds: np.ndarray
    parts: np.ndarray
    vectors: np.ndarray
    style: np.ndarray
    n_classes: int
    seed: int = 0

    def nodes(self, side: str) -> np.ndarray:
        return self.users if side == "user" else self.items

    def heard(self, side: str, view: int) -> np.ndarray:
        """(rows, classes + ·) what others of the node hear of each: what it carries to them, and how it is written."""
        return np.hstack([self.parts[view, :, part_of_side(side, self.n_classes)], self.style])


def gather(rows: Rows, kinds: Kinds) -> Evidence:
    """Evidence of every row. A labelled row sees the view without its fold, all others see every visible label."""
    labelled = rows.labels != HIDDEN
    views = view_of_rows(rows.folds, labelled)
    each = np.arange(len(views))
    own, own_context = rows.log_odds[views, each], rows.parts[views, each, : rows.parts.shape[2] // 3]
    labels, words, alike, likeness, around = {}, {}, {}, {}, {}
    for side in SIDES:
        nodes = rows.nodes(side)
        if kinds.labels:
            labels[side] = _label_counts(nodes, rows, views)
        if side not in kinds.heard:
            continue
        if kinds.words and own.shape[1]:
            words[side] = _sums_of_others(nodes, rows, views, rows.log_odds.__getitem__, only_silent=True)
        if kinds.words and own_context.shape[1] + rows.style.shape[1]:
            around[side] = _sums_of_others(nodes, rows, views, partial(rows.heard, side), only_silent=False)
        if kinds.alike and rows.vectors.shape[1]:
            alike[side], likeness[side] = _likeness(nodes, rows, views)
    if not kinds.labels:
        alike = {}
    if not (kinds.words and kinds.heard):
        own_context = own_context[:, :0]
    repeats = _number_of_others(_pairs(rows))[:, None]
    return Evidence(
        log_odds=own,
        totals=_totals(rows, views),
        labels=labels,
        alike=alike,
        likeness=likeness,
        words=words,
        own_context=own_context,
        style=rows.style,
        around=around,
        repeats=repeats if kinds.repeats else repeats[:, :0],
        degrees=np.stack([_number_of_others(rows.nodes(side)) for side in SIDES], axis=1),
        views=views,
    )


def _pairs(rows: Rows) -> np.ndarray:
    """(rows,) the same number for the same user and item."""
    both = rows.users.astype(np.int64) * (int(rows.items.max(initial=-1)) + 1) + rows.items
    return np.unique(both, return_inverse=True)[1]


def _number_of_others(nodes: np.ndarray) -> np.ndarray:
    return np.bincount(nodes)[nodes] - 1.0 if len(nodes) else np.empty(0)


def part_of_side(side: str, n_classes: int) -> slice:
    """Columns of what a text carries to others of its user, or of its item, see ContextModel.parts."""
    first = n_classes * (1 + SIDES.index(side))
    return slice(first, first + n_classes)


def _totals(rows: Rows, views: np.ndarray) -> np.ndarray:
    """(rows, classes) visible labels in the network, without those of the row's fold, or without its own."""
    by_fold = count_labels(rows.folds - NO_FOLD, rows.labels, FOLDS + 1, rows.n_classes)
    hidden = np.vstack([by_fold[1:], np.zeros((1, rows.n_classes))])[views]
    return by_fold.sum(axis=0) - hidden - _own_label(rows, views)


def _label_counts(nodes: np.ndarray, rows: Rows, views: np.ndarray) -> np.ndarray:
    """(rows, classes) visible labels of the node's other interactions, in the row's view."""
    n_nodes = int(nodes.max(initial=-1)) + 1
    counts = count_labels(nodes, rows.labels, n_nodes, rows.n_classes)[nodes]
    for fold in range(FOLDS):
        hidden, seeds = rows.folds == fold, views == fold
        counts[seeds] -= count_labels(nodes[hidden], rows.labels[hidden], n_nodes, rows.n_classes)[nodes[seeds]]
    return counts - _own_label(rows, views)


def _own_label(rows: Rows, views: np.ndarray) -> np.ndarray:
    """(rows, classes) 1 where a row's own label would be counted: it is visible and its fold is not hidden."""
    own = np.zeros((len(views), rows.n_classes))
    counted = np.flatnonzero((rows.labels != HIDDEN) & (views == FOLDS))
    own[counted, rows.labels[counted]] = 1
    return own


def _sums_of_others(
    nodes: np.ndarray, rows: Rows, views: np.ndarray, values_in: Callable[[int], np.ndarray], only_silent: bool
) -> np.ndarray:
    """(rows, 1 + values) number of the node's others, or of those without a label in the view, and their summed values.

    In the view of a fold, rows that came after the readers were fitted do not count: what readers say of them is not
    independent of the fold's labels.
    """
    n_nodes = int(nodes.max(initial=-1)) + 1
    found = np.zeros((len(nodes), 1 + values_in(FOLDS).shape[1]))
    for view in range(FOLDS + 1):
        seeds, values = np.flatnonzero(views == view), values_in(view)
        counted = (rows.labels == HIDDEN) | (rows.folds == view) if only_silent else np.ones(len(nodes), bool)
        if view < FOLDS:
            counted = counted & (rows.folds != NO_FOLD)
        sums = sum_values(nodes, counted, values, n_nodes)
        own = np.hstack([np.ones((len(seeds), 1)), values[seeds]]) * counted[seeds][:, None]
        found[seeds] = sums[nodes[seeds]] - own
    return found


def _likeness(nodes: np.ndarray, rows: Rows, views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((rows, classes) labels of others weighted by likeness, (rows, 2) mean and largest cosine with others)."""
    alike, likeness = np.zeros((len(nodes), rows.n_classes)), np.zeros((len(nodes), 2))
    for members in _members(nodes):
        others = compared(members, rows.labels, rows.seed)
        labels, folds = rows.labels[others], rows.folds[others]
        for some in np.array_split(members, len(members) // MOST_COMPARED + 1):
            cosines = rows.vectors[some] @ rows.vectors[others].T
            same = some[:, None] == others
            likeness[some] = cosine_summary(cosines, same)
            alike[some] = alike_labels(cosines, same | (views[some][:, None] == folds), labels, rows.n_classes)
    return alike, likeness


def _members(nodes: np.ndarray) -> Iterator[np.ndarray]:
    """Rows of every node that has more than one."""
    order = np.argsort(nodes, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(nodes[order])) + 1):
        if len(members) > 1:
            yield members


def compared(members: np.ndarray, labels: np.ndarray, seed: int) -> np.ndarray:
    """Those of a node's rows that others are compared with: all if they are few, else labelled ones first."""
    if len(members) <= MOST_COMPARED:
        return members
    return first_in_order(members, labels[members] == HIDDEN, seed)


def first_in_order(members: np.ndarray, silent: np.ndarray, seed: int) -> np.ndarray:
    """The first ``MOST_COMPARED`` of these rows: those that are not silent, then the others, each by a fixed order."""
    order = np.lexsort((fixed_keys(members, seed), silent))
    return members[order[:MOST_COMPARED]]


def alike_labels(cosines: np.ndarray, hidden: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """(rows, classes) labels of the others (columns), each weighted by exp((cos − 1) / T), but for hidden ones."""
    one_hot = (labels[:, None] == np.arange(n_classes)).astype(cosines.dtype)
    return np.where(hidden, 0, np.exp((cosines - 1) / TEMPERATURE)) @ one_hot


def cosine_summary(cosines: np.ndarray, same: np.ndarray) -> np.ndarray:
    """(rows, 2) mean and largest cosine with the others (columns), without the row itself; 0 if there is no other."""
    number = (~same).sum(axis=1)
    mean = np.where(same, 0, cosines).sum(axis=1) / np.maximum(number, 1)
    largest = np.where(same, -1, cosines).max(axis=1, initial=-1)
    return np.stack([mean, np.where(number > 0, largest, 0)], axis=1)


def count_labels(nodes: np.ndarray, labels: np.ndarray, n_nodes: int, n_classes: int) -> np.ndarray:
    """(nodes, classes) how often each node carries each visible label."""
    visible = labels != HIDDEN
    places = nodes[visible].astype(np.int64) * n_classes + labels[visible]
    return np.bincount(places, minlength=n_nodes * n_classes).reshape(n_nodes, n_classes)


def sum_values(nodes: np.ndarray, counted: np.ndarray, values: np.ndarray, n_nodes: int) -> np.ndarray:
    """(nodes, 1 + values) number and summed values of each node's interactions, as far as they are counted."""
    said = np.hstack([np.ones((int(counted.sum()), 1)), values[counted]])
    sums = [np.bincount(nodes[counted], column, minlength=n_nodes) for column in said.T]
    return np.stack(sums, axis=1).astype(np.float64)  # where nothing is counted, bincount gives integers
