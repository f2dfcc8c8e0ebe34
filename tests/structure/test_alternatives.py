"""The embeddings that the paper compares, each against a dense line graph written out."""

import numpy as np
import pytest

import saft
from saft.structure import (
    CENTRALITIES,
    DISTANCES,
    CommonNeighboursEmbedding,
    CommuteTimeEmbedding,
    PageRankEmbedding,
    SimRankEmbedding,
    alternatives,
    centrality,
    embedding,
)
from tests.structure.graphs import GRAPHS, components, connected, incidence, random_graph, transitions

EVERYTHING = DISTANCES | CENTRALITIES


def full(users, items) -> int:
    return users.max() + items.max() + 2


@pytest.mark.parametrize("graph", GRAPHS)
def test_common_neighbours_are_counted_as_on_the_dense_line_graph(graph):
    users, items = GRAPHS[graph]
    z = CommonNeighboursEmbedding(dim=full(users, items)).fit_transform(users, items)
    shared = incidence(users, items).T @ incidence(users, items)
    np.testing.assert_allclose(z @ z.T, shared @ shared, atol=1e-8)


def kernel_without_constants(users, items, dense):
    """What remains of a dense kernel of P on the span of V, without the constant of each component."""
    ends = incidence(users, items)
    _, sigma, right = np.linalg.svd(ends / np.sqrt(ends.sum(axis=1, keepdims=True)), full_matrices=False)
    spanned = right[sigma > 1e-9].T @ right[sigma > 1e-9]
    component = components(users, items)
    same = component[:, None] == component[None]
    spanned = spanned - same / same.sum(axis=1, keepdims=True)
    return spanned @ dense @ spanned


@pytest.mark.parametrize("graph", GRAPHS)
def test_pagerank_is_that_of_the_dense_walk_over_interactions(graph):
    users, items = GRAPHS[graph]
    z = PageRankEmbedding(dim=full(users, items), restart=0.2).fit_transform(users, items)
    walk = transitions(users, items)
    dense = 0.2 * np.linalg.inv(np.eye(len(users)) - 0.8 * walk)
    np.testing.assert_allclose(z @ z.T, kernel_without_constants(users, items, dense), atol=1e-8)


@pytest.mark.parametrize("graph", GRAPHS)
def test_simrank_is_the_dense_linearised_series(graph):
    users, items = GRAPHS[graph]
    z = SimRankEmbedding(dim=full(users, items), decay=0.6).fit_transform(users, items)
    walk = transitions(users, items)
    power, dense = np.eye(len(users)), np.zeros_like(walk)
    for step in range(200):
        dense += 0.4 * 0.6**step * power @ power.T
        power = power @ walk
    np.testing.assert_allclose(z @ z.T, kernel_without_constants(users, items, dense), atol=1e-8)


@pytest.mark.parametrize("graph", GRAPHS)
def test_commute_time_is_that_of_the_dense_laplacian(graph):
    users, items = GRAPHS[graph]
    z = CommuteTimeEmbedding(dim=full(users, items)).fit_transform(users, items)
    oriented = incidence(users, items, sign=-1)
    resistance = np.diag(oriented.T @ np.linalg.pinv(oriented @ oriented.T, rcond=1e-10) @ oriented)
    np.testing.assert_allclose((z**2).sum(axis=1), 2 * len(users) * resistance, rtol=1e-8)


def test_the_bottom_of_the_spectrum_is_found_by_solving_the_laplacian(monkeypatch):
    users, items = random_graph(400, 260, 1500)
    exact = CommuteTimeEmbedding(dim=6).fit(users, items)
    monkeypatch.setattr(alternatives, "DENSE_UP_TO", 0)
    iterated = CommuteTimeEmbedding(dim=6).fit(users, items)
    np.testing.assert_allclose(iterated.values_, exact.values_, rtol=1e-6)
    np.testing.assert_allclose(iterated.transform(users, items), exact.transform(users, items), atol=1e-3)


def test_commute_time_keeps_the_end_of_the_spectrum_that_centrality_cuts_off():
    users, items = random_graph(60, 40, 300)
    top = centrality.CentralityEmbedding(dim=200).fit(users, items).values_
    bottom = CommuteTimeEmbedding(dim=3).fit(users, items).values_
    np.testing.assert_allclose(bottom, np.sort(top[top > 0])[:3], rtol=1e-9)


@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_embedding_takes_every_graph_and_folds_new_nodes_in(name, graph):
    users, items = GRAPHS[graph]
    made = embedding(name, dim=6, seed=1).fit(users, items)
    z = made.transform(users, items)
    assert z.shape == (len(users), 6)
    assert np.isfinite(z).all()
    np.testing.assert_array_equal(z, embedding(name, dim=6, seed=1).fit_transform(users, items))
    new = made.transform(np.array([0, 90, 91]), np.array([70, 0, 70]))
    assert new.shape == (3, 6)
    assert np.isfinite(new).all()
    assert made.known_users_.sum() == len(np.unique(users))  # transform does not keep new nodes
    assert made.extend(np.array([90]), np.array([0])).known_users_[90]  # extend does


@pytest.mark.parametrize("name", EVERYTHING)
def test_the_type_of_the_codes_does_not_matter(name):
    """Also where users and items together do not fit into it."""
    users, items = random_graph(100, 90, 400)
    expected = embedding(name, dim=4).fit_transform(users, items)
    for dtype in (np.int8, np.uint8, np.uint64):
        made = embedding(name, dim=4).fit_transform(users.astype(dtype), items.astype(dtype))
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_embedding_takes_a_single_interaction_and_a_hub(name):
    assert np.isfinite(embedding(name, dim=4).fit_transform(np.array([0]), np.array([0]))).all()
    users, items = np.arange(2000), np.concatenate([np.zeros(1990, dtype=int), np.arange(10) % 3])
    assert np.isfinite(embedding(name, dim=4).fit_transform(users, items)).all()


@pytest.mark.parametrize("name", EVERYTHING)
def test_columns_beyond_the_rank_of_a_larger_graph_are_zero(name):
    """800 separate pairs: every interaction is alone in its component, and is its own bridge."""
    pairs = np.arange(800)
    z = embedding(name, dim=1000).fit_transform(pairs, pairs)
    assert np.isfinite(z).all()
    if name in ("centrality", "commute_time"):
        scale = 2 * len(pairs) if name == "commute_time" else 1
        np.testing.assert_allclose((z**2).sum(axis=1), scale, rtol=1e-6)
    elif name in ("distance", "pagerank", "simrank"):
        assert (z == 0).all()


def test_names_and_settings_are_checked():
    with pytest.raises(saft.InputError, match="Did you mean 'simrank'"):
        embedding("simrnk")
    for made, message in ((PageRankEmbedding(restart=0), "restart"), (SimRankEmbedding(decay=1), "decay")):
        with pytest.raises(saft.InputError, match=message):
            made.fit(*connected())


@pytest.mark.parametrize("name", EVERYTHING)
def test_transform_changes_no_table(name):
    users, items = random_graph(9, 7, 30)
    fitted = embedding(name, dim=4).fit(users, items).extend(np.array([9, 10]), np.array([0, 7]))
    before = {key: value.copy() for key, value in vars(fitted).items() if isinstance(value, np.ndarray)}
    fitted.transform(np.append(users, [11, 13]), np.append(items, [0, 9]))
    after = {key: value for key, value in vars(fitted).items() if isinstance(value, np.ndarray)}
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[key], after[key]) for key in before)
