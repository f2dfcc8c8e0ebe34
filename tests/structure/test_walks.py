"""node2vec: walks follow the stated probabilities, and the matrix is the literal one."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

import saft
from saft.structure import Node2Vec
from saft.structure.bipartite import BipartiteGraph
from saft.structure.walks import Adjacency, random_walks, shifted_mutual_information
from tests.structure.graphs import connected


def test_walks_only_step_along_interactions():
    users, items = connected()
    graph = BipartiteGraph(users, items)
    walks = random_walks(Adjacency.of(graph), np.arange(graph.n_nodes), 10, np.random.default_rng(0))
    edges = set(zip(users.tolist(), (items + graph.n_users).tolist(), strict=True))
    for walk in walks.tolist():
        assert all((min(a, b), max(a, b)) in edges for a, b in itertools.pairwise(walk))


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 2.0), (4.0, 0.5)])
def test_second_steps_follow_the_return_and_in_out_parameters(p, q):
    """Star of item 0 with users 0 (twice) and 1, 2, 3: from item 0, having come from user 0."""
    users, items = np.array([0, 0, 1, 2, 3]), np.zeros(5, dtype=int)
    graph = BipartiteGraph(users, items)
    walks = random_walks(Adjacency.of(graph), np.zeros(40_000, dtype=int), 3, np.random.default_rng(1), p, q)
    weights = np.array([2 / p, 1 / q, 1 / q, 1 / q])
    observed = np.bincount(walks[:, 2], minlength=4)[:4]
    assert chisquare(observed, 40_000 * weights / weights.sum()).pvalue > 1e-3


def test_the_matrix_is_the_literal_count_of_pairs_within_the_window():
    walks = np.array([[0, 2, 1, 3], [1, 2, 1, 2]])
    counts = np.zeros((4, 4))
    for walk in walks:
        for a in range(4):
            for b in range(4):
                if a != b and abs(a - b) <= 2:
                    counts[walk[a], walk[b]] += 1
    totals = counts.sum(axis=1)
    with np.errstate(divide="ignore"):
        literal = np.maximum(np.log(counts * counts.sum() / np.outer(totals, totals)) - np.log(1.5), 0)
    np.testing.assert_allclose(shifted_mutual_information(walks, 4, 2, negatives=1.5).toarray(), literal)


def test_interactions_of_one_community_get_vectors_that_are_alike():
    network = saft.demo_network(3000)
    category = network.item_attributes["category"].to_numpy()[network.items]
    z = Node2Vec(dim=16).fit_transform(network.users, network.items)
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    alike = z @ z.T
    same = category[:, None] == category[None]
    assert alike[same].mean() > alike[~same].mean() + 0.1
