"""A network as numbers: the same for the rows it begins with, whatever is joined to it."""

import numpy as np
import pytest

import saft
from saft.data.joining import join
from saft.features.featurizer import Reader
from saft.features.tokens import load_tokenizer
from saft.settings import Settings


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(300)


def reader(network, settings, **changes) -> Reader:
    chosen = Settings.of(settings | changes)
    return Reader(chosen, load_tokenizer(chosen.encoder)).learn(network)


def test_rows_that_are_joined_do_not_change_what_was_read(network, tiny_settings):
    reads = reader(network, tiny_settings, nodes="gaussian")
    known = reads.read(network)
    rows = [{"user": "new", "item": network.item_ids[0], "text": "lovely"}, {"user": "new", "item": "x", "text": ""}]
    with pytest.warns(saft.InputWarning):
        joined = join(network, saft.read(rows, labelled=False))
    both = reads.read(joined, known)
    assert len(both) == 302
    assert (both.n_users, both.n_items) == (network.n_users + 1, network.n_items + 1)
    for role, vectors in both.structure.items():
        np.testing.assert_array_equal(vectors[:300], known.structure[role])
        assert vectors[300].any()
    np.testing.assert_array_equal(both.user_vectors[:-1], known.user_vectors)
    assert both.user_vectors[-1].any()
    assert both.tokens.lengths[300:].tolist() == [3, 2]
    np.testing.assert_array_equal(both.clues[:300], known.clues)
    assert both.clues[300].any()
    np.testing.assert_array_equal(reads.read(network).structure["distance"], known.structure["distance"])


def test_without_words_every_text_is_empty(network, tiny_settings):
    assert set(reader(network, tiny_settings, words=False).read(network).tokens.lengths) == {2}


def test_attributes_stand_for_nodes_where_they_are_given(network, tiny_settings):
    inputs = reader(network, tiny_settings, nodes="gaussian").read(network)
    assert inputs.user_vectors.shape[1] == tiny_settings["node_dim"]  # nothing is known of users
    categories = network.item_attributes.unique().height
    assert inputs.item_vectors.shape[1] == categories + 1  # one column for missing ones
    assert reader(network, tiny_settings, nodes="trained").read(network).user_vectors.shape[1] == 0


def test_reading_looks_at_labels_for_phrases_only(network, tiny_settings):
    hidden = network.hiding(np.arange(len(network)))
    first, second = (reader(n, tiny_settings).read(n) for n in (network, hidden))
    np.testing.assert_array_equal(first.structure["distance"], second.structure["distance"])
    np.testing.assert_array_equal(first.tokens.flat, second.tokens.flat)
    np.testing.assert_array_equal(first.user_vectors, second.user_vectors)
    assert first.clues.any()
    assert not second.clues.any()


def test_phrases_are_not_read_where_words_are_not(network, tiny_settings):
    for changes in ({"words": False}, {"phrases": False}):
        assert reader(network, tiny_settings, **changes).read(network).clues.shape == (300, 0)
