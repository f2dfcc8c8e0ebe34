"""A network as numbers: the same for the rows it begins with, whatever is joined to it.

Covers: features.arrays.
"""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import saft
from saft.data.joining import join
from saft.features.arrays import Features
from saft.features.featurizer import Featurizer
from saft.features.folds import FOLDS, NO_FOLD, VIEWS, fold_of_rows
from saft.features.tokens import load_tokenizer
from saft.settings import Settings


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(300)


def word_counts(tokens) -> np.ndarray:
    """(texts, 1, 20) how often each of the commonest tokens occurs: in place of the vectors of frozen layers."""
    pieces = np.split(tokens.flat, tokens.starts[1:-1]) if len(tokens) else []
    return np.array([np.bincount(piece, minlength=24)[4:24] for piece in pieces], np.float32).reshape(-1, 1, 20)


def fitted(network, settings, **changes) -> tuple[Featurizer, Features]:
    chosen = Settings.of(settings | changes)
    tokenizer = None if chosen.encoder == "none" else load_tokenizer(chosen.encoder)
    featurizer = Featurizer(chosen, tokenizer, None if tokenizer is None else word_counts)
    return featurizer, featurizer.fit_transform(network)


def test_rows_that_are_joined_do_not_change_what_was_read(network, tiny_settings):
    reads, known = fitted(network, tiny_settings, nodes="gaussian")
    rows = [{"user": "new", "item": network.item_ids[0], "text": "lovely"}, {"user": "new", "item": "x", "text": ""}]
    with pytest.warns(saft.InputWarning):
        joined = join(network, saft.read(rows, labelled=False))
    both = reads.transform(joined, known)
    assert len(both) == 302
    assert (both.n_users, both.n_items) == (network.n_users + 1, network.n_items + 1)
    for role, vectors in both.structure.items():
        np.testing.assert_array_equal(vectors[:300], known.structure[role])
        assert vectors[300].any()
    np.testing.assert_array_equal(both.user_vectors[:-1], known.user_vectors)
    assert not both.user_vectors[-1].any()  # of a user that training did not know
    assert both.tokens.lengths[300:].tolist() == [3, 2]
    np.testing.assert_array_equal(both.log_odds[:, :300], known.log_odds)
    np.testing.assert_array_equal(both.vectors[:300], known.vectors)
    np.testing.assert_array_equal(both.folds, [*known.folds, NO_FOLD, NO_FOLD])
    assert both.log_odds[:, 300].any(axis=1).all()
    assert (both.log_odds[:, 300:] == both.log_odds[FOLDS, 300:]).all()  # no reader has seen their labels
    assert np.linalg.norm(both.vectors[300]) == pytest.approx(1, abs=1e-6)


def test_the_network_of_training_is_transformed_to_what_was_fitted(network, tiny_settings):
    """As when a model is loaded: log-odds and vectors are those of ``fit``, not computed anew."""
    reads, known = fitted(network, tiny_settings)
    again = Featurizer.restored(reads.settings, reads.tokenizer, reads.state_, word_counts).transform(network)
    for name in ("log_odds", "vectors", "folds", "user_vectors", "item_slots"):
        np.testing.assert_array_equal(getattr(again, name), getattr(known, name))
    np.testing.assert_array_equal(again.structure["distance"], known.structure["distance"])
    np.testing.assert_array_equal(again.tokens.flat, known.tokens.flat)


def test_texts_are_read_the_same_alone_and_with_all_others(network, tiny_settings):
    reads, known = fitted(network, tiny_settings)
    part = reads.read_texts(network.texts[7:12], 7)
    np.testing.assert_array_equal(part.log_odds, known.log_odds[:, 7:12])
    np.testing.assert_array_equal(part.vectors, known.vectors[7:12])
    unknown = reads.read_texts(network.texts[7:12])
    np.testing.assert_allclose(unknown.vectors, known.vectors[7:12], atol=1e-3)  # those of fit are in half precision
    np.testing.assert_allclose(unknown.log_odds[0], known.log_odds[FOLDS, 7:12], atol=1e-5)
    over_the_end = reads.read_texts(network.texts[298:].extend(network.texts[:1]), 298)
    np.testing.assert_array_equal(over_the_end.log_odds[:, :2], known.log_odds[:, 298:])
    assert over_the_end.log_odds.shape[1] == len(over_the_end.vectors) == 3


def test_folds_are_those_of_the_rows_and_the_seed(network, tiny_settings):
    _, known = fitted(network, tiny_settings, seed=4)
    np.testing.assert_array_equal(known.folds, fold_of_rows(300, 4))


def test_log_odds_are_those_of_both_readers_one_after_the_other(network, tiny_settings):
    reads, known = fitted(network, tiny_settings)
    assert known.log_odds.shape == (VIEWS, 300, 2 * network.n_classes)
    np.testing.assert_array_equal(known.log_odds[:, :, :3], reads.state_.ngrams.fitted_log_odds)
    np.testing.assert_array_equal(known.log_odds[:, :, 3:], reads.state_.sentences.fitted_log_odds)
    assert known.vectors.shape == (300, 20)


def test_without_words_every_text_is_empty(network, tiny_settings):
    assert set(fitted(network, tiny_settings, words=False)[1].tokens.lengths) == {2}


def test_without_an_encoder_there_are_no_tokens(network, tiny_settings):
    reads, known = fitted(network, tiny_settings, encoder="none")
    assert set(known.tokens.lengths) == {0}
    assert known.log_odds.shape == (VIEWS, 300, network.n_classes)
    assert reads.read_texts(network.texts[:3]).tokens.lengths.tolist() == [0, 0, 0]


def test_attributes_stand_for_nodes_where_they_are_given(network, tiny_settings):
    _, features = fitted(network, tiny_settings, nodes="gaussian")
    assert features.user_vectors.shape[1] == tiny_settings["node_dim"]  # nothing is known of users
    categories = network.item_attributes.unique().height
    assert features.item_vectors.shape[1] == categories + 1  # one column for missing ones
    assert fitted(network, tiny_settings, nodes="trained")[1].user_vectors.shape[1] == 0


def test_nothing_but_the_readers_of_texts_looks_at_labels(network, tiny_settings):
    hidden = network.hiding(np.arange(len(network)))
    (_, first), (_, second) = (fitted(given, tiny_settings) for given in (network, hidden))
    np.testing.assert_array_equal(first.structure["distance"], second.structure["distance"])
    np.testing.assert_array_equal(first.tokens.flat, second.tokens.flat)
    np.testing.assert_array_equal(first.user_vectors, second.user_vectors)
    np.testing.assert_array_equal(first.vectors, second.vectors)
    np.testing.assert_array_equal(first.folds, second.folds)
    assert first.log_odds.any(axis=(0, 1)).all()
    assert not second.log_odds.any()


@pytest.mark.parametrize(
    ("changes", "readers", "width"),
    [({"words": False}, 0, 0), ({"ngrams": False}, 1, 20), ({"sentences": False}, 1, 0), ({}, 2, 20)],
)
def test_a_reader_that_is_switched_off_says_nothing(network, tiny_settings, changes, readers, width):
    _, known = fitted(network, tiny_settings, **changes)
    assert known.log_odds.shape == (VIEWS, 300, readers * network.n_classes)
    assert known.vectors.shape == (300, width)


def test_a_profile_is_attributes_and_degree_and_no_name(network, tiny_settings):
    reads, features = fitted(network, tiny_settings, nodes="profile")
    for nodes, degrees, activity in (
        (network.users, network.user_degrees, features.user_vectors[:, 0]),
        (network.items, network.item_degrees, features.item_vectors[:, -1]),
    ):
        logs = np.log1p(degrees)[nodes]  # one entry per interaction
        expected = (np.log1p(degrees) - logs.mean()) / logs.std()
        np.testing.assert_allclose(activity, expected, atol=1e-5)
    assert not reads.new_node_vectors("user", pl.Series(["new"]), None).any()  # as if of average activity
    attributes = fitted(network, tiny_settings, nodes="trained")[1].item_vectors
    np.testing.assert_array_equal(features.item_vectors[:, :-1], attributes)
    renamed = replace(network, user_ids=pl.Series([f"x{number}" for number in range(network.n_users)]))
    np.testing.assert_array_equal(reads.transform(renamed).user_vectors, features.user_vectors)


@pytest.mark.parametrize("nodes", ["profile", "gaussian", "trained"])
def test_vectors_and_slots_of_unknown_nodes_do_not_depend_on_their_names(network, tiny_settings, nodes):
    reads, known = fitted(network, tiny_settings, nodes=nodes)
    for side in ("user", "item"):
        vectors = reads.new_node_vectors(side, pl.Series(["a", "b", "c"]), None)
        np.testing.assert_array_equal(vectors, vectors[:1].repeat(3, axis=0))
    rows = [{"user": name, "item": name, "text": "lovely"} for name in ("a", "b")]
    joined = reads.transform(join(network, saft.read(rows, labelled=False)), known)
    for vectors, slots in ((joined.user_vectors, joined.user_slots), (joined.item_vectors, joined.item_slots)):
        np.testing.assert_array_equal(vectors[-1], vectors[-2])
        assert slots[-2:].tolist() == [0, 0]
