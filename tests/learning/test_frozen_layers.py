"""The output of the frozen layers is computed once per text and cached; results do not change by that."""

import shutil

import numpy as np
import pytest
import torch

import saft
from saft import SaftClassifier
from saft.features.tokens import load_tokenizer, tokenise
from saft.learning.frozen_layers import FrozenLayerCache
from saft.model.encoder import TextEncoder
from saft.settings import Settings


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(200)


@pytest.fixture
def encoder(tiny_encoder):
    return TextEncoder.load(tiny_encoder, frozen=1)


@pytest.fixture
def tokens(network, tiny_encoder):
    return tokenise(network.texts, load_tokenizer(tiny_encoder), 24)


@pytest.fixture
def embedded(monkeypatch):
    """How many texts were given to the frozen layers as tokens, one entry per call."""
    counts, embed = [], TextEncoder.embed

    def counting(model, given, mask):
        counts.extend([] if given.is_floating_point() else [len(given)])
        return embed(model, given, mask)

    monkeypatch.setattr(TextEncoder, "embed", counting)
    return counts


def test_every_text_is_encoded_once_and_its_states_are_cached(encoder, tokens, embedded):
    frozen = FrozenLayerCache(encoder.train(), tokens)
    first, others = np.array([7, 3, 9]), np.array([3, 5, 7, 11])
    frozen.padded(first)
    states, mask = frozen.padded(others)
    assert embedded == [3, 2]
    ids, expected_mask = map(torch.from_numpy, tokens.padded(others))
    np.testing.assert_array_equal(mask, expected_mask)
    expected = encoder.embed(ids, expected_mask).numpy()
    np.testing.assert_allclose(states[mask == 1], expected[mask == 1], atol=1e-5)
    assert (states[mask == 0] == 0).all()


@pytest.mark.parametrize("changes", [{}, {"cache_neighbours": False}, {"fusion": "none", "labels": False}])
def test_training_comes_to_the_same_as_without_the_cache(network, tiny_settings, embedded, monkeypatch, changes):
    settings = tiny_settings | {"frozen_layers": 1} | changes
    fast = SaftClassifier(**settings).fit(network)
    assert sum(embedded) <= len(network)
    monkeypatch.setattr(FrozenLayerCache, "create", classmethod(lambda *_given: None))
    slow = SaftClassifier(**settings).fit(network)
    assert sum(embedded) > 2 * len(network)
    for name, weight in slow.model_.state_dict().items():
        torch.testing.assert_close(fast.model_.state_dict()[name], weight, atol=1e-5, rtol=0, msg=name)
    np.testing.assert_allclose(fast.predict_proba(network), slow.predict_proba(network), atol=1e-5)


def test_training_changes_the_layers_above_and_nothing_below(network, tiny_settings, tiny_encoder):
    trained = SaftClassifier(**tiny_settings, frozen_layers=1).fit(network).model_.encoder.state_dict()
    before = TextEncoder.load(tiny_encoder).state_dict()
    moved = {name for name, weight in before.items() if not torch.equal(weight, trained[name])}
    assert any("layer.1." in name for name in moved)
    assert any("layer.2." in name for name in moved)
    assert not any("layer.0." in name or "embeddings" in name for name in moved)


def test_a_saved_model_predicts_the_same_for_known_and_new_rows(network, tiny_settings, tmp_path):
    model = SaftClassifier(**tiny_settings, frozen_layers=1).fit(network)
    model.save(tmp_path / "model")
    loaded = saft.load(tmp_path / "model")
    new = [{"user": "somebody new", "item": "something new", "text": "it broke"}]
    for rows in (network, new):
        np.testing.assert_allclose(loaded.predict_proba(rows), model.predict_proba(rows), atol=1e-5)


def test_where_there_is_no_room_nothing_is_cached_and_a_warning_says_so(encoder, tokens, monkeypatch):
    free = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: free)
    with pytest.warns(
        saft.errors.InputWarning, match=r"takes 0\.0 GB, and .* \(more than half of what is free there\)"
    ):
        assert FrozenLayerCache.create(encoder, tokens) is None


def test_no_file_is_left_in_the_cache_folder(encoder, tokens, cache):
    FrozenLayerCache(encoder, tokens).padded(np.arange(10))
    assert list(cache.iterdir()) == []


def test_impossible_numbers_of_frozen_layers_are_refused(network, tiny_settings):
    with pytest.raises(saft.InputError, match="frozen_layers needs train_words=False"):
        Settings.of({"frozen_layers": 1, "train_words": True})
    with pytest.raises(saft.InputError, match="frozen_layers=3 leaves nothing to train of the encoder's 3 layers"):
        SaftClassifier(**tiny_settings, frozen_layers=3).fit(network)
    with pytest.raises(saft.InputError, match="at least 2 layers of the encoder that are not frozen"):
        SaftClassifier(**tiny_settings, frozen_layers=2).fit(network)
