"""TreeModel: boosted trees on the evidence, on structure and on degrees, beside the regression of the start.

A regression adds up what its columns say. Trees find what holds only under a condition: style that matters within a
range, or labels that count for more in one part of the graph than in another.

The trees are scikit-learn's, fitted once without each fold and once to all labels (:mod:`~saft.features.folds`), so
that what they say of a labelled row was learnt without the labels of its fold. How many are kept is decided by the
likelihood of the rows that they were not fitted to. What is kept of them are arrays: a node tests one column, and leads
to one of two nodes or is a leaf with a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from saft.features.evidence import Evidence
from saft.features.folds import FOLDS, VIEWS
from saft.features.ngrams import LARGEST
from saft.features.regression import log_loss, log_softmax, single_thread
from saft.hashing import hash_seed

FITTED_DIMENSIONS, SEEN_DIMENSIONS = 24, 8  # of each embedding of structure: for closeness, and the first ones as such
LEAST_ROWS = 100  # fewer say nothing about conditions
RATE, LEAVES, LEAST_IN_LEAF, PULL, COLUMNS_PER_SPLIT, MOST_ROUNDS = 0.1, 7, 20, 1.0, 0.5, 120
BAG = 3  # models whose mean is taken
ROWS_AT_ONCE = 8_192
DIGITS = 4  # of what trees see: a threshold in the noise of rounding would tell sums by the order of their terms
IMPOSSIBLE = -20.0  # log-odds of a class without a row; nothing is that sure


@dataclass(frozen=True)
class TreeModel:
    """
    Args:
        columns, thresholds: (nodes,) a row goes to the first child if its number in this column is not larger.
        children: (nodes, 2); a leaf leads to itself.
        values: (nodes,) of leaves.
        roots, classes, views: (trees,) first node, class that the values count for, and view of each tree.
        baselines: (views, classes) what is said before any tree.
    """

    columns: np.ndarray
    thresholds: np.ndarray
    children: np.ndarray
    values: np.ndarray
    roots: np.ndarray
    classes: np.ndarray
    views: np.ndarray
    baselines: np.ndarray

    @classmethod
    def fit(
        cls, columns: np.ndarray, targets: np.ndarray, n_classes: int, folds: np.ndarray, seed: int
    ) -> TreeModel | None:
        """None where there are too few rows, or too few of a second class.

        Args:
            columns: (rows, columns) of labelled rows, see :func:`tree_columns`.
            targets, folds: (rows,) class and fold of each.
        """
        outside = [np.flatnonzero(folds != fold) for fold in range(FOLDS)]
        if len(targets) < LEAST_ROWS or any(len(np.unique(targets[rows])) < 2 for rows in outside):
            return None
        bags, losses = [], np.zeros(MOST_ROUNDS)
        for fold, rows in enumerate(outside):
            bags.append(_bag(columns[rows], targets[rows], MOST_ROUNDS, seed))
            held_out = np.flatnonzero(folds == fold)
            for number, said in enumerate(_staged(bags[-1], columns[held_out], n_classes)):
                losses[number] += log_loss(said, targets[held_out]) * len(held_out)
        rounds = int(np.argmin(losses)) + 1
        bags.append(_bag(columns, targets, rounds, seed))
        return cls.of(bags, rounds, n_classes)

    @classmethod
    def of(cls, bags: Sequence[Sequence[Any]], rounds: int, n_classes: int) -> TreeModel:
        """The first rounds of scikit-learn's models, a bag of them per view.

        The mean over a bag is a sum of trees again, whose leaves are worth so much less.
        """
        parts: dict[str, list[np.ndarray]] = {name: [] for name in ("columns", "thresholds", "children", "values")}
        roots, classes, views, first = [], [], [], 0
        baselines = np.full((len(bags), n_classes), IMPOSSIBLE)
        for view, bag in enumerate(bags):
            present = bag[0].classes_ if len(bag[0].classes_) > 2 else bag[0].classes_[1:]
            baselines[view, bag[0].classes_] = 0.0
            baselines[view, present] = bag[0]._baseline_prediction.ravel()  # the same in all of a bag
            for trees in (trees for model in bag for trees in model._predictors[:rounds]):
                for label, tree in zip(present.tolist(), trees, strict=True):
                    for name, array in _arrays(tree.nodes, first, 1 / len(bag)).items():
                        parts[name].append(array)
                    roots.append(first)
                    classes.append(label)
                    views.append(view)
                    first += len(tree.nodes)
        joined = {name: np.concatenate(arrays) for name, arrays in parts.items()}
        return cls(
            **joined, roots=np.array(roots), classes=np.array(classes), views=np.array(views), baselines=baselines
        )

    def refuse_cycles(self) -> None:
        """ValueError unless every node leads to later ones, as trees that were fitted do, or, as a leaf, to itself."""
        own = np.arange(len(self.children))[:, None]
        is_leaf = (self.children == own).all(axis=1)
        leads_on = (self.children > own).all(axis=1) & (self.children < len(own)).all(axis=1)
        if not (is_leaf | leads_on).all() or not ((self.roots >= 0) & (self.roots < len(own))).all():
            raise ValueError("the trees have no end")

    def log_odds(self, columns: np.ndarray, views: np.ndarray) -> np.ndarray:
        """(rows, classes) log-probabilities less their mean over the classes, float32.

        Args:
            columns: (rows, columns).
            views: (rows,) which view describes each.
        """
        found = np.empty((len(columns), self.baselines.shape[1]), np.float32)
        for view in range(VIEWS):
            rows = np.flatnonzero(views == view)
            for start in range(0, len(rows), ROWS_AT_ONCE):
                some = rows[start : start + ROWS_AT_ONCE]
                found[some] = self._log_odds(columns[some], view)
        return found

    def _log_odds(self, columns: np.ndarray, view: int) -> np.ndarray:
        trees = np.flatnonzero(self.views == view)
        place = np.broadcast_to(self.roots[trees], (len(columns), len(trees)))
        flat, first = np.ascontiguousarray(columns).ravel(), np.arange(len(columns))[:, None] * columns.shape[1]
        for _ in range(self._depth):
            is_larger = flat[first + self.columns[place]] > self.thresholds[place]
            place = self.children[place, is_larger.astype(np.int8)]
        one_hot = (self.classes[trees][:, None] == np.arange(self.baselines.shape[1])).astype(np.float64)
        logs = log_softmax(self.values[place] @ one_hot + self.baselines[view])
        return np.clip(logs - logs.mean(axis=1, keepdims=True), -LARGEST, LARGEST)

    @cached_property
    def _depth(self) -> int:
        """Steps from a root to the farthest leaf."""
        depth, places = 0, self.roots
        while True:
            following = np.unique(self.children[places])
            if np.array_equal(following, np.unique(places)):
                return depth
            depth, places = depth + 1, following


def tree_columns(evidence: Evidence, structure: Mapping[str, np.ndarray]) -> np.ndarray:
    """(rows, ·) what trees see of an interaction; degrees are part of the structure, and left out where there is none.

    Args:
        structure: role → (rows, dim).
    """
    seen = [vectors[:, :SEEN_DIMENSIONS] for vectors in structure.values()]
    columns = np.hstack([evidence.features(), *seen, *([np.log1p(evidence.degrees)] if seen else [])])
    return np.round(columns, DIGITS).astype(np.float32)


class SideFeatures:
    """The evidence in numbers, then log-odds per class by the trees, if there are any.

    Trees are asked about a row when it is first needed: for all of a large network that would take longer than fitting
    them, and a training needs few of them.

    Args:
        structure: role → (rows, dim).
    """

    def __init__(self, evidence: Evidence, structure: Mapping[str, np.ndarray], trees: TreeModel | None) -> None:
        self.evidence, self.structure, self.trees = evidence, structure, trees
        self._columns = evidence.features()
        self._said = np.full((len(evidence), evidence.totals.shape[1]), np.nan, np.float32)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """(rows, ·)."""
        if self.trees is None:
            return self._columns[rows]
        new = np.unique(rows[np.isnan(self._said[rows, 0])])
        if len(new):
            evidence = self.evidence.take(new)
            columns = tree_columns(evidence, {role: vectors[new] for role, vectors in self.structure.items()})
            self._said[new] = self.trees.log_odds(columns, evidence.views)
        return np.hstack([self._columns[rows], self._said[rows]])


def mixing_weight(regression: np.ndarray, trees: np.ndarray, targets: np.ndarray, least_gain: float) -> float:
    """How much the trees count, between 0 and 1, by the likelihood of rows that neither was fitted to.

    0 unless the rows become likelier by at least ``least_gain`` nats, summed over all of them.
    """
    weights = np.linspace(0, 1, 21)
    losses = [log_loss((1 - weight) * regression + weight * trees, targets) * len(targets) for weight in weights]
    best = int(np.argmin(losses))
    return float(weights[best]) if losses[0] - losses[best] >= least_gain else 0.0


def _bag(columns: np.ndarray, targets: np.ndarray, rounds: int, seed: int) -> list[Any]:
    """Models that differ in the columns that each split may look at; their mean is surer than one of them."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    made = partial(
        HistGradientBoostingClassifier,
        learning_rate=RATE, max_leaf_nodes=LEAVES, min_samples_leaf=LEAST_IN_LEAF, l2_regularization=PULL,
        max_features=COLUMNS_PER_SPLIT, max_iter=rounds, early_stopping=False,
    )  # fmt: skip
    with single_thread("openmp"):  # sums over threads would depend on which of them is first
        return [made(random_state=hash_seed(seed, number) % 2**32).fit(columns, targets) for number in range(BAG)]


def _staged(bag: Sequence[Any], columns: np.ndarray, n_classes: int) -> Iterator[np.ndarray]:
    """(rows, classes) mean logits after every round; nothing if there are no rows."""
    if not len(columns):
        return
    for each in zip(*(model.staged_decision_function(columns) for model in bag), strict=True):
        raw = np.mean(each, axis=0)
        logits = np.full((len(columns), n_classes), IMPOSSIBLE)
        logits[:, bag[0].classes_] = raw if raw.ndim == 2 else np.stack([np.zeros_like(raw), raw], axis=1)
        yield logits


def _arrays(nodes: np.ndarray, first: int, weight: float) -> dict[str, np.ndarray]:
    """Of a tree whose nodes are numbered from ``first`` on and whose leaves count with this weight."""
    is_leaf, own = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
    children = np.stack([nodes["left"], nodes["right"]], axis=1).astype(np.int64)
    children[is_leaf] = own[is_leaf, None]
    return {
        "columns": np.where(is_leaf, 0, nodes["feature_idx"]).astype(np.int64),
        "thresholds": np.where(is_leaf, np.inf, nodes["num_threshold"]),
        "children": children + first,
        "values": np.where(is_leaf, weight * nodes["value"], 0.0),
    }
