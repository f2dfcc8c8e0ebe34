"""The output of the frozen layers is computed once per text and kept; results do not change by that."""

import os

import numpy as np
import pytest
import torch

import saft
from saft import SaftClassifier
from saft.features.tokens import load_tokenizer, tokenise
from saft.learning import frozen_layers
from saft.learning.frozen_layers import FrozenLayers
from saft.learning.frozen_store import frozen_folder
from saft.model.encoder import TextEncoder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(200)


@pytest.fixture
def encoder(tiny_encoder):
    return TextEncoder.load(tiny_encoder, trained=2)


@pytest.fixture(scope="module")
def tokens(network, tiny_encoder):
    return tokenise(network.texts, load_tokenizer(tiny_encoder), 24)


@pytest.fixture
def embedded(monkeypatch):
    """How many texts were given to the frozen layers as tokens, one entry per call."""
    counts, read = [], TextEncoder.read

    def counting(model, given, mask):
        counts.append(len(given))
        return read(model, given, mask)

    monkeypatch.setattr(TextEncoder, "read", counting)
    return counts


def distinct(tokens) -> int:
    return len({piece.tobytes() for piece in np.split(tokens.flat, tokens.starts[1:-1])})


def literal_states(encoder, tokens, text: int) -> np.ndarray:
    """(tokens, width) by the frozen layers, of one text alone, rounded to half precision."""
    ids = torch.from_numpy(tokens.flat[tokens.starts[text] : tokens.starts[text + 1]].astype(np.int64))[None]
    with torch.no_grad():
        states = encoder.train(False).embed(ids, torch.ones_like(ids))
    return states[0].numpy().astype(np.float16)


def test_states_are_those_of_the_frozen_layers_in_half_precision(encoder, tokens):
    states = FrozenLayers(encoder.train()).states(tokens)
    texts = np.array([3, 5, 7, 11])
    for _ in range(2):  # computed, then from the store
        found, mask = states.padded(texts)
        np.testing.assert_array_equal(mask, tokens.padded(texts)[1])
        assert (found[mask == 0] == 0).all()
        for row, text in enumerate(texts.tolist()):
            np.testing.assert_allclose(found[row][mask[row] == 1], literal_states(encoder, tokens, text), atol=2e-3)
        np.testing.assert_array_equal(found, found.astype(np.float16))
        states.fill()
    assert states.of(3).dtype == np.float16
    np.testing.assert_array_equal(states.lengths, tokens.lengths)


def test_every_text_is_encoded_once_for_all_who_read_it(encoder, tokens, embedded):
    FrozenLayers(encoder).states(tokens).fill()
    assert sum(embedded) == distinct(tokens) <= len(tokens)
    assert max(embedded) <= frozen_layers.TEXTS_AT_ONCE
    FrozenLayers(encoder).vectors(tokens)
    FrozenLayers(encoder).states(tokens.take(np.arange(50, 80))).padded(np.arange(30))
    assert sum(embedded) == distinct(tokens)


def test_in_segments_the_states_are_the_same(encoder, tokens, monkeypatch):
    whole = FrozenLayers(encoder).states(tokens)
    whole.fill()
    monkeypatch.setattr(frozen_layers, "TEXTS_PER_SEGMENT", 30)
    monkeypatch.setenv("SAFT_CACHE", str(frozen_folder() / "another"))
    parts = FrozenLayers(encoder).states(tokens)
    parts.fill()
    assert len(list(frozen_folder().glob("*/*.index.npy"))) == -(-distinct(tokens) // 30)
    for text in range(len(tokens)):
        np.testing.assert_allclose(parts.of(text), whole.of(text), atol=2e-3)


@pytest.mark.parametrize("trained", [0, 2])
def test_a_sentence_vector_is_the_means_of_the_states_at_several_depths(tiny_encoder, tokens, trained, monkeypatch):
    encoder = TextEncoder.load(tiny_encoder, trained=trained)
    found = FrozenLayers(encoder).vectors(tokens)
    assert encoder.depths == list(range(1, 4 - trained))
    assert found.shape == (len(tokens), len(encoder.depths), encoder.width)
    assert found.dtype == np.float32
    for text in range(0, len(tokens), 9):
        cut = [TextEncoder.load(tiny_encoder, layers=depth, trained=0) for depth in encoder.depths]
        expected = [literal_states(one, tokens, text).mean(axis=0, dtype=np.float32) for one in cut]
        np.testing.assert_allclose(found[text], np.stack(expected), atol=2e-3)
    assert not frozen_folder().exists()  # so few texts are remembered in memory
    monkeypatch.setattr(frozen_layers, "REMEMBERED", 9)
    np.testing.assert_allclose(FrozenLayers(encoder).vectors(tokens), found, atol=2e-3)
    kinds = [path.parent.name.rpartition("-")[2] for path in frozen_folder().glob("*/*.index.npy")]
    assert kinds == ["means" if trained == 0 else "states"]  # states take far more room
    none = FrozenLayers(encoder).vectors(tokens.take(np.empty(0, np.int64)))
    assert none.shape == (0, *found.shape[1:])


def test_means_come_from_the_states_that_another_training_has_kept(tiny_encoder, tokens, monkeypatch):
    monkeypatch.setattr(frozen_layers, "REMEMBERED", 9)
    below = TextEncoder.load(tiny_encoder, layers=3, trained=1)
    expected = FrozenLayers(below).vectors(tokens)
    untrained = FrozenLayers(TextEncoder.load(tiny_encoder, layers=2, trained=0))
    monkeypatch.setattr(untrained, "compute", None)  # nothing is left to compute
    np.testing.assert_array_equal(untrained.vectors(tokens), expected)
    assert {path.name.rpartition("-")[2] for path in frozen_folder().iterdir()} == {"states"}


def test_a_few_texts_are_remembered_in_memory_and_not_written(encoder, tokens, embedded, monkeypatch):
    layers, few = FrozenLayers(encoder), tokens.take(np.arange(5))
    first = layers.vectors(few)
    np.testing.assert_array_equal(layers.vectors(few), first)
    for text in range(5):
        layers.states(few).of(text)
    assert sum(embedded) == distinct(few)
    assert not list(frozen_folder().glob("*/*.npy"))
    monkeypatch.setattr(frozen_layers, "REMEMBERED", 3)
    np.testing.assert_allclose(layers.vectors(few), first, atol=1e-3)  # more texts than are remembered
    assert list(frozen_folder().glob("*/*.npy"))


def test_states_are_found_after_others_were_written(encoder, tokens):
    """Of two networks that are read at the same time, the second one's texts come between the first one's."""
    layers = FrozenLayers(encoder)
    first, second = (layers.states(tokens.take(some)) for some in (np.arange(50), np.arange(50, 200)))
    first.fill()
    expected = [first.of(text).copy() for text in range(50)]
    second.fill()
    for text in range(50):
        np.testing.assert_array_equal(first.of(text), expected[text])


def test_a_store_belongs_to_the_weights_and_layers_that_its_states_depend_on(tiny_encoder):
    def fingerprint(trained: int = 2, change=lambda encoder: None) -> str:
        encoder = TextEncoder.load(tiny_encoder, trained=trained)
        with torch.no_grad():
            change(encoder.model)
        return FrozenLayers(encoder)._fingerprint()

    same = fingerprint()
    assert fingerprint() == same
    assert fingerprint(change=lambda model: model.encoder.layer[1].output.dense.weight.add_(1)) == same  # trained
    assert fingerprint(change=lambda model: model.pooler.dense.weight.add_(1)) == same  # random in some encoders
    assert fingerprint(change=lambda model: model.encoder.layer[0].output.dense.weight.add_(1)) != same
    assert fingerprint(change=lambda model: model.embeddings.word_embeddings.weight.add_(1)) != same
    assert fingerprint(trained=1) != same


@pytest.mark.parametrize(
    "changes", [{}, {"cache_neighbours": False}, {"fusion": "none", "labels": False}, {"trained_layers": 0}]
)
def test_where_there_is_no_room_a_warning_says_so_and_results_are_the_same(
    network, tiny_settings, embedded, monkeypatch, changes
):
    settings = tiny_settings | changes
    fast = SaftClassifier(**settings).fit(network)
    assert sum(embedded) <= len(network)
    monkeypatch.setenv("SAFT_CACHE_GB", "0.00001")
    monkeypatch.setenv("SAFT_CACHE", str(frozen_folder() / "another"))
    monkeypatch.setattr(frozen_layers, "REMEMBERED", 3)
    with pytest.warns(saft.InputWarning, match=r"no room in .* SAFT_CACHE_GB a higher limit"):
        slow = SaftClassifier(**settings).fit(network)
    assert not list(frozen_folder().glob("*/*.npy"))
    assert sum(embedded) > len(network)
    new = [{"user": "somebody new", "item": "something new", "text": "it broke"}]
    for rows in (network, new):
        np.testing.assert_allclose(fast.predict_proba(rows), slow.predict_proba(rows), atol=5e-3)


def test_a_second_training_encodes_no_text_again(network, tiny_settings, embedded):
    SaftClassifier(**tiny_settings).fit(network)
    before = sum(embedded)
    SaftClassifier(**tiny_settings | {"seed": 5, "fusion": "none", "sentences": False}).fit(network)
    assert before == sum(embedded) > 0


def test_training_changes_the_layers_above_and_nothing_below(network, tiny_settings, tiny_encoder):
    trained = SaftClassifier(**tiny_settings, trained_layers=2).fit(network).model_.encoder.state_dict()
    before = TextEncoder.load(tiny_encoder).state_dict()
    moved = {name for name, weight in before.items() if not torch.equal(weight, trained[name])}
    assert any("layer.1." in name for name in moved)
    assert any("layer.2." in name for name in moved)
    assert not any("layer.0." in name or "embeddings" in name for name in moved)


def test_a_text_without_tokens_has_a_vector_of_zeros(encoder, tokens):
    empty = tokens.with_text(np.array([1]), tokens.flat[:0])
    found = FrozenLayers(encoder).vectors(empty)
    assert not found[1].any()
    assert found[0].any()


def test_impossible_numbers_of_trained_layers_are_refused(network, tiny_settings):
    with pytest.raises(saft.InputError, match="train_words=True needs trained_layers to be all layers"):
        SaftClassifier(**tiny_settings, train_words=True).fit(network)
    with pytest.raises(saft.InputError, match="at least 2 layers of the encoder"):
        SaftClassifier(**tiny_settings, layers=1).fit(network)


def test_states_of_a_file_that_another_program_shortened_are_computed_again(encoder, tokens, cache):
    """The server must not end by it."""
    states = FrozenLayers(encoder).states(tokens)
    states.fill()
    texts = np.arange(len(tokens))
    whole = [record.copy() for record in states.records(texts)]
    for path in cache.rglob("*.npy"):
        if not path.name.endswith(".index.npy"):
            os.truncate(path, 1000)
    for found, expected in zip(states.records(texts), whole, strict=True):
        np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), atol=2e-3)
