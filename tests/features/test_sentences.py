"""Log-odds by sentence vectors: against scikit-learn, and never from labels of the own fold.

Covers: features.fold_regressions.
"""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from saft.data.network import HIDDEN
from saft.features import fold_regressions, sentences
from saft.features.folds import FOLDS, VIEWS, fold_of_rows
from saft.features.ngrams import LARGEST
from saft.features.sentences import SentenceModel

N, KNOWN, WIDTH, CLASSES = 200, 150, 6, 3


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Those of a class lie on one side, mostly; columns differ in place and spread."""
    rng = np.random.default_rng(0)
    around = np.eye(CLASSES, WIDTH)[np.arange(N) % CLASSES]
    return ((rng.normal(size=(N, WIDTH)) + around) * np.arange(1, WIDTH + 1) + 5).astype(np.float32)


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    """Of the first 150; the others are hidden."""
    labels = np.arange(N, dtype=np.int32) % CLASSES
    labels[KNOWN:] = HIDDEN
    return labels


@pytest.fixture(scope="module")
def folds() -> np.ndarray:
    return fold_of_rows(N, 7)


def deep(vectors) -> np.ndarray:
    """(texts, depths, width): the first half of the columns below the second."""
    return vectors.reshape(len(vectors), 2, -1)


def fitted(vectors, labels, folds) -> SentenceModel:
    return SentenceModel.fit(deep(vectors), labels, CLASSES, folds, seed=3)


def by_scikit_learn(vectors, labels, rows, strength) -> np.ndarray:
    """(texts, classes) log-odds by a regression to these rows."""
    columns = ((vectors - vectors.mean(axis=0)) / vectors.std(axis=0)).astype(np.float64)
    model = LogisticRegression(C=strength, max_iter=1_000, tol=1e-6).fit(columns[rows], labels[rows])
    shares = (np.bincount(labels[rows], minlength=CLASSES) + 1) / (len(rows) + CLASSES)
    return (model.predict_log_proba(columns) - np.log(shares)).clip(-LARGEST, LARGEST)


def test_log_odds_of_every_view_are_those_of_scikit_learn_without_its_fold(monkeypatch, vectors, labels, folds):
    monkeypatch.setattr(fold_regressions, "STRENGTHS", (0.03,))
    monkeypatch.setattr(fold_regressions, "STEPS", 1_000)
    found = fitted(vectors, labels, folds).fitted_log_odds
    assert found.shape == (VIEWS, N, CLASSES)
    for view in range(VIEWS):
        rows = np.flatnonzero((labels != HIDDEN) & (folds != view))
        np.testing.assert_allclose(found[view], by_scikit_learn(vectors, labels, rows, 0.03), atol=2e-3)


@pytest.mark.parametrize("many", [KNOWN, KNOWN + 1])
def test_the_strength_is_the_one_that_makes_held_out_rows_of_other_folds_likeliest(
    monkeypatch, vectors, labels, folds, many
):
    monkeypatch.setattr(fold_regressions, "MANY", many)
    monkeypatch.setattr(fold_regressions, "STRENGTHS", (1e-3, 3e-2, 1.0))
    monkeypatch.setattr(fold_regressions, "STEPS", 1_000)
    found = fitted(vectors, labels, folds).fitted_log_odds
    for view in range(VIEWS):
        others = [fold for fold in range(FOLDS) if fold != view]
        scored = others if many > KNOWN else [(view + 1) % FOLDS if view < FOLDS else 0]  # one is enough for many rows
        losses = []
        for strength in fold_regressions.STRENGTHS:
            loss = 0.0
            for fold in scored:
                rows = np.flatnonzero((labels != HIDDEN) & (folds != view) & (folds != fold))
                out = np.flatnonzero((labels != HIDDEN) & (folds == fold))
                shares = (np.bincount(labels[rows]) + 1) / (len(rows) + CLASSES)
                logits = by_scikit_learn(vectors, labels, rows, strength)[out] + np.log(shares)
                loss -= log_softmax(logits, axis=1)[np.arange(len(out)), labels[out]].sum()
            losses.append(loss)
        rows = np.flatnonzero((labels != HIDDEN) & (folds != view))
        best = fold_regressions.STRENGTHS[int(np.argmin(losses))]
        np.testing.assert_allclose(found[view], by_scikit_learn(vectors, labels, rows, best), atol=5e-3)


def test_labels_of_a_fold_do_not_reach_the_view_without_it(monkeypatch, vectors, labels, folds):
    """Not by the strength either: where classes are clear the largest is best, where labels are wrong a smaller one."""
    monkeypatch.setattr(fold_regressions, "STEPS", 30)
    monkeypatch.setattr(fold_regressions, "STRENGTHS", (1e-3, 1e-1, 10.0))
    clear = vectors + 30 * np.eye(CLASSES, WIDTH, dtype=np.float32)[np.arange(N) % CLASSES]
    first = fitted(clear, labels, folds).fitted_log_odds
    for fold in (0, 3):
        for mates in (np.flatnonzero(folds[:KNOWN] == fold), np.flatnonzero(folds[:KNOWN] == fold)[:1]):
            changed = labels.copy()
            changed[mates] = (changed[mates] + 1) % CLASSES
            second = fitted(clear, changed, folds).fitted_log_odds
            np.testing.assert_array_equal(first[fold], second[fold])
            assert (first[(fold + 1) % FOLDS] != second[(fold + 1) % FOLDS]).any()
            assert (first[FOLDS] != second[FOLDS]).any()


def test_log_odds_of_new_vectors_are_those_of_the_last_view(vectors, labels, folds):
    model = fitted(vectors, labels, folds)
    np.testing.assert_array_equal(model.log_odds(deep(vectors)), model.fitted_log_odds[FOLDS])
    unlabelled = model.fitted_log_odds[FOLDS, KNOWN:]
    assert (unlabelled.argmax(axis=1) == np.arange(KNOWN, N) % CLASSES).mean() > 0.5
    assert np.abs(model.log_odds(deep(vectors * 1e4))).max() == LARGEST


def test_directions_are_those_of_the_upper_depth_of_length_one_around_the_mean_of_all_texts(vectors, labels, folds):
    model = fitted(vectors, labels, folds)
    centred = (vectors - vectors.mean(axis=0))[:, WIDTH // 2 :]
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(model.directions(deep(vectors)), expected, atol=1e-6)
    np.testing.assert_allclose(model.fitted_directions, expected, atol=1e-3)
    assert model.fitted_directions.dtype == np.float16
    assert not model.directions(deep(vectors.mean(axis=0)[None])).any()  # it points nowhere


def test_the_same_seed_gives_the_same_log_odds(vectors, labels, folds):
    first, second = (fitted(vectors, labels, folds).fitted_log_odds for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("known", [0, 1, 2, 3, 9])
def test_a_few_labels_are_enough(vectors, labels, folds, known):
    few = np.where(np.arange(N) < known, labels, HIDDEN)
    model = fitted(vectors, few, folds)
    assert np.isfinite(model.fitted_log_odds).all()
    assert model.fitted_log_odds.any() == (known > 0)
    in_one_fold = np.where(folds == 2, labels, HIDDEN)
    found = fitted(vectors, in_one_fold, folds).fitted_log_odds
    assert not found[2].any()  # nothing is left to learn from
    assert found[FOLDS].any()


def test_of_many_rows_some_are_fitted_to(monkeypatch, vectors, labels, folds):
    monkeypatch.setattr(sentences, "MOST_FITTED", 60)
    whole = fitted(vectors, labels, folds)
    monkeypatch.setattr(sentences, "MOST_FITTED", KNOWN)
    assert (fitted(vectors, labels, folds).weights != whole.weights).any()
    assert whole.fitted_log_odds.shape == (VIEWS, N, CLASSES)
