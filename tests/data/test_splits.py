"""Splits are partitions of the labelled interactions, seeded, each with the properties of its kind."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saft


@pytest.fixture(scope="module")
def network() -> saft.TextualInteractionNetwork:
    everything = saft.demo_network(3000, seed=1)
    return everything.hiding(np.arange(0, 3000, 7))


def assert_is_partition(network, split):
    rows = np.concatenate([split.train, split.valid, split.test])
    assert np.array_equal(np.sort(rows), np.flatnonzero(network.is_labelled))


@pytest.mark.parametrize("how", ["random", "temporal", "cold_users", "cold_items"])
def test_every_split_is_a_partition_of_the_labelled_rows_in_about_the_given_fractions(network, how):
    split = saft.split(network, how, seed=3)
    assert_is_partition(network, split)
    expected = network.is_labelled.sum() * np.array([0.7, 0.1, 0.2])
    off = np.abs([len(split.train), len(split.valid), len(split.test)] - expected).max()
    # Cold splits deal out whole users and items, so a part is off by at most the largest of them.
    largest = {"cold_users": network.user_degrees.max(), "cold_items": network.item_degrees.max()}
    assert off <= largest.get(how, network.n_classes)


@pytest.mark.parametrize("how", ["random", "cold_users", "cold_items"])
def test_the_same_seed_gives_the_same_split_and_another_seed_another(network, how):
    first, again, other = (saft.split(network, how, seed=seed).test.tolist() for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_the_random_split_keeps_the_proportions_of_every_class(network):
    split = saft.split(network)
    for label in range(network.n_classes):
        counts = [np.sum(network.labels[part] == label) for part in (split.train, split.valid, split.test)]
        expected = np.sum(network.labels == label) * np.array([0.7, 0.1, 0.2])
        assert np.abs(counts - expected).max() <= 1


@settings(max_examples=60, deadline=None)
@given(counts=st.lists(st.integers(1, 30), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_every_class_is_trained_on_however_small_it_is(counts, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    rows = [{"user": k, "item": k % 3, "text": "t", "label": int(label)} for k, label in enumerate(labels)]
    network = saft.read(rows, labelled=False)
    split = saft.split(network, seed=seed)
    assert_is_partition(network, split)
    assert set(network.labels[split.train]) == set(range(len(counts)))


def test_the_temporal_split_tests_on_later_times_than_it_trains_on(network):
    split = saft.split(network, "temporal")
    assert network.times[split.train].max() < network.times[split.valid].min()
    assert network.times[split.valid].max() < network.times[split.test].min()


def test_interactions_of_the_same_moment_stay_on_the_same_side_of_a_temporal_split():
    rows = [{"user": k, "item": 0, "text": "t", "label": k % 2, "time": k // 10} for k in range(100)]
    network = saft.read(rows)
    split = saft.split(network, "temporal")
    assert_is_partition(network, split)
    sides = [set(network.times[part].tolist()) for part in (split.train, split.valid, split.test)]
    assert sides[0].isdisjoint(sides[1])
    assert sides[1].isdisjoint(sides[2])


@pytest.mark.parametrize(("how", "codes"), [("cold_users", "users"), ("cold_items", "items")])
def test_cold_users_and_items_are_never_trained_on(network, how, codes):
    split = saft.split(network, how)
    parts = [set(getattr(network, codes)[part].tolist()) for part in (split.train, split.valid, split.test)]
    assert parts[0].isdisjoint(parts[1] | parts[2])
    assert parts[1].isdisjoint(parts[2])


def split_column(values):
    frame = pl.DataFrame({"user": range(len(values)), "item": 0, "text": "t", "label": [0, 1] * (len(values) // 2)})
    return saft.read(frame.with_columns(split=pl.Series(values)))


def test_a_split_column_is_followed_whatever_it_calls_validation():
    network = split_column(["Train", "training", "val", "dev", "test", "TEST "])
    split = saft.split(network, "column")
    assert [part.tolist() for part in (split.train, split.valid, split.test)] == [[0, 1], [2, 3], [4, 5]]


def test_a_split_column_without_validation_gives_up_an_eighth_of_training():
    network = split_column(["train"] * 80 + ["test"] * 20)
    split = saft.split(network, "column")
    assert_is_partition(network, split)
    assert (len(split.train), len(split.valid), len(split.test)) == (70, 10, 20)
    assert split.test.tolist() == list(range(80, 100))


@pytest.mark.parametrize(
    ("how", "rows", "message"),
    [
        ("colmn", None, "Did you mean 'column'"),
        ("column", None, "no split column"),
        ("temporal", None, "needs times"),
        ("column", {"split": ["train", "test", "later", "x"]}, r"2 labelled rows \(first in row 3, .*'later'"),
        ("temporal", {"time": [1, 2, None, 4]}, r"1 have none \(rows 3, counted from 1\)"),
        ("temporal", {"time": [1, 1, 1, 1]}, "too coarse"),
        ("cold_users", {}, "too few users"),
    ],
)
def test_impossible_splits_are_refused_with_the_reason(how, rows, message):
    table = {"user": [1, 1, 1, 1], "item": [1, 2, 3, 4], "text": ["t"] * 4, "label": [0, 1, 0, 1]}
    with pytest.raises(saft.InputError, match=message):
        saft.split(saft.read(pl.DataFrame(table | (rows or {}))), how)


@pytest.mark.parametrize("fractions", [(0.5, 0.5, 0.5), (0, 0.5, 0.5), (1.2, -0.1, -0.1)])
def test_fractions_have_to_add_up(network, fractions):
    with pytest.raises(saft.InputError, match="add up to 1"):
        saft.split(network, fractions=fractions)


def test_a_network_without_labels_cannot_be_split(network):
    with pytest.raises(saft.InputError, match="no interaction of this network is labelled"):
        saft.split(network.hiding(np.arange(len(network))))
