"""Correct and Smooth against matrices and loops over rows; a row's own label is not in its own answer."""

from types import SimpleNamespace

import numpy as np
import pytest

import saft
from saft.data.network import HIDDEN
from saft.features.folds import FOLDS, NO_FOLD
from saft.features.style import NUMBERS
from saft.methods import find
from saft.methods._line_graph import LineGraph
from saft.methods.correct_smooth import AUTO, Correction, Spreading, normalised, rounds
from saft.metrics import macro_f1

N_CLASSES = 3


@pytest.fixture
def given():
    """40 rows, the last alone with its user and its item; some labels are hidden, the last rows have no fold."""
    rng = np.random.default_rng(0)
    users, items = np.append(rng.integers(6, size=39), 6), np.append(rng.integers(5, size=39), 5)
    labels = np.where(rng.random(40) < 0.6, rng.integers(N_CLASSES, size=40), HIDDEN)
    folds = np.append(rng.integers(FOLDS, size=36), [NO_FOLD] * 4)
    labels[36:] = HIDDEN
    base = rng.dirichlet(np.ones(N_CLASSES), size=40)
    return SimpleNamespace(users=users, items=items, n_users=7, n_items=6, labels=labels, folds=folds, base=base)


def spreading(given) -> Spreading:
    return Spreading.of_rows(LineGraph.of(given), given.base, given.labels, given.folds)


def operator(given) -> np.ndarray:
    """S, entry by entry."""
    n = len(given.users)
    adjacency = np.zeros((n, n))
    for e in range(n):
        for other in range(n):
            if e != other:
                adjacency[e, other] += given.users[e] == given.users[other]
                adjacency[e, other] += given.items[e] == given.items[other]
    degrees = np.maximum(adjacency.sum(axis=1), 1)
    return adjacency / np.sqrt(degrees[:, None] * degrees)


def sources(given, row: int) -> list[int]:
    """Rows whose labels may be seen when this one is predicted."""
    labelled = np.flatnonzero(given.labels != HIDDEN).tolist()
    return [e for e in labelled if row not in labelled or given.folds[e] != given.folds[row]]


def corrected(given, known: list[int], correction: Correction) -> np.ndarray:
    """(rows, classes) after the first step, with these sources."""
    s, answers, errors = operator(given), given.base.copy(), np.zeros_like(given.base)
    for e in known:
        errors[e] = np.eye(N_CLASSES)[given.labels[e]] - given.base[e]
    spread = errors.copy()
    for _ in range(rounds(correction.reach)):
        spread = (1 - correction.reach) * errors + correction.reach * s @ spread
        if correction.scale != AUTO:
            spread[known] = errors[known]
    for e in range(len(answers)):
        size = np.abs(spread[e]).sum()
        if correction.scale != AUTO:
            answers[e] += correction.scale * spread[e]
        elif size > 0:
            answers[e] += np.mean([np.abs(errors[k]).sum() for k in known]) * spread[e] / size
    return answers


def written_out(given, correction: Correction | None, smoothing: float) -> np.ndarray:
    """(rows, classes): every row by itself, from what it may see."""
    s, result = operator(given), []
    for row in range(len(given.users)):
        known = sources(given, row)
        start = given.base.copy() if correction is None else corrected(given, known, correction)
        start[known] = np.eye(N_CLASSES)[given.labels[known]]
        answers = start
        for _ in range(rounds(smoothing)):
            answers = (1 - smoothing) * start + smoothing * s @ answers
        result.append(answers[row])
    return np.array(result)


@pytest.mark.parametrize("correction", [None, Correction(0.8, AUTO), Correction(0.5, 2.0)], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_both_steps_are_the_formulas_written_out_row_by_row(given, correction, smoothing):
    steps = spreading(given)
    found = steps.of(steps.smoothed(steps.corrected(correction), smoothing), np.arange(40))
    np.testing.assert_allclose(found, written_out(given, correction, smoothing), atol=2e-5)


def test_the_own_label_of_a_row_is_in_none_of_the_answers_for_it_and_in_those_for_others(given):
    row = int(np.flatnonzero(given.labels != HIDDEN)[0])
    before = [steps.clone() for _, _, steps in spreading(given).candidates()]
    own, others = spreading(given), np.setdiff1d(np.arange(40), row)
    given.labels[row] = (given.labels[row] + 1) % N_CLASSES
    changed = False
    for one, (_, _, other) in zip(before, spreading(given).candidates(), strict=True):
        np.testing.assert_array_equal(own.of(one, np.array([row])), own.of(other, np.array([row])))
        changed |= bool(np.abs(own.of(one, others) - own.of(other, others)).max() > 1e-3)
    assert changed


def test_what_is_chosen_has_the_best_macro_f1_on_the_rows_with_known_labels(toy, toy_settings):
    parts = saft.split(toy, seed=0)
    method = find("correct_smooth").make(toy_settings).fit(toy.hiding(parts.test), parts.train, parts.valid)
    steps, rows = method._spreading(toy.showing(parts.train)), np.concatenate([parts.train, parts.valid])
    scores = {
        (correction, smoothing): macro_f1(toy.labels[rows], steps.of(found, rows).argmax(axis=1), 2)
        for correction, smoothing, found in steps.candidates()
    }
    assert scores[method.chosen_] == max(scores.values())
    assert next(iter(scores)) == (None, 0.0)


def test_the_base_reads_texts_and_nothing_of_the_graph(toy, toy_settings):
    method = find("correct_smooth").make(toy_settings)
    parts = saft.split(toy, seed=0)
    method.fit(toy.hiding(parts.test), parts.train, parts.valid)
    assert set(method.assembly.loader().evidence.groups()) == {"words", "style"}
    assert method.assembly.loader().side_features.shape[1] == 2 * 2 + len(NUMBERS)


def test_rounds_end_when_little_is_left_and_never_after_fifty():
    assert [rounds(share) for share in (0.0, 0.1, 0.5, 0.99)] == [0, 4, 14, 50]


def test_answers_become_probabilities_without_changing_which_is_largest():
    found = normalised(np.array([[-0.5, 1.0, 0.5], [0.2, 0.1, 0.1]]))
    np.testing.assert_allclose(found, [[0, 2 / 3, 1 / 3], [0.5, 0.25, 0.25]])
