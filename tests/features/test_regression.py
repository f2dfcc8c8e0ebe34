"""Logistic regression against scikit-learn's, and against its objective written out; strengths of groups of columns."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from saft.features import regression
from saft.features.regression import fit_groups, fit_tied, log_loss, regress

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
    pulled = ((both[:-1] - start[:-1]) ** 2).sum(axis=1) / (2 * np.broadcast_to(strength, COLUMNS) * len(rows))
    return total / len(rows) + pulled.sum()


@pytest.mark.parametrize("strength", [0.1, 3.0])
def test_from_zero_the_solution_is_that_of_scikit_learn(problem, strength):
    rows, targets, n_classes = problem
    found = solved(rows, targets, np.zeros((COLUMNS + 1, n_classes)), strength)
    # For two classes scikit-learn has one vector of weights where we have two of half its size.
    model = LogisticRegression(C=strength * (2 if n_classes == 2 else 1), max_iter=1_000, tol=1e-8).fit(rows, targets)
    np.testing.assert_allclose(
        log_softmax(rows @ found[:-1] + found[-1], axis=1), model.predict_log_proba(rows), atol=2e-3
    )


@pytest.mark.parametrize("strength", [0.5, np.array([0.01, 0.3, 1.0, 10.0])])
def test_no_small_step_from_the_solution_makes_the_objective_smaller(problem, strength):
    """With one strength, and with one for every column."""
    rows, targets, n_classes = problem
    rng = np.random.default_rng(0)
    start = rng.normal(size=(COLUMNS + 1, n_classes))
    found = solved(rows, targets, start, strength).astype(np.float64)
    least = literal_loss(found, rows, targets, start, strength)
    assert least < literal_loss(start, rows, targets, start, strength) - 0.01
    for _ in range(50):
        step = rng.normal(scale=0.05, size=found.shape)
        assert literal_loss(found + step, rows, targets, start, strength) > least


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


def test_where_the_solver_begins_does_not_change_the_solution(problem):
    rows, targets, n_classes = problem
    start = np.zeros((COLUMNS + 1, n_classes))
    tensor = torch.from_numpy(rows)
    elsewhere = regress(tensor, tensor.T, targets, start, 0.3, steps=500, first=start + 0.5)
    whole = solved(rows, targets, start, 0.3)
    np.testing.assert_allclose(elsewhere[:-1], whole[:-1], atol=2e-3)


def test_the_loss_is_the_mean_of_minus_the_log_probability():
    logits, targets = np.random.default_rng(0).normal(size=(9, 3)), np.arange(9) % 3
    expected = -sum(log_softmax(row)[target] for row, target in zip(logits, targets, strict=True)) / 9
    assert log_loss(logits, targets) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("strength", [0.02, 0.1])
def test_one_group_of_a_fixed_strength_is_scikit_learns_regression_on_standardised_columns(
    monkeypatch, problem, strength
):
    rows, targets, n_classes = problem
    rows = rows * np.array([1, 10, 0.1, 5], np.float32) + 2
    monkeypatch.setattr(regression, "LEAST_GAIN", np.inf)  # no other strength is ever better
    monkeypatch.setattr(regression, "FINAL_STEPS", 500)
    monkeypatch.setattr(regression, "FIRST_STRENGTH", strength)
    fitted = fit_groups(rows, {"all": slice(0, 4)}, [], targets, n_classes, np.arange(N) % 5)
    found = fitted.weights
    assert fitted.strengths == {"all": strength}
    spread = rows.std(axis=0)
    model = LogisticRegression(C=strength * (2 if n_classes == 2 else 1), max_iter=1_000, tol=1e-6)
    model.fit((rows / spread).astype(np.float64), targets)
    np.testing.assert_allclose(
        log_softmax(rows @ found[:-1] + found[-1], axis=1), model.predict_log_proba(rows / spread), atol=1e-2
    )


def held_out_loss(columns, groups, targets, folds, strengths) -> float:
    """Summed over all rows, each by scikit-learn without its fold; groups of columns scaled instead of strengths."""
    scale = np.ones(columns.shape[1])
    for name, group in groups.items():
        scale[group] = np.sqrt(strengths[name])
    scaled, loss = columns / columns.std(axis=0) * scale, 0.0
    for fold in np.unique(folds):
        rows, out = folds != fold, folds == fold
        model = LogisticRegression(C=1.0, max_iter=1_000, tol=1e-6).fit(scaled[rows], targets[rows])
        logs = model.predict_log_proba(scaled[out])
        loss -= logs[np.arange(out.sum()), targets[out]].sum()
    return loss


@pytest.fixture(scope="module")
def groups_of_columns() -> tuple[np.ndarray, dict[str, slice], np.ndarray, np.ndarray]:
    """(columns, groups, targets, folds): three strong columns, then sixty that say nothing."""
    rng = np.random.default_rng(1)
    targets = rng.integers(0, 3, 300)
    strong = rng.normal(size=(300, 3)) + 1.5 * np.eye(3)[targets]
    columns = np.hstack([strong, rng.normal(size=(300, 60))]).astype(np.float32)
    return columns, {"strong": slice(0, 3), "useless": slice(3, 63)}, targets, np.arange(300) % 5


def test_a_useless_wide_group_does_not_drown_a_strong_narrow_one(groups_of_columns):
    columns, groups, targets, folds = groups_of_columns
    fitted = fit_groups(columns, groups, [], targets, 3, folds)
    solved = fitted.weights
    assert fitted.strengths["useless"] < fitted.strengths["strong"] / 9
    assert np.abs(solved[3:-1]).max() < 0.2 * np.abs(solved[:3]).max()
    rng = np.random.default_rng(2)
    new_targets = rng.integers(0, 3, 2_000)
    new = np.hstack([rng.normal(size=(2_000, 3)) + 1.5 * np.eye(3)[new_targets], rng.normal(size=(2_000, 60))])
    alone = fit_groups(columns[:, :3], {"strong": slice(0, 3)}, [], targets, 3, folds).weights
    loss_with, loss_without = (
        log_loss(new[:, : len(both) - 1] @ both[:-1] + both[-1], new_targets) for both in (solved, alone)
    )
    assert loss_with < loss_without + 0.03


def test_strengths_end_where_no_step_makes_held_out_rows_likelier_by_more_than_chance(groups_of_columns):
    columns, groups, targets, folds = groups_of_columns
    strengths = fit_groups(columns, groups, [], targets, 3, folds).strengths
    begin = held_out_loss(columns, groups, targets, folds, dict.fromkeys(groups, regression.FIRST_STRENGTH))
    end = held_out_loss(columns, groups, targets, folds, strengths)
    assert end < begin - regression.LEAST_GAIN
    last = list(groups)[-1]  # those before it were settled while it had another strength
    for factor in regression.FACTORS:
        tried = strengths[last] * factor
        if regression.LEAST_STRENGTH < tried < regression.MOST_STRENGTH:
            assert held_out_loss(columns, groups, targets, folds, strengths | {last: tried}) > end - 2


def test_strengths_stay_within_their_limits(groups_of_columns):
    columns, _, targets, folds = groups_of_columns
    certain = np.hstack([columns[:, :3], 9 * np.eye(3, dtype=np.float32)[targets]])
    strengths = fit_groups(certain, {"weak": slice(0, 3), "certain": slice(3, 6)}, [], targets, 3, folds).strengths
    assert strengths["certain"] <= regression.MOST_STRENGTH * 1.01
    assert all(strength >= regression.LEAST_STRENGTH * 0.99 for strength in strengths.values())


def test_held_out_logits_are_those_of_scikit_learns_regression_without_the_rows_fold(monkeypatch, problem):
    rows, targets, n_classes = problem
    monkeypatch.setattr(regression, "LEAST_GAIN", np.inf)  # no other strength is ever better
    monkeypatch.setattr(regression, "SEARCH_STEPS", 500)
    monkeypatch.setattr(regression, "FIRST_STRENGTH", 0.05)
    folds = np.arange(N) % 5
    fitted = fit_groups(rows, {"all": slice(0, 4)}, [], targets, n_classes, folds)
    standardised = (rows / rows.std(axis=0)).astype(np.float64)
    for fold in range(5):
        model = LogisticRegression(C=0.05 * (2 if n_classes == 2 else 1), max_iter=1_000, tol=1e-6)
        model.fit(standardised[folds != fold], targets[folds != fold])
        expected = model.predict_log_proba(standardised[folds == fold])
        np.testing.assert_allclose(log_softmax(fitted.held_out[folds == fold], axis=1), expected, atol=1e-2)


@pytest.mark.parametrize("blocks", [[], [slice(0, 3)]])
def test_held_out_logits_are_those_of_the_strengths_that_were_found(groups_of_columns, blocks):
    columns, groups, targets, folds = groups_of_columns
    fitted = fit_groups(columns, groups, blocks, targets, 3, folds)
    assert blocks or len(set(fitted.strengths.values())) > 1  # tied weights need no search
    spread = columns.std(axis=0)
    strength = np.repeat(list(fitted.strengths.values()), [3, 60])
    for fold in range(5):
        others = folds != fold
        start = fit_tied(columns[others], blocks, targets[others], 3) * np.append(spread, 1)[:, None]
        given = columns[others] / spread
        solved = regress(given, given.T, targets[others], start, strength, steps=500)
        expected = columns[~others] / spread @ solved[:-1] + solved[-1]
        np.testing.assert_allclose(
            log_softmax(fitted.held_out[~others], axis=1), log_softmax(expected, axis=1), atol=0.02
        )


def test_the_label_of_a_row_does_not_reach_its_held_out_logits(monkeypatch, groups_of_columns):
    columns, groups, targets, folds = groups_of_columns
    monkeypatch.setattr(regression, "LEAST_GAIN", np.inf)  # strengths are chosen by all labels, so they are fixed here
    before = fit_groups(columns, groups, [slice(0, 3)], targets, 3, folds).held_out
    flipped = np.where(folds == 2, (targets + 1) % 3, targets)
    moved = (fit_groups(columns, groups, [slice(0, 3)], flipped, 3, folds).held_out != before).any(axis=1)
    np.testing.assert_array_equal(moved, folds != 2)


@pytest.mark.parametrize("folds", [np.zeros(2), np.arange(2)])
def test_two_rows_are_enough_to_fit_groups(folds):
    columns = np.array([[0.0, 1.0], [1.0, 1.0]], np.float32)  # the second column is the same everywhere
    fitted = fit_groups(columns, {"both": slice(0, 2)}, [], np.array([0, 1]), 3, folds)
    assert np.isfinite(fitted.weights).all()
    assert fitted.weights.shape == (3, 3)
    assert fitted.strengths == {"both": regression.FIRST_STRENGTH}
    assert np.isfinite(fitted.held_out).all()
    assert fitted.held_out.shape == (2, 3)
    assert fitted.held_out.any() == (len(np.unique(folds)) > 1)  # else there is no regression without the fold


@pytest.fixture(scope="module")
def log_odds() -> tuple[np.ndarray, list[slice], np.ndarray]:
    """(columns, blocks, targets): a reader that knows much, one that knows little, one that is wrong; then a number."""
    rng = np.random.default_rng(4)
    targets = np.concatenate([np.arange(3), rng.integers(0, 3, 77)])
    truth = np.eye(3)[targets] - 1 / 3
    readers = [weight * truth + rng.normal(size=(80, 3)) for weight in (2.0, 0.5, -1.0)]
    columns = np.hstack([*readers, rng.normal(size=(80, 1))]).astype(np.float32)
    return columns, [slice(0, 3), slice(3, 6), slice(6, 9)], targets


def tied_loss(shared, offsets, columns, blocks, targets) -> float:
    total = 0.0
    for row, target in zip(columns.astype(np.float64), targets, strict=True):
        logits = [
            sum(weight * row[block][label] for weight, block in zip(shared, blocks, strict=True)) + offsets[label]
            for label in range(3)
        ]
        total -= log_softmax(logits)[target]
    return total / len(columns) + sum(weight**2 for weight in shared) / (2 * regression.TIED_STRENGTH * len(columns))


def test_tied_weights_are_one_number_for_each_block_the_best_that_is_not_negative(log_odds):
    columns, blocks, targets = log_odds
    found = fit_tied(columns, blocks, targets, 3)
    shared = []
    for block in blocks:
        shared.append(found[block][0, 0])
        np.testing.assert_array_equal(found[block], shared[-1] * np.eye(3))
    assert not found[9].any()  # outside of all blocks
    assert shared[0] > shared[1] > shared[2] == 0
    least, rng = tied_loss(shared, found[-1], columns, blocks, targets), np.random.default_rng(0)
    for _ in range(50):
        other = np.maximum(np.array(shared) + rng.normal(scale=0.05, size=3), 0)
        offsets = found[-1] + rng.normal(scale=0.05, size=3)
        assert tied_loss(other, offsets, columns, blocks, targets) > least - 1e-7


def test_few_rows_are_told_more_by_tied_weights_than_by_one_for_every_column_and_class(log_odds):
    columns, blocks, targets = log_odds
    groups, few, rest = {"readers": slice(0, 9), "number": slice(9, 10)}, slice(0, 24), slice(24, 80)
    losses = []
    for given in (blocks, []):
        solved = fit_groups(columns[few], groups, given, targets[few], 3, np.arange(24) % 5).weights
        losses.append(log_loss(columns[rest] @ solved[:-1] + solved[-1], targets[rest]))
    assert losses[0] < losses[1] - 0.1


def test_with_hardly_any_strength_groups_stay_at_the_tied_weights(monkeypatch, log_odds):
    columns, blocks, targets = log_odds
    monkeypatch.setattr(regression, "FIRST_STRENGTH", 1e-9)
    monkeypatch.setattr(regression, "LEAST_GAIN", np.inf)
    solved = fit_groups(columns, {"all": slice(0, 10)}, blocks, targets, 3, np.arange(80) % 5).weights
    np.testing.assert_allclose(solved[:-1], fit_tied(columns, blocks, targets, 3)[:-1], atol=1e-4)
