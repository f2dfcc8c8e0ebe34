"""N-grams by their hash and their log-odds, against spelling them out; log-odds leave out the row's own label."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

import saft
from saft.data.network import HIDDEN
from saft.features import ngrams
from saft.features.folds import FOLDS, VIEWS, fold_of_rows
from saft.features.ngrams import BITS, LARGEST, PARTS, STRENGTH, WORDS, NgramModel, SubstringHashes, count, weigh

HALF = 1 << BITS


def bucket(part: str) -> int:
    letters = np.frombuffer(part.encode("utf-32-le"), dtype=np.uint32)
    return int(SubstringHashes(letters).of(np.array([0]), np.array([len(letters)]))[0])


def by_hand(text: str) -> Counter[int]:
    """How often each bucket is hit, n-gram by n-gram."""
    words = text.lower().split()
    spelt = " " + " ".join(words) + " "
    found: Counter[int] = Counter()
    for n in WORDS:
        for start in range(max(len(words), 1) - n + 1):
            found[bucket(" " + " ".join(words[start : start + n]) + " ")] += 1
    for n in PARTS:
        for start in range(len(spelt) - n + 1):
            found[HALF + bucket(spelt[start : start + n])] += 1
    return found


@given(st.lists(st.text(alphabet="abA ,é영화\n\U0001f600", max_size=12), min_size=1, max_size=6))
def test_counts_are_those_of_spelling_every_n_gram_out(texts):
    counted = count(pl.Series(texts, dtype=pl.String))
    for row, text in enumerate(texts):
        found = {int(place): int(number) for place, number in zip(counted[row].indices, counted[row].data, strict=True)}
        assert found == dict(by_hand(text))


def test_many_texts_are_counted_as_few_are(monkeypatch):
    texts = saft.demo_network(300).texts
    whole = count(texts)
    monkeypatch.setattr(ngrams, "AT_ONCE", 7)
    assert (count(texts) != whole).nnz == 0


def test_different_n_grams_rarely_share_a_bucket():
    words = [f" {a}{b}{c} " for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyz0123"]
    assert len({bucket(word) for word in words}) > 985  # of 1,000; by chance 996 are expected


def test_weights_are_tf_idf_with_both_kinds_of_n_grams_of_length_one():
    counted = count(saft.demo_network(300).texts)
    rarity = np.log((1 + 300) / (1 + counted.getnnz(axis=0))).astype(np.float32) + 1
    weighed = weigh(counted, rarity)
    for half in (slice(0, HALF), slice(HALF, None)):
        expected = TfidfTransformer(sublinear_tf=True).fit_transform(counted[:, half])
        assert abs(weighed[:, half] - expected).max() < 1e-6


@pytest.fixture(scope="module", params=[2, 3])
def n_classes(request) -> int:
    return request.param


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(400)


@pytest.fixture(scope="module")
def labels(network, n_classes) -> np.ndarray:
    """Of the first 300; the others are hidden."""
    labels = (network.labels % n_classes).astype(np.int32)
    labels[300:] = HIDDEN
    return labels


def fitted(network, labels, n_classes, seed=3) -> NgramModel:
    return NgramModel.fit(network.texts, labels, n_classes, fold_of_rows(len(labels), seed), seed)


def test_log_odds_are_the_log_probability_minus_the_log_share(monkeypatch, network, labels, n_classes):
    monkeypatch.setattr(ngrams, "STEPS", 1_000)
    made = fitted(network, labels, n_classes)
    counted, folds = count(network.texts[:300]), fold_of_rows(400, 3)
    columns = np.flatnonzero(counted.getnnz(axis=0) > 1)
    weighed = weigh(count(network.texts), made.idf)[:, columns]
    for view in (0, 3, FOLDS):
        rows = np.flatnonzero((folds != view) & (labels != HIDDEN))
        # For two classes scikit-learn has one vector of weights where we have two of half its size.
        model = LogisticRegression(C=STRENGTH * (2 if n_classes == 2 else 1), max_iter=1_000, tol=1e-6)
        model.fit(weighed[rows], labels[rows])
        shares = (np.bincount(labels[rows]) + 1) / (len(rows) + n_classes)
        expected = (model.predict_log_proba(weighed) - np.log(shares)).clip(-LARGEST, LARGEST)
        np.testing.assert_allclose(made.fitted_log_odds[view], expected, atol=0.02)
    np.testing.assert_array_equal(made.fitted_log_odds[FOLDS], made.log_odds(network.texts))


def test_log_odds_of_texts_without_a_label_are_largest_for_their_class():
    words = ["splendid", "dreadful", "middling"]
    texts = pl.Series([f"number {number}: a {words[number % 3]} thing" for number in range(90)])
    labels = np.arange(90, dtype=np.int32) % 3
    known = np.where(np.arange(90) < 60, labels, HIDDEN)
    log_odds = NgramModel.fit(texts, known, 3, fold_of_rows(90, 0), seed=0).fitted_log_odds
    assert log_odds.shape == (VIEWS, 90, 3)
    assert (log_odds.argmax(axis=2) == labels).all()
    assert log_odds[:, np.arange(90), labels].min() > 0.3


def test_labels_of_a_fold_do_not_reach_the_view_without_it(network, labels, n_classes):
    first, folds = fitted(network, labels, n_classes).fitted_log_odds, fold_of_rows(400, 3)
    for fold in (0, 3):
        mates = np.flatnonzero((folds == fold) & (labels != HIDDEN))
        for some in (mates[:1], mates):
            flipped = labels.copy()
            flipped[some] = (flipped[some] + 1) % n_classes
            second = fitted(network, flipped, n_classes).fitted_log_odds
            np.testing.assert_array_equal(first[fold], second[fold])
            assert (first[(fold + 1) % FOLDS] != second[(fold + 1) % FOLDS]).any()  # others may change
            assert (first[FOLDS] != second[FOLDS]).any()


def test_labels_of_a_rare_class_do_not_reach_the_view_without_their_fold(network, labels, n_classes):
    """Where one row more or less decides whether a class is rare."""
    folds = fold_of_rows(400, 3)
    for number in (8, 9, 10):
        rare = labels.copy()
        rare[:number] = n_classes
        first = fitted(network, rare, n_classes + 1).fitted_log_odds
        flipped = rare.copy()
        flipped[0] = 0
        second = fitted(network, flipped, n_classes + 1).fitted_log_odds
        np.testing.assert_array_equal(first[folds[0]], second[folds[0]])


def test_the_same_seed_gives_the_same_log_odds(network, labels, n_classes):
    first, second = (fitted(network, labels, n_classes, seed=5).fitted_log_odds for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_of_many_rows_some_are_fitted_to(monkeypatch, network, labels, n_classes):
    whole = fitted(network, labels, n_classes)
    monkeypatch.setattr(ngrams, "MOST_FITTED", 200)
    some = fitted(network, labels, n_classes)
    assert (some.weights != whole.weights).any()
    assert some.fitted_log_odds.shape == whole.fitted_log_odds.shape


def test_log_odds_of_classes_with_few_rows_are_zero(network, labels, n_classes):
    rare = labels.copy()
    rare[:3] = n_classes
    made = fitted(network, rare, n_classes + 2)
    assert made.classes.tolist() == list(range(n_classes))
    assert not made.fitted_log_odds[:, :, n_classes:].any()
    assert made.fitted_log_odds[:, :3, :n_classes].any()


@pytest.mark.parametrize("known", [0, 5, 400])
def test_log_odds_are_zero_where_fewer_than_two_classes_are_known(network, known):
    labels = np.where(np.arange(400) < known, 0, HIDDEN).astype(np.int32)
    made = fitted(network, labels, 3)
    assert made.fitted_log_odds.shape == (VIEWS, 400, 3)
    assert not made.fitted_log_odds.any()
    assert not made.log_odds(network.texts[:4]).any()
