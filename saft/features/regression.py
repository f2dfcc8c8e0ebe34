"""Multinomial logistic regression on rows of numbers, sparse or dense.

    mean of −log p(target) + Σ_columns ‖weights − start‖² / (2 C n),   p = softmax(row · weights + offset)

C may differ by column: :func:`fit_groups` chooses it for groups of columns by cross-validated likelihood.
(Scikit-learn's has the same objective for one C and a start of zero, but importing it takes as long as fitting.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import torch
from scipy.optimize import minimize
from threadpoolctl import ThreadpoolController
from torch import Tensor

# Of the search of strengths: where it begins, within which limits, by which factors, and how many nats a step has to
# gain over all rows; less is what chance gives where rows are few (docs/experiments.md).
FIRST_STRENGTH, LEAST_STRENGTH, MOST_STRENGTH, LEAST_GAIN = 1 / 30, 1e-5, 0.1, 1.5
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
        logs = _log_softmax(_product(rows, both[:-1].astype(np.float32)) + both[-1])
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
    with _threads().limit(limits=1, user_api="blas"):
        found = minimize(objective, begin.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return found.x.reshape(-1, n_classes).astype(np.float32)


@cache
def _threads() -> ThreadpoolController:
    """Made once: to find the libraries takes as long as a small fit."""
    return ThreadpoolController()


def _product(rows: Tensor | np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Sparse ones by torch, which takes a third of scipy's time; dense ones are too small to share among threads."""
    return rows @ columns if isinstance(rows, np.ndarray) else (rows @ torch.from_numpy(columns)).numpy()


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def log_loss(logits: np.ndarray, targets: np.ndarray) -> float:
    """Mean −log p(target)."""
    return float(-_log_softmax(logits)[np.arange(len(targets)), targets].mean())


def fit_groups(
    columns: np.ndarray,
    groups: Mapping[str, slice],
    targets: np.ndarray,
    n_classes: int,
    folds: np.ndarray,
    first: Mapping[str, float],
) -> tuple[np.ndarray, dict[str, float]]:
    """(columns + 1, classes) weights and offsets, and the strength of each group.

    One strength for all would let a wide group of weak columns drown a narrow one of strong ones. Strengths are
    searched one group at a time, each as long as held-out rows become more likely by more than chance would have it.

    Args:
        columns: (rows, columns) as they will be given to the result; they are standardised here.
        targets: (rows,).
        folds: (rows,) of each.
        first: group → strength that the search begins with, where it is not FIRST_STRENGTH.
    """
    spread = columns.std(axis=0)
    spread = np.where(spread > 1e-6, spread, 1.0).astype(np.float32)
    search = _StrengthSearch(columns / spread, groups, targets, n_classes, folds, first)
    for name in groups:
        for factor in FACTORS:
            while search.improves(name, factor):
                pass
    solved = search.solve(np.arange(len(targets)), search.strengths, FINAL_STEPS)
    solved[:-1] /= spread[:, None]
    return solved, search.strengths


class _StrengthSearch:
    """Strengths of groups of columns, and how likely they make the rows of held-out folds."""

    def __init__(
        self,
        columns: np.ndarray,
        groups: Mapping[str, slice],
        targets: np.ndarray,
        n_classes: int,
        folds: np.ndarray,
        first: Mapping[str, float],
    ) -> None:
        self.columns, self.groups, self.targets, self.n_classes = columns, groups, targets, n_classes
        parts = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in np.unique(folds)]
        self.parts = [part for part in parts if len(part[0])]  # none if all rows are of one fold
        self.strengths = {name: first.get(name, FIRST_STRENGTH) for name in groups}
        self.loss, self.solutions = self._held_out(self.strengths, [None] * len(self.parts))

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

    def solve(
        self, rows: np.ndarray, strengths: Mapping[str, float], steps: int, first: np.ndarray | None = None
    ) -> np.ndarray:
        per_column = np.ones(self.columns.shape[1])
        for name, group in self.groups.items():
            per_column[group] = strengths[name]
        counts = np.bincount(self.targets[rows], minlength=self.n_classes) + 1
        start = np.zeros((self.columns.shape[1] + 1, self.n_classes))
        start[-1] = np.log(counts / counts.sum())
        given = self.columns[rows]
        return regress(given, given.T, self.targets[rows], start, per_column, steps, first)

    def _held_out(
        self, strengths: Mapping[str, float], first: Sequence[np.ndarray | None]
    ) -> tuple[float, list[np.ndarray | None]]:
        """Summed −log p of every row, by the regression without its fold; and these regressions, to begin the next."""
        loss, solutions = 0.0, list[np.ndarray | None]()
        for (fitted, held_out), begin in zip(self.parts, first, strict=True):
            solved = self.solve(fitted, strengths, SEARCH_STEPS, begin)
            logits = self.columns[held_out] @ solved[:-1] + solved[-1]
            loss += log_loss(logits, self.targets[held_out]) * len(held_out)
            solutions.append(solved.astype(np.float64))
        return loss, solutions
