"""Multinomial logistic regression on rows of numbers, sparse or dense.

    mean of −log p(target) + Σ_columns ‖weights − start‖² / (2 C n),   p = softmax(row · weights + offset)

C may differ by column: :func:`fit_groups` chooses it for groups of columns by cross-validated likelihood. Where columns
come in blocks of one per class, it starts from one weight for each block (:func:`fit_tied`): ten numbers can be told
from a few hundred labels, a weight from every column to every class cannot.
(Scikit-learn's has the same objective for one C and a start of zero, but importing it takes as long as fitting.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController
from torch import Tensor

# Of the search of strengths: where it begins, within which limits, by which factors, and how many nats a step has to
# gain over all rows; less is what chance gives where rows are few (docs/experiments.md).
FIRST_STRENGTH, LEAST_STRENGTH, MOST_STRENGTH, LEAST_GAIN = 3e-3, 1e-5, 0.1, 3.0
TIED_STRENGTH = 1.0  # of the one weight that a block has
FACTORS = (3.0, 1 / 3)
SEARCH_STEPS, FINAL_STEPS = 60, 150


def regress(
    rows: Tensor | np.ndarray,
    turned: Tensor | np.ndarray,
    targets: np.ndarray,
    start: np.ndarray,
    strength: float | np.ndarray,
    steps: int,
    first: np.ndarray | None = None,
) -> np.ndarray:
    """(columns + 1, classes) weights and, in the last row, offsets; by L-BFGS.

    Args:
        rows: (rows, columns), a sparse tensor or a dense array.
        turned: the transpose, stored as such, so that a sparse matrix is not transposed in every step.
        targets: (rows,) the class of each.
        start: (columns + 1, classes) weights (not offsets) are penalised for their distance to these.
        strength: C, or (columns,) one for each; larger is less regularised.
        steps: maximum number of solver iterations.
        first: where the solver begins, if not at ``start``.
    """
    number, n_classes = len(targets), start.shape[1]
    per_column = np.broadcast_to(strength, len(start) - 1)[:, None]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        both = flat.reshape(-1, n_classes)
        logs = log_softmax(_product(rows, both[:-1].astype(np.float32)) + both[-1])
        errors = np.exp(logs)
        errors[np.arange(number), targets] -= 1
        moved = both[:-1] - start[:-1]
        pulled = moved / (per_column * number)
        blamed = _product(turned, errors.astype(np.float32))
        gradient = np.vstack([blamed / number + pulled, errors.mean(axis=0)])
        loss = -logs[np.arange(number), targets].mean() + (moved * pulled).sum() / 2
        return float(loss), gradient.ravel().astype(np.float64)

    begin = start if first is None else first
    # Vectors this short gain nothing from a multithreaded BLAS, and lose much where its threads wait for each other.
    with single_thread("blas"):
        found = minimize(objective, begin.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return found.x.reshape(-1, n_classes).astype(np.float32)


def single_thread(kind: str) -> AbstractContextManager[Any]:
    """While it lasts, libraries of this kind (``blas``, ``openmp``) compute with one thread."""
    return _threads().limit(limits=1, user_api=kind)


@cache
def _threads() -> ThreadpoolController:
    """Made once: to find the libraries takes as long as a small fit."""
    return ThreadpoolController()


def _product(rows: Tensor | np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Sparse ones by torch, which takes a third of scipy's time; dense ones are too small to share among threads."""
    return rows @ columns if isinstance(rows, np.ndarray) else (rows @ torch.from_numpy(columns)).numpy()


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """(rows, classes) log p of each class."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def log_loss(logits: np.ndarray, targets: np.ndarray) -> float:
    """Mean −log p(target)."""
    return float(-log_softmax(logits)[np.arange(len(targets)), targets].mean())


@dataclass(frozen=True)
class GroupedFit:
    """
    Args:
        weights: (columns + 1, classes), offsets last.
        strengths: of each group.
        held_out: (rows, classes) logits of every row by the regression without its fold.
    """

    weights: np.ndarray
    strengths: dict[str, float]
    held_out: np.ndarray


def fit_groups(
    columns: np.ndarray,
    groups: Mapping[str, slice],
    blocks: Sequence[slice],
    targets: np.ndarray,
    n_classes: int,
    folds: np.ndarray,
) -> GroupedFit:
    """A regression with a strength for each group of columns.

    Weights are pulled towards those of :func:`fit_tied`. One strength for all would let a wide group of weak columns
    drown a narrow one of strong ones. Strengths are searched one group at a time, each as long as held-out rows become
    more likely by more than chance would have it.

    Args:
        columns: (rows, columns) as they will be given to the result; they are standardised here.
        blocks: columns that speak of one class each, in the order of the classes.
        targets: (rows,).
        folds: (rows,) of each.
    """
    search = _StrengthSearch(columns, groups, blocks, targets, n_classes, folds)
    for name in groups:
        for factor in FACTORS:
            while search.improves(name, factor):
                pass
    solved = search.solve(np.arange(len(targets)), search.strengths, FINAL_STEPS)
    solved[:-1] /= search.spread[:, None]
    return GroupedFit(solved, search.strengths, search.held_out_logits())


def fit_tied(columns: np.ndarray, blocks: Sequence[slice], targets: np.ndarray, n_classes: int) -> np.ndarray:
    """(columns + 1, classes) weights and offsets: within a block every column counts for its own class alone, with a
    weight that all of them share and that is not negative. Columns outside of blocks have weight zero.
    """
    number, counts = len(targets), np.bincount(targets, minlength=n_classes) + 1
    log_priors = np.log(counts / counts.sum())
    by_block = np.stack([columns[:, block] for block in blocks], axis=2) if blocks else np.empty((number, n_classes, 0))
    wanted = np.eye(n_classes)[targets]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        shared, offsets = flat[: len(blocks)], flat[len(blocks) :]
        logs = log_softmax(by_block @ shared + offsets)
        errors = (np.exp(logs) - wanted) / number
        pulled = shared / (TIED_STRENGTH * number)
        loss = -logs[np.arange(number), targets].mean() + (shared * pulled).sum() / 2
        return float(loss), np.concatenate([np.einsum("rc,rcb->b", errors, by_block) + pulled, errors.sum(axis=0)])

    begin = np.concatenate([np.zeros(len(blocks)), log_priors])
    bounds = [(0, None)] * len(blocks) + [(None, None)] * n_classes
    with single_thread("blas"):
        found = minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds).x
    solved = np.zeros((columns.shape[1] + 1, n_classes))
    for block, weight in zip(blocks, found, strict=False):
        solved[block] = weight * np.eye(n_classes)
    solved[-1] = found[len(blocks) :]
    return solved


class _StrengthSearch:
    """Strengths of groups of columns, and how likely they make the rows of held-out folds."""

    def __init__(
        self,
        columns: np.ndarray,
        groups: Mapping[str, slice],
        blocks: Sequence[slice],
        targets: np.ndarray,
        n_classes: int,
        folds: np.ndarray,
    ) -> None:
        spread = columns.std(axis=0)
        self.spread = np.where(spread > 1e-6, spread, 1.0).astype(np.float32)
        self.given, self.columns = columns, columns / self.spread
        self.groups, self.blocks, self.targets, self.n_classes = groups, blocks, targets, n_classes
        parts = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in np.unique(folds)]
        self.parts = [part for part in parts if len(part[0])]  # none if all rows are of one fold
        self.starts = [self._tied(fitted) for fitted, _ in self.parts]
        self.strengths = dict.fromkeys(groups, FIRST_STRENGTH)
        self.loss, self.solutions = self._held_out(self.strengths, self.starts)

    def improves(self, name: str, factor: float) -> bool:
        """Multiply this group's strength if that helps."""
        tried = self.strengths | {name: self.strengths[name] * factor}
        if not LEAST_STRENGTH * 0.99 < tried[name] < MOST_STRENGTH * 1.01:
            return False
        loss, solutions = self._held_out(tried, self.solutions)
        if loss > self.loss - LEAST_GAIN:
            return False
        self.strengths, self.loss, self.solutions = tried, loss, solutions
        return True

    def held_out_logits(self) -> np.ndarray:
        """(rows, classes) of every row without its fold; zeros if all rows are of one fold."""
        logits = np.zeros((len(self.targets), self.n_classes))
        for (_, held_out), solved in zip(self.parts, self.solutions, strict=True):
            logits[held_out] = self.columns[held_out] @ solved[:-1] + solved[-1]
        return logits

    def solve(self, rows: np.ndarray, strengths: Mapping[str, float], steps: int) -> np.ndarray:
        """(columns + 1, classes) of the standardised columns, fitted to these rows."""
        start = self._tied(rows)
        return self._solved(rows, strengths, steps, start, start)

    def _tied(self, rows: np.ndarray) -> np.ndarray:
        start = fit_tied(self.given[rows], self.blocks, self.targets[rows], self.n_classes)
        start[:-1] *= self.spread[:, None]
        return start

    def _solved(
        self, rows: np.ndarray, strengths: Mapping[str, float], steps: int, start: np.ndarray, first: np.ndarray
    ) -> np.ndarray:
        per_column = np.ones(self.columns.shape[1])
        for name, group in self.groups.items():
            per_column[group] = strengths[name]
        given = self.columns[rows]
        return regress(given, given.T, self.targets[rows], start, per_column, steps, first)

    def _held_out(self, strengths: Mapping[str, float], first: Sequence[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        """Summed −log p of every row, by the regression without its fold; and these regressions, to begin the next."""
        loss, solutions = 0.0, []
        for (fitted, held_out), start, begin in zip(self.parts, self.starts, first, strict=True):
            solved = self._solved(fitted, strengths, SEARCH_STEPS, start, begin)
            logits = self.columns[held_out] @ solved[:-1] + solved[-1]
            loss += log_loss(logits, self.targets[held_out]) * len(held_out)
            solutions.append(solved.astype(np.float64))
        return loss, solutions
