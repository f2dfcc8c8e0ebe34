"""Neighbour samples follow their probabilities; batches cover every seed row once and share nodes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import saft
from saft.learning.sampling import (
    all_neighbours,
    batch_rows,
    encoded_per_seed_row,
    fixed_keys,
    fixed_neighbours,
    neighbour_weights,
    plan_batches,
    sample_neighbours,
)
from saft.structure import CentralityEmbedding, DistanceEmbedding


def sampled(nodes, most, weights=None, seed=0, n_nodes=None):
    nodes = np.asarray(nodes)
    candidates = all_neighbours(nodes, n_nodes or int(nodes.max()) + 1)
    return sample_neighbours(candidates, most, np.random.default_rng(seed), weights)


def literal_inclusion(weights, most) -> np.ndarray:
    """Probability that each candidate is among ``most`` drawn one by one without replacement: all orders, summed."""
    chance = np.zeros(len(weights))
    for order in itertools.permutations(range(len(weights)), most):
        probability, left = 1.0, weights.sum()
        for pick in order:
            probability *= weights[pick] / left
            left -= weights[pick]
        chance[list(order)] += probability
    return chance


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1], [1, 2, 3, 4, 10], [0.01, 5, 5, 0.5, 1000]])
def test_frequencies_match_the_stated_probabilities(most, weights):
    weights = np.array(weights, dtype=float)
    copies = 20_000  # as many nodes with the same five candidates each
    nodes = np.repeat(np.arange(copies), 5)
    sample = sampled(nodes, most, np.tile(weights, copies), seed=1)
    assert (np.diff(sample.starts) == most).all()
    observed = np.bincount(sample.rows % 5, minlength=5)
    expected = literal_inclusion(weights, most) * copies
    # One draw is a multinomial. Several are negatively dependent, which only makes the statistic smaller.
    assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3


@settings(max_examples=80, deadline=None)
@given(
    nodes=st.lists(st.integers(0, 8), min_size=1, max_size=60),
    most=st.integers(1, 6),
    seed=st.integers(0, 99),
    weighted=st.booleans(),
)
def test_no_neighbour_comes_twice_none_is_of_another_node_and_none_is_missing(nodes, most, seed, weighted):
    nodes = np.array(nodes)
    weights = np.random.default_rng(seed).random(len(nodes)) + 0.1 if weighted else None
    sample = sampled(nodes, most, weights, seed, n_nodes=10)
    assert len(np.unique(sample.rows)) == len(sample.rows)
    for node in range(10):
        rows = sample.of(np.array([node]))
        assert (nodes[rows] == node).all()
        assert len(rows) == min(most, (nodes == node).sum())


def test_the_same_seed_gives_the_same_sample_and_another_seed_another():
    nodes = np.repeat(np.arange(50), 20)
    first, again, other = (sampled(nodes, 5, seed=seed).rows.tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_weights_of_zero_are_never_drawn_unless_all_of_a_node_are_zero():
    nodes = np.repeat([0, 1, 2], 4)
    weights = np.array([0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0.0])
    for seed in range(20):
        sample = sampled(nodes, 2, weights, seed)
        assert sample.of(np.array([0])).tolist() == [2]
        assert len(sample.of(np.array([1]))) == 2
        assert 11 not in sample.rows


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_scale_of_weights_does_not_matter(scale):
    nodes, weights = np.repeat(np.arange(40), 12), np.random.default_rng(0).random(480)
    np.testing.assert_array_equal(sampled(nodes, 3, weights).rows, sampled(nodes, 3, weights * scale).rows)


def test_weights_are_those_of_the_definition_written_out():
    rng = np.random.default_rng(0)
    nodes, vectors = rng.integers(6, size=40), rng.standard_normal((40, 3))
    literal = [
        max(0.0, sum(vectors[other] for other in np.flatnonzero(nodes == nodes[x])) @ vectors[x]) for x in range(40)
    ]
    np.testing.assert_allclose(neighbour_weights("distance", nodes, 8, vectors), literal)
    seed_rows = np.array([3, 8, 20])
    literal = [
        max(0.0, float(sum((vectors[t] for t in seed_rows if nodes[t] == nodes[x]), np.zeros(3)) @ vectors[x]))
        for x in range(40)
    ]
    np.testing.assert_allclose(neighbour_weights("distance", nodes, 8, vectors, seed_rows), literal)
    np.testing.assert_allclose(neighbour_weights("centrality", nodes, 8, vectors), (vectors**2).sum(axis=1))
    assert neighbour_weights("random", nodes, 8) is None


def test_a_hub_of_a_million_interactions_is_sampled_like_any_other_node():
    nodes = np.concatenate([np.zeros(1_000_000, dtype=np.int32), np.arange(1, 1000, dtype=np.int32)])
    sample = sampled(nodes, 5)
    assert np.diff(sample.starts).tolist() == [5] + [1] * 999


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(3000)


@pytest.mark.parametrize("group_size", [1, 4, 50])
def test_batches_hold_every_seed_row_once(network, group_size):
    seed_rows = np.arange(0, 3000, 2)
    batches = plan_batches(network.users, network.items, seed_rows, 64, group_size=group_size, seed=3)
    assert [len(batch) for batch in batches[:-1]] == [64] * (len(batches) - 1)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), seed_rows)
    again = plan_batches(network.users, network.items, seed_rows, 64, group_size=group_size, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))


def test_a_batch_holds_its_seed_rows_first_and_each_interaction_once(network):
    of_users = sampled(network.users, 3)
    of_items = sampled(network.items, 3)
    seed_rows = np.array([5, 17, 900])
    rows = batch_rows(seed_rows, network.users, network.items, of_users, of_items)
    assert rows[:3].tolist() == [5, 17, 900]
    expected = set(seed_rows.tolist())
    for row in seed_rows:
        expected |= set(of_users.of(network.users[[row]]).tolist()) | set(of_items.of(network.items[[row]]).tolist())
    assert set(rows.tolist()) == expected
    assert len(rows) == len(expected)


def test_seed_rows_that_share_nodes_need_fewer_neighbours(network):
    of_users, of_items = sampled(network.users, 5), sampled(network.items, 5)
    costs = []
    for group_size in (1, 4, 16):
        batches = plan_batches(network.users, network.items, np.arange(3000), 64, group_size=group_size)
        costs.append(encoded_per_seed_row(batches, network.users, network.items, of_users, of_items))
    assert costs[0] > costs[1] > costs[2] > 1


@pytest.mark.parametrize("kind", ["distance", "centrality", "random"])
def test_every_kind_of_sampling_works_on_real_embeddings(network, kind):
    made = {"distance": DistanceEmbedding(dim=8), "centrality": CentralityEmbedding(dim=8)}.get(kind)
    vectors = None if made is None else made.fit_transform(network.users, network.items)
    weights = neighbour_weights(kind, network.users, network.n_users, vectors)
    sample = sampled(network.users, 5, weights)
    assert (np.diff(sample.starts) >= 1).all()
    assert np.diff(sample.starts).max() == 5


def test_impossible_requests_are_refused():
    nodes = np.array([0, 0, 1])
    with pytest.raises(saft.InputError, match="at least one neighbour"):
        sampled(nodes, 0)
    with pytest.raises(saft.InputError, match="finite and not below 0"):
        sampled(nodes, 1, np.array([1.0, -1.0, 1.0]))
    with pytest.raises(saft.InputError, match="Did you mean 'random'"):
        neighbour_weights("radnom", nodes, 2)
    with pytest.raises(saft.InputError, match="needs the embedding"):
        neighbour_weights("distance", nodes, 2)
    with pytest.raises(saft.InputError, match="at least one seed row"):
        plan_batches(nodes, nodes, nodes, 0)


def test_a_row_in_a_fixed_sample_stays_in_it_when_other_rows_are_left_out():
    nodes = np.random.default_rng(0).integers(0, 20, 500)
    whole = fixed_neighbours(all_neighbours(nodes, 20), 4, seed=3)
    shorter = fixed_neighbours(all_neighbours(nodes[:450], 20), 4, seed=3)
    for node in range(20):
        ours, theirs = set(whole.of(np.array([node]))), set(shorter.of(np.array([node])))
        assert len(ours) == 4
        assert {row for row in ours if row < 450} <= theirs  # drawn from all, so drawn from fewer too


def test_fixed_keys_are_exponential_and_change_with_the_seed():
    keys = fixed_keys(np.arange(100_000), seed=1)
    assert abs(keys.mean() - 1) < 0.02
    assert abs(np.median(keys) - np.log(2)) < 0.02
    assert abs(np.corrcoef(keys, fixed_keys(np.arange(100_000), seed=2))[0, 1]) < 0.02
