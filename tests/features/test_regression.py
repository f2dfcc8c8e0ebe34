"""Logistic regression against scikit-learn's, and against its objective written out."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from saft.features.regression import regress

N, COLUMNS = 120, 4


@pytest.fixture(params=[2, 3])
def problem(request) -> tuple[np.ndarray, np.ndarray, int]:
    """(rows, targets, classes); the rows separate the classes mostly, not wholly."""
    rng = np.random.default_rng(request.param)
    targets = rng.integers(0, request.param, N)
    rows = rng.normal(size=(N, COLUMNS)) + 0.8 * np.eye(request.param, COLUMNS)[targets]
    return rows.astype(np.float32), targets, request.param


def solved(rows, targets, start, strength):
    tensor = torch.from_numpy(rows)
    return regress(tensor, tensor.T, targets, start, strength, steps=500)


def literal_loss(both, rows, targets, start, strength) -> float:
    total = 0.0
    for row, target in zip(rows.astype(np.float64), targets, strict=True):
        total -= log_softmax(row @ both[:-1] + both[-1])[target]
    return total / len(rows) + ((both[:-1] - start[:-1]) ** 2).sum() / (2 * strength * len(rows))


@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_from_zero_the_solution_is_that_of_scikit_learn(problem, strength):
    rows, targets, n_classes = problem
    found = solved(rows, targets, np.zeros((COLUMNS + 1, n_classes)), strength)
    # For two classes scikit-learn has one vector of weights where we have two of half its size.
    model = LogisticRegression(C=strength * (2 if n_classes == 2 else 1), max_iter=1_000, tol=1e-8).fit(rows, targets)
    np.testing.assert_allclose(
        log_softmax(rows @ found[:-1] + found[-1], axis=1), model.predict_log_proba(rows), atol=2e-3
    )


def test_no_small_step_from_the_solution_makes_the_objective_smaller(problem):
    rows, targets, n_classes = problem
    rng = np.random.default_rng(0)
    start = rng.normal(size=(COLUMNS + 1, n_classes))
    found = solved(rows, targets, start, 0.5).astype(np.float64)
    least = literal_loss(found, rows, targets, start, 0.5)
    assert least < literal_loss(start, rows, targets, start, 0.5) - 0.01
    for _ in range(50):
        step = rng.normal(scale=0.05, size=found.shape)
        assert literal_loss(found + step, rows, targets, start, 0.5) > least


def test_the_less_strength_the_nearer_to_where_it_started(problem):
    rows, targets, n_classes = problem
    start = np.ones((COLUMNS + 1, n_classes)) * np.arange(n_classes)
    away = [np.abs(solved(rows, targets, start, strength)[:-1] - start[:-1]).max() for strength in (1e-4, 0.1, 10.0)]
    assert away[0] < 0.01 < away[1] < away[2]


def test_sparse_rows_give_the_same_solution(problem):
    rows, targets, n_classes = problem
    rows = np.where(np.abs(rows) < 0.5, 0, rows)
    start = np.zeros((COLUMNS + 1, n_classes))
    sparse = torch.from_numpy(rows).to_sparse()
    found = regress(sparse, sparse.T, targets, start, 1.0, steps=500)
    np.testing.assert_allclose(found, solved(rows, targets, start, 1.0), atol=1e-3)
