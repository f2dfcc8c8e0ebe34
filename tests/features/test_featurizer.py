"""A network as numbers: the same for the rows it begins with, whatever is joined to it."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import saft
from saft.data.joining import join
from saft.features.featurizer import Featurizer
from saft.features.tokens import load_tokenizer
from saft.settings import Settings


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(300)


def featurizer(network, settings, **changes) -> Featurizer:
    chosen = Settings.of(settings | changes)
    return Featurizer(chosen, load_tokenizer(chosen.encoder)).fit(network)


def test_rows_that_are_joined_do_not_change_what_was_read(network, tiny_settings):
    reads = featurizer(network, tiny_settings, nodes="gaussian")
    known = reads.transform(network)
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
    np.testing.assert_array_equal(both.ngram_log_odds[:300], known.ngram_log_odds)
    assert both.ngram_log_odds[300].any()
    np.testing.assert_array_equal(reads.transform(network).structure["distance"], known.structure["distance"])


def test_without_words_every_text_is_empty(network, tiny_settings):
    assert set(featurizer(network, tiny_settings, words=False).transform(network).tokens.lengths) == {2}


def test_attributes_stand_for_nodes_where_they_are_given(network, tiny_settings):
    features = featurizer(network, tiny_settings, nodes="gaussian").transform(network)
    assert features.user_vectors.shape[1] == tiny_settings["node_dim"]  # nothing is known of users
    categories = network.item_attributes.unique().height
    assert features.item_vectors.shape[1] == categories + 1  # one column for missing ones
    assert featurizer(network, tiny_settings, nodes="trained").transform(network).user_vectors.shape[1] == 0


def test_reading_looks_at_labels_for_phrases_only(network, tiny_settings):
    hidden = network.hiding(np.arange(len(network)))
    first, second = (featurizer(n, tiny_settings).transform(n) for n in (network, hidden))
    np.testing.assert_array_equal(first.structure["distance"], second.structure["distance"])
    np.testing.assert_array_equal(first.tokens.flat, second.tokens.flat)
    np.testing.assert_array_equal(first.user_vectors, second.user_vectors)
    assert first.ngram_log_odds.any()
    assert not second.ngram_log_odds.any()


def test_phrases_are_not_read_where_words_are_not(network, tiny_settings):
    for changes in ({"words": False}, {"ngrams": False}):
        assert featurizer(network, tiny_settings, **changes).transform(network).ngram_log_odds.shape == (300, 0)


def test_a_profile_is_attributes_and_degree_and_no_name(network, tiny_settings):
    fitted = featurizer(network, tiny_settings, nodes="profile")
    features = fitted.transform(network)
    for nodes, degrees, activity in (
        (network.users, network.user_degrees, features.user_vectors[:, 0]),
        (network.items, network.item_degrees, features.item_vectors[:, -1]),
    ):
        logs = np.log1p(degrees)[nodes]  # one entry per interaction
        expected = (np.log1p(degrees) - logs.mean()) / logs.std()
        np.testing.assert_allclose(activity, expected, atol=1e-5)
    assert not fitted.new_node_vectors("user", pl.Series(["new"]), None).any()  # as if of average activity
    attributes = featurizer(network, tiny_settings, nodes="trained").transform(network).item_vectors
    np.testing.assert_array_equal(features.item_vectors[:, :-1], attributes)
    renamed = replace(network, user_ids=pl.Series([f"x{number}" for number in range(network.n_users)]))
    np.testing.assert_array_equal(fitted.transform(renamed).user_vectors, features.user_vectors)


@pytest.mark.parametrize("nodes", ["profile", "gaussian", "trained"])
def test_vectors_and_slots_of_unknown_nodes_do_not_depend_on_their_names(network, tiny_settings, nodes):
    fitted = featurizer(network, tiny_settings, nodes=nodes)
    known = fitted.transform(network)
    for side in ("user", "item"):
        vectors = fitted.new_node_vectors(side, pl.Series(["a", "b", "c"]), None)
        np.testing.assert_array_equal(vectors, vectors[:1].repeat(3, axis=0))
    rows = [{"user": name, "item": name, "text": "lovely"} for name in ("a", "b")]
    joined = fitted.transform(join(network, saft.read(rows, labelled=False)), known)
    for vectors, slots in ((joined.user_vectors, joined.user_slots), (joined.item_vectors, joined.item_slots)):
        np.testing.assert_array_equal(vectors[-1], vectors[-2])
        assert slots[-2:].tolist() == [0, 0]
