"""What the model may see: no target's own label, no hidden label, every target once."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch

import saft
from saft.classifier.assembly import Assembly
from saft.data.network import HIDDEN
from saft.features.featurizer import Reader
from saft.features.tokens import load_tokenizer
from saft.learning.loader import Feed, Memory
from saft.settings import Settings

N = 200


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).permutation(N)[:140]


@pytest.fixture(scope="module")
def inputs(network, tiny_settings):
    settings = Settings.of(tiny_settings)
    return Reader(settings, load_tokenizer(settings.encoder)).learn(network).read(network)


def fed(network, inputs, rows, values=None, memory=True, **changes) -> Feed:
    """A feed that may see the labels of these rows."""
    visible = np.full(N, HIDDEN, np.int32)
    visible[rows] = (network.labels if values is None else values)[rows]
    remembered = Memory(torch.randn(N, 2, 2, 32, generator=torch.Generator().manual_seed(0)).half()) if memory else None
    return Feed(
        inputs, visible, network.n_classes, Settings.of({"batch_size": 16, "remember": memory} | changes), remembered
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


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("epoch", [0, 1])
def test_no_targets_own_label_and_no_label_of_its_pass_is_in_what_is_shown(network, inputs, rows, memory, epoch):
    feed = fed(network, inputs, rows, memory=memory)
    for number, seen in enumerate(feed.training_passes(rows, epoch)):
        targets = np.concatenate(seen.batches)
        flipped = network.labels.copy()
        flipped[targets] = (flipped[targets] + 1) % network.n_classes
        other = list(fed(network, inputs, rows, flipped, memory).training_passes(rows, epoch))[number]
        changed = fed(network, inputs, rows, flipped, memory)
        for batch_targets in seen.batches:
            first, second = feed.batch(batch_targets, seen), changed.batch(batch_targets, other)
            assert not torch.equal(first.answers, second.answers)
            shown = [f.name for f in fields(first) if f.name != "answers"]
            assert [name for name in shown if not same(getattr(first, name), getattr(second, name))] == []
            assert (first.labels[first.targets] == network.n_classes).all()


def test_labels_of_other_rows_are_seen(network, inputs, rows):
    feed = fed(network, inputs, rows)
    seen = next(feed.training_passes(rows, 0))
    others = np.setdiff1d(rows, np.concatenate(seen.batches))
    flipped = network.labels.copy()
    flipped[others] = (flipped[others] + 1) % network.n_classes
    changed = fed(network, inputs, rows, flipped)
    other = next(changed.training_passes(rows, 0))
    first, second = (f.batch(seen.batches[0], s) for f, s in ((feed, seen), (changed, other)))
    assert not torch.equal(first.hints, second.hints)
    assert not torch.equal(first.labels, second.labels)


def test_hidden_labels_never_occur_anywhere(network, inputs, rows):
    hidden = np.setdiff1d(np.arange(N), rows)
    feed = fed(network, inputs, rows)
    for seen in [*feed.training_passes(rows, 0), *feed.prediction_passes(np.arange(N))]:
        assert (seen.labels[hidden] == HIDDEN).all()


def test_hints_for_the_head_are_those_that_training_shows(network, inputs, rows):
    feed = fed(network, inputs, rows)
    chosen, hints = feed.hints_in_training(N)
    assert sorted(chosen) == sorted(rows)
    dealt = np.array_split(chosen, 5)  # a fifth is hidden at a time
    for targets, shown in zip(dealt, np.array_split(hints, 5), strict=True):
        seen = next(fed(network, inputs, np.setdiff1d(rows, targets)).prediction_passes(targets))
        batch = feed.batch(targets, seen)
        np.testing.assert_array_equal(batch.hints[batch.targets].numpy(), shown)


@pytest.mark.parametrize("changes", [{}, {"labels": False}])
def test_few_rows_of_many_are_chosen_from_all_over_for_the_head(network, inputs, rows, changes):
    chosen, hints = fed(network, inputs, rows, **changes).hints_in_training(40)
    assert len(set(chosen)) == len(chosen) == len(hints) == 40
    assert set(chosen) <= set(rows)
    assert chosen.min() < N // 4 < 3 * N // 4 < chosen.max()


@pytest.mark.parametrize("changes", [{}, {"labels": False}, {"hidden_share": 1.0}, {"full_batch": True}])
def test_every_row_is_a_target_once_in_an_epoch_and_in_a_prediction(network, inputs, rows, changes):
    feed = fed(network, inputs, rows, memory=not changes.get("full_batch"), **changes)
    for passes, expected in (
        (feed.training_passes(rows, 3), rows),
        (feed.prediction_passes(np.arange(N)), np.arange(N)),
    ):
        targets = np.concatenate([batch for seen in passes for batch in seen.batches])
        assert sorted(targets) == sorted(expected)


def test_epochs_differ_and_the_same_epoch_is_the_same(network, inputs, rows):
    def order(epoch):
        return np.concatenate(
            [b for seen in fed(network, inputs, rows).training_passes(rows, epoch) for b in seen.batches]
        )

    assert np.array_equal(order(1), order(1))
    assert not np.array_equal(order(1), order(2))


def test_a_labelled_row_is_predicted_in_a_pass_in_which_its_label_is_hidden(network, inputs, rows):
    for seen in fed(network, inputs, rows).prediction_passes(np.arange(N)):
        assert (seen.labels[np.concatenate(seen.batches)] == HIDDEN).all()


def test_batches_hold_targets_then_their_neighbours_each_once(network, inputs, rows):
    feed = fed(network, inputs, rows, memory=False)
    seen = next(feed.training_passes(rows, 0))
    batch = feed.batch(seen.batches[0], seen)
    assert set(batch.rows[batch.targets.numpy()]) == set(seen.batches[0])
    assert len(set(batch.rows)) == len(batch.rows) > len(seen.batches[0])
    for row in set(batch.rows) - set(seen.batches[0]):
        targets = seen.batches[0]
        assert network.users[row] in network.users[targets] or network.items[row] in network.items[targets]
    assert sum(len(tokens) for tokens, _ in batch.texts) == len(batch.rows)


@pytest.mark.parametrize("changes", [{"user_messages": False, "item_messages": False}, {"fusion": "none"}])
def test_without_messages_no_neighbour_is_read_or_remembered(network, inputs, rows, tiny_settings, changes):
    feed = fed(network, inputs, rows, memory=False, **changes)
    seen = next(feed.training_passes(rows, 0))
    assert set(feed.batch(seen.batches[0], seen).rows) == set(seen.batches[0])
    assert Assembly.fresh(Settings.of(tiny_settings | changes), network.showing(rows)).memory is None


def test_texts_of_a_batch_are_padded_to_texts_of_about_their_length(network, inputs, rows):
    feed = fed(network, inputs, rows, memory=False)
    seen = next(feed.training_passes(rows, 0))
    batch = feed.batch(seen.batches[0], seen)
    chunked = sum(tokens.numel() for tokens, _ in batch.texts)
    together = len(batch.rows) * max(tokens.shape[1] for tokens, _ in batch.texts)
    real = sum(int(mask.sum()) for _, mask in batch.texts)
    assert real <= chunked < together
    expected = [inputs.tokens.flat[inputs.tokens.starts[row] : inputs.tokens.starts[row + 1]] for row in batch.rows]
    read = [tokens[row, : mask[row].sum()].numpy() for tokens, mask in batch.texts for row in range(len(tokens))]
    assert all(np.array_equal(a, b) for a, b in zip(read, expected, strict=True))


def test_neighbours_that_nobody_has_read_yet_are_named_once(network, inputs, rows):
    feed = fed(network, inputs, rows)
    feed.memory = Memory.empty(N, 2, 2, 32)
    seen = next(feed.training_passes(rows, 0))
    targets = seen.batches[0]
    sampled = [seen.of_users.of(np.unique(network.users[targets])), seen.of_items.of(np.unique(network.items[targets]))]
    unread = feed.unread(targets, seen)
    assert sorted(unread) == sorted(np.setdiff1d(np.concatenate(sampled), targets))
    feed.memory.store(unread[:3], torch.zeros(3, 2, 2, 32))
    assert sorted(feed.unread(targets, seen)) == sorted(unread[3:])
    assert not len(fed(network, inputs, rows, memory=False).unread(targets, seen))


def test_memory_gives_back_what_was_stored_also_for_rows_added_later():
    memory = Memory.empty(4, 2, 2, 3)
    grown = memory.with_room(6)
    states = torch.arange(3 * 2 * 2 * 3, dtype=torch.float32).reshape(3, 2, 2, 3)
    grown.store(np.array([1, 5, 4]), states)
    torch.testing.assert_close(
        grown.recall(np.array([4, 1, 5, 0])), torch.stack([states[2], states[0], states[1], states[0] * 0])
    )
    assert len(memory.states) == 4
