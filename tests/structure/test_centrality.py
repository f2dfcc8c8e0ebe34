"""Centrality embeddings against the dense spanning centrality."""

import numpy as np
import pytest

import saft
from saft.structure import CentralityEmbedding, centrality, spanning_centrality
from tests.structure.graphs import GRAPHS, components, connected, incidence, random_graph


def dense(users, items) -> np.ndarray:
    """diag(Bᵀ (B Bᵀ)⁺ B), written out."""
    oriented = incidence(users, items, sign=-1)
    return np.diag(oriented.T @ np.linalg.pinv(oriented @ oriented.T, rcond=1e-10) @ oriented)


@pytest.mark.parametrize("graph", GRAPHS)
def test_exact_spanning_centrality_is_the_dense_one_and_sums_to_nodes_minus_components(graph):
    users, items = GRAPHS[graph]
    exact = spanning_centrality(users, items)
    np.testing.assert_allclose(exact, dense(users, items), atol=1e-10)
    nodes = users.max() + items.max() + 2
    assert exact.sum() == pytest.approx(nodes - len(np.unique(components(users, items))))


@pytest.mark.parametrize("graph", GRAPHS)
def test_at_full_rank_squared_norms_are_the_spanning_centrality(graph):
    users, items = GRAPHS[graph]
    vectors = CentralityEmbedding(dim=users.max() + items.max() + 2).fit_transform(users, items)
    np.testing.assert_allclose((vectors**2).sum(axis=1), dense(users, items), atol=1e-8)
    assert np.isfinite(vectors).all()


def test_exact_spanning_centrality_takes_either_side_as_the_smaller_one():
    users, items = random_graph(30, 12, 90)
    np.testing.assert_allclose(spanning_centrality(users, items), spanning_centrality(items, users), atol=1e-10)


def test_exact_spanning_centrality_refuses_what_would_not_fit():
    with pytest.raises(saft.InputError, match=r"which has 12 nodes \(limit 10\)"):
        spanning_centrality(*random_graph(30, 12, 90), largest=10)


def test_bridges_have_centrality_one_and_repeated_pairs_share_theirs():
    users, items = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    np.testing.assert_allclose(spanning_centrality(users, items), [0.5, 0.5, 1, 1])


def test_the_iterated_spectrum_is_the_top_of_the_dense_one(monkeypatch):
    users, items = random_graph(400, 260, 1500)
    exact = CentralityEmbedding(dim=10).fit(users, items)
    monkeypatch.setattr(centrality, "DENSE_UP_TO", 0)
    iterated = CentralityEmbedding(dim=10).fit(users, items)
    np.testing.assert_allclose(iterated.values_, exact.values_, rtol=1e-9)
    np.testing.assert_allclose(iterated.transform(users, items), exact.transform(users, items), atol=1e-6)


def test_cut_off_the_spectral_embedding_is_a_lower_bound():
    users, items = random_graph(60, 40, 300)
    vectors = CentralityEmbedding(dim=12).fit_transform(users, items)
    assert ((vectors**2).sum(axis=1) <= dense(users, items) + 1e-9).all()


def test_the_sketch_is_unbiased_and_its_error_shrinks_like_one_over_the_root_of_k():
    """Mean relative error of ‖·‖² at k = 16, 64, 256, 1024: each fourfold k halves it (between 0.4 and 0.6)."""
    users, items = GRAPHS["three components"]
    truth = dense(users, items)
    errors = []
    for dim in (16, 64, 256, 1024):
        norms = [
            (CentralityEmbedding(dim, "sketch", seed).fit_transform(users, items) ** 2).sum(1) for seed in range(12)
        ]
        errors.append(np.abs(np.array(norms) / truth - 1).mean())
        np.testing.assert_allclose(np.mean(norms, axis=0), truth, rtol=5 / np.sqrt(12 * dim / 2))
    ratios = np.array(errors[1:]) / errors[:-1]
    assert ((ratios > 0.4) & (ratios < 0.6)).all()


def test_one_column_of_the_sketch_is_the_solution_of_the_dense_system():
    users, items = GRAPHS["three components"]
    rng = np.random.default_rng(9)
    right = rng.choice([-1.0, 1.0], size=(len(users), 3))
    oriented = incidence(users, items, sign=-1)
    expected = oriented.T @ np.linalg.pinv(oriented @ oriented.T, rcond=1e-10) @ oriented @ right
    graph = centrality.BipartiteGraph(users, items)
    potentials = centrality.laplacian_solve(
        graph, (oriented @ right)[: graph.n_users], (oriented @ right)[graph.n_users :]
    )
    np.testing.assert_allclose(potentials[0][users] - potentials[1][items], expected, atol=1e-5)


@pytest.mark.parametrize("method", ["spectral", "sketch"])
def test_the_same_seed_gives_the_same_embedding_bit_for_bit(method):
    users, items = random_graph(900, 800, 4000)
    first, again = (CentralityEmbedding(8, method, seed=3).fit_transform(users, items) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_a_new_user_with_one_interaction_is_a_bridge_in_the_sketch():
    users, items = connected()
    embedding = CentralityEmbedding(dim=64, method="sketch").fit(users, items)
    vector = embedding.transform(np.array([99]), np.array([3]))
    assert (vector**2).sum() == pytest.approx(1)


def test_folding_in_a_node_that_was_there_gives_the_same_spectral_vector():
    users, items = connected()
    embedding = CentralityEmbedding(dim=3).fit(users, items)
    mine = users == 2
    vectors = embedding.transform(np.full(mine.sum(), 50), items[mine])
    np.testing.assert_allclose(vectors, embedding.transform(users[mine], items[mine]), atol=1e-8)


def test_columns_beyond_the_rank_are_zero():
    users, items = GRAPHS["tree"]
    for method in ("spectral", "sketch"):
        vectors = CentralityEmbedding(dim=40, method=method).fit_transform(users, items)
        assert np.isfinite(vectors).all()
        assert vectors.shape == (len(users), 40)


def test_unknown_methods_are_refused_with_the_nearest_one():
    with pytest.raises(saft.InputError, match="Did you mean 'sketch'"):
        CentralityEmbedding(method="sketchy").fit(np.array([0]), np.array([0]))
