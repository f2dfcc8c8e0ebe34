"""What batches contain: no seed row's own label, no hidden label, every seed row once."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch

import saft
from saft.classifier.assembly import Assembly
from saft.data.network import HIDDEN
from saft.features.folds import FOLDS, NO_FOLD
from saft.learning.loader import BatchLoader, NeighbourCache
from saft.settings import Settings

N = 200


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).permutation(N)[:140]


@pytest.fixture(scope="module")
def features(network, rows, tiny_settings):
    return Assembly.fresh(Settings.of(tiny_settings), network.showing(rows)).features


def loader_with(network, features, rows, values=None, cache=True, **changes) -> BatchLoader:
    """A loader that has the labels of these rows and no others."""
    visible = np.full(N, HIDDEN, np.int32)
    visible[rows] = (network.labels if values is None else values)[rows]
    cached = (
        NeighbourCache(torch.randn(N, 2, 2, 32, generator=torch.Generator().manual_seed(0)).half()) if cache else None
    )
    return BatchLoader(
        features,
        visible,
        network.n_classes,
        Settings.of({"batch_size": 16, "cache_neighbours": cache, "messages": "lga"} | changes),
        cached,
    )


def same(first, second) -> bool:
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, list | tuple):
        return all(same(a, b) for a, b in zip(first, second, strict=True))
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[name], second[name]) for name in first)
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    if is_dataclass(first):
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in fields(first))
    return first == second


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("epoch", [0, 1])
def test_no_batch_contains_a_label_of_a_seed_row_of_its_pass(network, features, rows, cache, epoch):
    loader = loader_with(network, features, rows, cache=cache)
    for number, view in enumerate(loader.training_passes(rows, epoch)):
        seed_rows = np.concatenate(view.batches)
        flipped = network.labels.copy()
        flipped[seed_rows] = (flipped[seed_rows] + 1) % network.n_classes
        other = list(loader_with(network, features, rows, flipped, cache).training_passes(rows, epoch))[number]
        changed = loader_with(network, features, rows, flipped, cache)
        for seeds in view.batches:
            first, second = loader.batch(seeds, view), changed.batch(seeds, other)
            assert not torch.equal(first.targets, second.targets)
            inputs = [f.name for f in fields(first) if f.name != "targets"]
            assert [name for name in inputs if not same(getattr(first, name), getattr(second, name))] == []
            assert (first.labels[first.seed_rows] == network.n_classes).all()


def test_batches_contain_labels_of_other_rows(network, features, rows):
    loader = loader_with(network, features, rows)
    view = next(loader.training_passes(rows, 0))
    others = np.setdiff1d(rows, np.concatenate(view.batches))
    flipped = network.labels.copy()
    flipped[others] = (flipped[others] + 1) % network.n_classes
    changed = loader_with(network, features, rows, flipped)
    other = next(changed.training_passes(rows, 0))
    first, second = (f.batch(view.batches[0], s) for f, s in ((loader, view), (changed, other)))
    assert not torch.equal(first.side_features, second.side_features)
    assert not torch.equal(first.labels, second.labels)


def test_no_pass_contains_a_hidden_label(network, features, rows):
    hidden = np.setdiff1d(np.arange(N), rows)
    loader = loader_with(network, features, rows)
    for view in [*loader.training_passes(rows, 0), *loader.prediction_passes(np.arange(N))]:
        assert (view.labels[hidden] == HIDDEN).all()


def test_side_features_of_a_row_are_the_same_in_every_batch(network, features, rows):
    loader = loader_with(network, features, rows)
    expected = loader.evidence.features()
    assert expected.shape == (N, loader.n_side_features)
    for view in [*loader.training_passes(rows, 0), *loader.training_passes(rows, 1), *loader.prediction_passes(rows)]:
        batch = loader.batch(view.batches[0], view)
        seeds = batch.seed_rows.numpy()
        np.testing.assert_array_equal(batch.side_features[seeds].numpy(), expected[batch.rows[seeds]])


def test_neighbours_that_are_encoded_have_no_side_features(network, features, rows):
    """What is known of a neighbour may rest on the label of a seed row."""
    loader = loader_with(network, features, rows, cache=False)
    view = next(loader.training_passes(rows, 0))
    batch = loader.batch(view.batches[0], view)
    neighbours = np.setdiff1d(np.arange(len(batch.rows)), batch.seed_rows.numpy())
    assert len(neighbours)
    assert not batch.side_features[neighbours].any()


def test_side_features_can_come_from_other_evidence(network, features, rows):
    loader = loader_with(network, features, rows)
    silent = BatchLoader(
        features, loader.labels, 3, loader.settings, loader.cache, evidence=loader.evidence.without_words()
    )
    words = loader.evidence.groups()["words"]
    assert not silent.side_features[:, words].any()
    assert silent.n_side_features == loader.n_side_features


def test_a_pass_of_training_is_a_fold_and_hides_the_labels_of_it(network, features, rows):
    loader = loader_with(network, features, rows)
    passes = list(loader.training_passes(rows, 0))
    assert len(passes) == FOLDS
    for view in passes:
        seed_rows = np.concatenate(view.batches)
        (fold,) = set(features.folds[seed_rows])
        assert set(seed_rows) == set(rows[features.folds[rows] == fold])
        assert (view.labels[seed_rows] == HIDDEN).all()
        others = np.setdiff1d(rows, seed_rows)
        np.testing.assert_array_equal(view.labels[others], network.labels[others])


def test_labelled_rows_that_came_after_the_readers_are_predicted_one_by_one(network, features, rows):
    """Their evidence hides nothing but their own labels, so a pass must not hide more."""
    folds = features.folds.copy()
    folds[rows[:3]] = NO_FOLD
    loader = loader_with(network, replace(features, folds=folds), rows)
    sizes = [len(np.concatenate(view.batches)) for view in loader.prediction_passes(rows[:3])]
    assert sizes == [1, 1, 1]
    unlabelled = np.setdiff1d(np.arange(N), rows)
    assert len(list(loader.prediction_passes(unlabelled))) == 1


@pytest.mark.parametrize("changes", [{}, {"labels": False}, {"full_batch": True}])
def test_every_row_is_a_seed_row_once_in_an_epoch_and_in_a_prediction(network, features, rows, changes):
    loader = loader_with(network, features, rows, cache=not changes.get("full_batch"), **changes)
    for passes, expected in (
        (loader.training_passes(rows, 3), rows),
        (loader.prediction_passes(np.arange(N)), np.arange(N)),
    ):
        seed_rows = np.concatenate([batch for view in passes for batch in view.batches])
        assert sorted(seed_rows) == sorted(expected)


def test_epochs_differ_and_the_same_epoch_is_the_same(network, features, rows):
    def order(epoch):
        return np.concatenate(
            [b for view in loader_with(network, features, rows).training_passes(rows, epoch) for b in view.batches]
        )

    assert np.array_equal(order(1), order(1))
    assert not np.array_equal(order(1), order(2))


def test_a_labelled_row_is_predicted_in_a_pass_in_which_its_label_is_hidden(network, features, rows):
    for view in loader_with(network, features, rows).prediction_passes(np.arange(N)):
        assert (view.labels[np.concatenate(view.batches)] == HIDDEN).all()


def test_batches_hold_seed_rows_and_their_neighbours_each_once(network, features, rows):
    loader = loader_with(network, features, rows, cache=False)
    view = next(loader.training_passes(rows, 0))
    batch = loader.batch(view.batches[0], view)
    assert set(batch.rows[batch.seed_rows.numpy()]) == set(view.batches[0])
    assert len(set(batch.rows)) == len(batch.rows) > len(view.batches[0])
    for row in set(batch.rows) - set(view.batches[0]):
        seed_rows = view.batches[0]
        assert network.users[row] in network.users[seed_rows] or network.items[row] in network.items[seed_rows]
    assert sum(len(tokens) for tokens, _ in batch.texts) == len(batch.rows)


@pytest.mark.parametrize("changes", [{"user_messages": False, "item_messages": False}, {"fusion": "none"}])
def test_without_messages_no_neighbour_is_encoded_or_cached(network, features, rows, tiny_settings, changes):
    loader = loader_with(network, features, rows, cache=False, **changes)
    view = next(loader.training_passes(rows, 0))
    assert set(loader.batch(view.batches[0], view).rows) == set(view.batches[0])
    assert Assembly.fresh(Settings.of(tiny_settings | changes), network.showing(rows)).cache is None


def test_texts_of_a_batch_are_padded_to_texts_of_about_their_length(network, features, rows):
    loader = loader_with(network, features, rows, cache=False)
    view = next(loader.training_passes(rows, 0))
    batch = loader.batch(view.batches[0], view)
    chunked = sum(tokens.numel() for tokens, _ in batch.texts)
    at_once = len(batch.rows) * max(tokens.shape[1] for tokens, _ in batch.texts)
    real = sum(int(mask.sum()) for _, mask in batch.texts)
    assert real <= chunked < at_once
    expected = [
        features.tokens.flat[features.tokens.starts[row] : features.tokens.starts[row + 1]] for row in batch.rows
    ]
    found = [tokens[row, : mask[row].sum()].numpy() for tokens, mask in batch.texts for row in range(len(tokens))]
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_uncached_neighbours_are_listed_once(network, features, rows):
    loader = loader_with(network, features, rows)
    loader.cache = NeighbourCache.empty(N, 2, 2, 32)
    view = next(loader.training_passes(rows, 0))
    seed_rows = view.batches[0]
    sampled = [
        view.of_users.of(np.unique(network.users[seed_rows])),
        view.of_items.of(np.unique(network.items[seed_rows])),
    ]
    uncached = loader.uncached(seed_rows, view)
    assert sorted(uncached) == sorted(np.setdiff1d(np.concatenate(sampled), seed_rows))
    loader.cache.store(uncached[:3], torch.zeros(3, 2, 2, 32))
    assert sorted(loader.uncached(seed_rows, view)) == sorted(uncached[3:])
    assert not len(loader_with(network, features, rows, cache=False).uncached(seed_rows, view))


def test_the_cache_returns_what_was_stored_also_for_rows_added_later():
    cache = NeighbourCache.empty(4, 2, 2, 3)
    grown = cache.extended(np.arange(6), np.arange(6))
    states = torch.arange(3 * 2 * 2 * 3, dtype=torch.float32).reshape(3, 2, 2, 3)
    grown.store(np.array([1, 5, 4]), states)
    torch.testing.assert_close(
        grown.lookup(np.array([4, 1, 5, 0])), torch.stack([states[2], states[0], states[1], states[0] * 0])
    )
    assert len(cache.states) == 4
