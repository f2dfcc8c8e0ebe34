"""States of neighbours: computed before they are looked up, refreshed, and in the end those of the final weights."""

import numpy as np
import pytest
import torch

import saft
from saft.classifier.estimator import SaftClassifier
from saft.learning import neighbour_cache
from saft.learning.neighbour_cache import CacheRefresher, NeighbourCache, fill_cache
from saft.learning.prediction import predict_logits
from tests.learning.recorder import Recorder, score_as

N = 240


@pytest.fixture(scope="module")
def tiny_settings(tiny_settings):
    return tiny_settings | {"messages": "lga"}


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.fixture
def filled(monkeypatch):
    """How many interactions were encoded for the cache apart from seed rows, one entry per call."""
    counts, fill = [], neighbour_cache.fill_cache

    def counting(model, loader, rows, *on_progress):
        counts.append(len(rows))
        fill(model, loader, rows, *on_progress)

    monkeypatch.setattr(neighbour_cache, "fill_cache", counting)
    return counts


@pytest.fixture
def refreshed(monkeypatch):
    """Epoch by epoch, rows outside of training that were encoded again; how many of them held a state, and how many
    outside of training did in all."""
    chosen, choose = [], CacheRefresher.rows_to_refresh

    def choosing(refresher, outside, filled, epoch):
        rows = choose(refresher, outside, filled, epoch)
        chosen.append((rows, filled[rows].sum(), filled[outside].sum()))
        return rows

    monkeypatch.setattr(CacheRefresher, "rows_to_refresh", choosing)
    return chosen


def test_no_state_is_looked_up_before_it_was_computed(network, tiny_settings, monkeypatch):
    looked_up, lookup = [], NeighbourCache.lookup

    def checking(cache, rows):
        looked_up.append(bool(cache.filled[torch.from_numpy(rows)].all()))
        return lookup(cache, rows)

    monkeypatch.setattr(NeighbourCache, "lookup", checking)
    SaftClassifier(**tiny_settings).fit(network)
    assert len(looked_up) > 10
    assert all(looked_up)


def test_the_first_steps_fill_few_neighbours_and_the_first_epoch_all_that_are_needed(
    network, tiny_settings, monkeypatch, filled
):
    monkeypatch.setattr(neighbour_cache, "FIRST_FILL", 2)
    classifier = SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network)
    assert filled[:3] == [2, 4, 8]
    assert bool(classifier.assembly_.cache.filled.all())


def test_after_an_epoch_everything_outside_of_training_is_refreshed_if_it_is_no_more_than_the_targets(
    network, tiny_settings, refreshed
):
    parts = saft.split(network)
    SaftClassifier(**tiny_settings | {"epochs": 2}).fit(network, train=parts.train, valid=parts.valid)
    assert [again.tolist() for again, *_ in refreshed] == [np.sort(parts.test).tolist()] * 2


def test_where_few_are_labelled_an_epoch_refreshes_no_more_rows_than_it_has_and_cached_ones_first(
    network, tiny_settings, refreshed
):
    train, valid = np.arange(12), np.arange(12, 16)
    SaftClassifier(**tiny_settings | {"epochs": 3, "neighbours": 1}).fit(network, train=train, valid=valid)
    for again, known, asked_for in refreshed:
        assert len(again) == 12
        assert again.min() >= 16
        assert known == min(asked_for, 12)
    assert not np.array_equal(refreshed[0][0], refreshed[1][0])


def test_validation_fills_those_neighbours_first_that_training_did_not_need(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network)
    loader, rows = classifier.assembly_.loader(), np.arange(20)
    cache, before = loader.cache, loader.cache.states.clone()
    cache.filled[:] = False
    predict_logits(classifier.model_, loader, rows, update_cache=True)
    for view in loader.prediction_passes(rows):
        assert not any(len(loader.uncached(seed_rows, view)) for seed_rows in view.batches)
    assert len(rows) < cache.filled.sum() < N
    torch.testing.assert_close(cache.states[cache.filled], before[cache.filled], atol=2e-3, rtol=0)


@pytest.mark.parametrize(
    ("changes", "stop_after", "filled_at_the_end"),
    [({"epochs": 1}, None, 168), ({"epochs": 3, "patience": 2}, None, N), ({"epochs": 3}, 15, N)],
    ids=["best epoch last", "best epoch first", "interrupted"],
)
def test_in_the_end_every_cached_state_is_that_of_the_final_weights(
    network, tiny_settings, monkeypatch, filled, changes, stop_after, filled_at_the_end
):
    score_as(monkeypatch, 0.1, 0.9, 0.8, 0.7)
    parts = saft.split(network)
    classifier = SaftClassifier(**tiny_settings | changes).fit(
        network, train=parts.train, valid=parts.valid, callbacks=[Recorder(stop_after)]
    )
    assert filled[-1] == filled_at_the_end
    loader = classifier.assembly_.loader()
    cached = loader.cache.states.clone()
    fill_cache(classifier.model_, loader, np.arange(N))
    torch.testing.assert_close(cached, loader.cache.states, atol=2e-3, rtol=0)


def test_callbacks_get_messages_on_how_far_the_encoding_of_the_network_is(network, tiny_settings, monkeypatch):
    score_as(monkeypatch, 0.1, 0.9)
    recorder, parts = Recorder(), saft.split(network)
    SaftClassifier(**tiny_settings | {"epochs": 1}).fit(
        network, train=parts.train, valid=parts.valid, callbacks=[recorder]
    )
    assert f"Encoding interactions that are not for training: 48 of {len(parts.test)}" in recorder.messages
    assert recorder.messages[-2:] == [
        f"Encoding the interactions with the final weights: {n} of 168" for n in (128, 168)
    ]
