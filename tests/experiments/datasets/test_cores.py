"""The k-core is what a literal removal of one interaction after the other leaves; samples of it are the latest."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saft
from experiments.datasets.cores import k_core, latest_core

CODES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5)), max_size=60)


def slow_core(pairs: list[tuple[int, int]], k: int) -> list[int]:
    """Rows of the k-core: take away any interaction whose user or item has fewer than k, until there is none."""
    rows = list(range(len(pairs)))
    while True:
        for row in rows:
            user, item = pairs[row]
            if sum(pairs[other][0] == user for other in rows) < k or sum(pairs[other][1] == item for other in rows) < k:
                rows.remove(row)
                break
        else:
            return rows


def slow_latest(network: saft.TextualInteractionNetwork, k: int, least: int) -> list[int]:
    """Every stretch of time from the shortest on, until one has a core that is large enough."""
    newest = sorted(range(len(network)), key=lambda row: (-int(network.times[row].astype(int)), row))
    for length in range(len(network) + 1):
        window = newest[:length]
        core = slow_core([(network.users[row], network.items[row]) for row in window], k)
        if len(core) >= least:
            return sorted(window[place] for place in core)
    raise AssertionError("no stretch is long enough")


@settings(deadline=None)
@given(pairs=CODES, k=st.integers(1, 4))
def test_the_core_is_what_a_literal_removal_leaves(pairs, k):
    users, items = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    assert np.flatnonzero(k_core(users, items, k)).tolist() == slow_core(pairs, k)


def test_a_removal_can_bring_down_everything_after_it():
    chain = np.arange(50)  # user n meets items n and n + 1: without item 0, user 0 goes, then item 1, and so on
    users, items = np.concatenate([chain, chain]), np.concatenate([chain, chain + 1])
    assert not k_core(users, items, 2).any()
    assert k_core(users, items, 1).all()


def test_repeated_pairs_count_each_time():
    assert k_core(np.zeros(3, int), np.zeros(3, int), 3).all()


@pytest.fixture(scope="module")
def network() -> saft.TextualInteractionNetwork:
    """Few moments, so that many interactions share one."""
    rng = np.random.default_rng(0)
    network = saft.demo_network(600).take(np.arange(120))
    return replace(
        network,
        users=rng.integers(0, 12, 120).astype(np.int32),
        items=rng.integers(0, 9, 120).astype(np.int32),
        times=rng.integers(0, 15, 120).astype("datetime64[ms]"),
    )


@pytest.mark.parametrize(("k", "least"), [(1, 1), (1, 7), (2, 5), (3, 20), (4, 40), (5, 60)])
def test_the_latest_core_is_the_first_that_is_large_enough_of_ever_longer_stretches(network, k, least):
    rows = latest_core(network, k, least)
    assert rows.tolist() == slow_latest(network, k, least)
    assert len(rows) >= least


def test_a_core_that_has_to_be_everything_is_everything(network):
    assert latest_core(network, 1, len(network)).tolist() == list(range(len(network)))


@pytest.mark.parametrize(
    ("k", "least", "message"),
    [
        (50, 10, "50-core of this network has 0 interactions, fewer than the 10 asked for"),
        (1, 121, "has 120 interactions, fewer than the 121"),
        (1, 0, "at least one interaction"),
    ],
)
def test_a_sample_that_cannot_be_had_is_refused(network, k, least, message):
    with pytest.raises(saft.InputError, match=message):
        latest_core(network, k, least)


def test_without_times_there_is_nothing_latest(network):
    with pytest.raises(saft.InputError, match=r"need times"):
        latest_core(replace(network, times=None), 1, 5)
    times = network.times.copy()
    times[[3, 8]] = "NaT"
    with pytest.raises(saft.InputError, match=r"2 have none \(rows 4, 9, counted from 1\)"):
        latest_core(replace(network, times=times), 1, 5)


def test_a_sample_of_a_real_network_is_dense_and_late(shared_data):
    whole = saft.read(shared_data / "rotten_tomatoes.parquet")
    rows = latest_core(whole, 5, 4000)
    sample = whole.take(rows)
    assert 4000 <= len(rows) < 4200
    assert sample.user_degrees[np.unique(sample.users)].min() >= 5
    assert sample.item_degrees[np.unique(sample.items)].min() >= 5
    assert np.median(sample.times.astype(int)) > np.median(whole.times.astype(int))
