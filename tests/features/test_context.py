"""Log-odds of a text among others: against scikit-learn on means written out, and never from labels of the own fold."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from saft.data.network import HIDDEN
from saft.features import fold_regressions
from saft.features.context import PRIOR, ContextModel, mean_of_others
from saft.features.folds import FOLDS, VIEWS, fold_of_rows

N, KNOWN, DEPTHS, WIDTH, CLASSES = 120, 90, 2, 3, 3


@pytest.fixture(scope="module")
def nodes() -> tuple[np.ndarray, np.ndarray]:
    """Users and items of every interaction; some have one alone."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 40, N), rng.integers(0, 15, N)


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return (np.random.default_rng(1).normal(size=(N, DEPTHS, WIDTH)) + 3).astype(np.float32)


@pytest.fixture(scope="module")
def labels(vectors, nodes) -> np.ndarray:
    """The own text decides, and more so the other texts of the item."""
    around = literal_means(nodes[1], (vectors - vectors.mean(axis=0))[:, -1])
    labels = (vectors[:, 0] - vectors[:, 0].mean(axis=0) + 6 * around).argmax(axis=1).astype(np.int32)
    labels[KNOWN:] = HIDDEN
    return labels


@pytest.fixture(scope="module")
def folds() -> np.ndarray:
    return fold_of_rows(N, 3)


def literal_means(nodes, vectors) -> np.ndarray:
    found = np.zeros_like(vectors)
    for row, node in enumerate(nodes):
        others = [other for other in range(len(nodes)) if nodes[other] == node and other != row]
        found[row] = sum((vectors[other] for other in others), np.zeros(vectors.shape[1])) / (len(others) + PRIOR)
    return found


def fitted(vectors, nodes, labels, folds) -> ContextModel:
    return ContextModel.fit(vectors, nodes, labels, CLASSES, folds, seed=2)


def log_odds(parts, nodes) -> np.ndarray:
    """(texts, classes) of all texts, from what each of them says and carries."""
    own, to_users, to_items = np.split(parts.astype(np.float64), 3, axis=1)
    return own + literal_means(nodes[0], to_users) + literal_means(nodes[1], to_items)


def test_means_of_others_are_those_of_a_loop(nodes, vectors):
    for side in nodes:
        np.testing.assert_allclose(mean_of_others(side, vectors[:, 0]), literal_means(side, vectors[:, 0]), atol=1e-5)
    assert mean_of_others(nodes[0][:0], vectors[:0, 0]).shape == (0, WIDTH)


def test_log_odds_of_every_view_are_those_of_scikit_learn_without_its_fold(monkeypatch, vectors, nodes, labels, folds):
    monkeypatch.setattr(fold_regressions, "STRENGTHS", (0.03,))
    monkeypatch.setattr(fold_regressions, "STEPS", 1_000)
    found = fitted(vectors, nodes, labels, folds).fitted_parts
    assert found.shape == (VIEWS, N, 3 * CLASSES)
    centred = (vectors - vectors.mean(axis=0)).astype(np.float64)
    means = [literal_means(side, centred[:, -1]) for side in nodes]
    columns = np.hstack([centred.reshape(N, -1), *means])
    columns /= columns.std(axis=0)
    for view in range(VIEWS):
        rows = np.flatnonzero((labels != HIDDEN) & (folds != view))
        model = LogisticRegression(C=0.03, max_iter=1_000, tol=1e-7).fit(columns[rows], labels[rows])
        shares = (np.bincount(labels[rows], minlength=CLASSES) + 1) / (len(rows) + CLASSES)
        expected = model.predict_log_proba(columns) - np.log(shares)
        expected -= expected.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(log_odds(found[view], nodes), expected, atol=5e-3)


def test_texts_of_others_tell_what_the_own_text_does_not(vectors, nodes, labels, folds):
    model = fitted(vectors, nodes, labels, folds)
    truth = labels[:KNOWN]
    own = np.array([model.fitted_parts[folds[row], row, :CLASSES].argmax() for row in range(KNOWN)])
    among = np.array([log_odds(model.fitted_parts[folds[row]], nodes)[row].argmax() for row in range(KNOWN)])
    assert (among == truth).mean() > (own == truth).mean() + 0.1


def test_labels_of_a_fold_do_not_reach_the_view_without_it(vectors, nodes, labels, folds):
    first = fitted(vectors, nodes, labels, folds).fitted_parts
    for fold in range(FOLDS):
        mates = np.flatnonzero((folds == fold) & (labels != HIDDEN))
        changed = labels.copy()
        changed[mates] = (changed[mates] + 1) % CLASSES
        second = fitted(vectors, nodes, changed, folds).fitted_parts
        np.testing.assert_array_equal(first[fold], second[fold])
        assert (first[(fold + 1) % FOLDS] != second[(fold + 1) % FOLDS]).any()


def test_what_new_texts_say_is_that_of_the_last_view(vectors, nodes, labels, folds):
    model = fitted(vectors, nodes, labels, folds)
    np.testing.assert_allclose(model.parts(vectors), model.fitted_parts[FOLDS], atol=1e-6)
    carried = model.parts(vectors.mean(axis=0)[None])[0, CLASSES:]
    np.testing.assert_allclose(carried, 0, atol=1e-5)  # the average text tells others nothing


@pytest.mark.parametrize("known", [0, 1, 2, 9])
def test_a_few_labels_are_enough(vectors, nodes, labels, folds, known):
    few = np.where(np.arange(N) < known, labels, HIDDEN)
    assert np.isfinite(fitted(vectors, nodes, few, folds).fitted_parts).all()
