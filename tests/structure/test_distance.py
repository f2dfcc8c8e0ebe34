"""The distance embedding against dense matrices written out from the definition.

Covers: structure.bipartite, structure.interface.
"""

import numpy as np
import pytest
from scipy.linalg import subspace_angles

import saft
from saft.structure import CentralityEmbedding, DistanceEmbedding, bipartite, distance
from tests.structure.graphs import (
    GRAPHS,
    beside,
    components,
    connected,
    incidence,
    random_graph,
    squared_distances,
    transitions,
)


def full_rank(users, items) -> int:
    return users.max() + items.max() + 2


@pytest.mark.parametrize("graph", GRAPHS)
def test_distance_matches_the_dense_pseudo_inverse(graph):
    """RD = ‖z − z'‖² + 2 − ‖v − v'‖² between different interactions of one component, to 1e-8."""
    users, items = GRAPHS[graph]
    embedding = DistanceEmbedding(dim=full_rank(users, items)).fit(users, items)
    z = embedding.transform(users, items)
    v = z * np.sqrt(1 - (1 + embedding.values_) / 2)
    resistance = np.linalg.pinv(np.eye(len(users)) - transitions(users, items), rcond=1e-10)
    diagonal = np.diag(resistance)
    expected = diagonal[:, None] + diagonal[None] - 2 * resistance
    component = components(users, items)
    pairs = (component[:, None] == component[None]) & ~np.eye(len(users), dtype=bool)
    measured = squared_distances(z) + 2 - squared_distances(v)
    np.testing.assert_allclose(measured[pairs], expected[pairs], atol=1e-8)


def test_the_papers_version_without_the_correction_is_far_off():
    """Why the correction is there: on this graph leaving it out is wrong by more than a fifth."""
    users, items = connected()
    z = DistanceEmbedding(dim=full_rank(users, items)).fit_transform(users, items)
    resistance = np.linalg.pinv(np.eye(len(users)) - transitions(users, items), rcond=1e-10)
    expected = np.diag(resistance)[:, None] + np.diag(resistance)[None] - 2 * resistance
    apart = ~np.eye(len(users), dtype=bool)
    assert (np.abs(squared_distances(z)[apart] / expected[apart] - 1)).max() > 0.2


@pytest.mark.parametrize("alpha", [0.3, 0.9])
@pytest.mark.parametrize("graph", ["connected", "three components", "repeated pairs"])
def test_katz_damping_matches_the_dense_sum_over_walks(graph, alpha):
    """Z Zᵀ = Σ (αP)^l with V Vᵀ in place of the identity at l = 0, and without the constant of each component."""
    users, items = GRAPHS[graph]
    z = DistanceEmbedding(dim=full_rank(users, items), alpha=alpha).fit_transform(users, items)
    walk = transitions(users, items)
    power, total = np.eye(len(users)), np.zeros_like(walk)
    for _ in range(600):
        power = alpha * power @ walk
        total += power
    normalised = incidence(users, items) / np.sqrt(incidence(users, items).sum(axis=1, keepdims=True))
    _, sigma, right = np.linalg.svd(normalised, full_matrices=False)
    spanned = right[sigma > 1e-9].T @ right[sigma > 1e-9]
    component = components(users, items)
    same = component[:, None] == component[None]
    constant = same / same.sum(axis=1, keepdims=True) / (1 - alpha)
    np.testing.assert_allclose(z @ z.T, spanned + total - constant, atol=1e-8)


@pytest.mark.parametrize("iterated", [False, True])
def test_the_bipartite_route_spans_the_same_subspace_as_a_dense_svd_of_the_incidence(monkeypatch, iterated):
    users, items = beside(random_graph(400, 260, 1500), random_graph(40, 30, 150))
    if iterated:
        monkeypatch.setattr(distance, "DENSE_UP_TO", 0)
    ends = incidence(users, items)
    _, sigma, right = np.linalg.svd(ends / np.sqrt(ends.sum(axis=1, keepdims=True)), full_matrices=False)
    useful = np.flatnonzero(sigma**2 < 2 - 1e-9)
    dim = int(np.argmax(-np.diff(sigma[useful[:30]]))) + 1  # where the gap is widest the subspace is well defined
    embedding = DistanceEmbedding(dim=dim).fit(users, items)
    angles = subspace_angles(embedding.transform(users, items), right[useful[:dim]].T)
    assert angles.max() < 1e-6
    np.testing.assert_allclose(1 + embedding.values_, sigma[useful[:dim]] ** 2, rtol=1e-8)


def test_every_null_direction_is_dropped_however_many_components_there_are():
    pairs = [(np.array([0]), np.array([0]))] * 90
    users, items = beside(*pairs, connected())
    z = DistanceEmbedding(dim=64).fit_transform(users, items)
    alone = DistanceEmbedding(dim=64).fit_transform(*connected())
    np.testing.assert_allclose(z[90:] @ z[90:].T, alone @ alone.T, atol=1e-8)
    assert np.abs(z[:90]).max() < 1e-8


@pytest.mark.parametrize("graph", GRAPHS)
def test_columns_beyond_the_rank_are_zero_and_nothing_is_nan(graph):
    users, items = GRAPHS[graph]
    z = DistanceEmbedding(dim=100).fit_transform(users, items)
    assert z.shape == (len(users), 100)
    assert np.isfinite(z).all()
    assert (z[:, full_rank(users, items) :] == 0).all()


def test_transform_of_the_fitted_interactions_is_the_fitted_embedding_and_works_for_any_known_pair():
    users, items = connected()
    embedding = DistanceEmbedding(dim=5).fit(users, items)
    np.testing.assert_array_equal(embedding.transform(users, items), embedding.fit_transform(users, items))
    one = embedding.transform(np.array([3]), np.array([2]))
    np.testing.assert_allclose(one[0], embedding.user_factors_[3] + embedding.item_factors_[2])


@pytest.mark.parametrize("iterated", [False, True])
def test_the_same_seed_gives_the_same_embedding_bit_for_bit(monkeypatch, iterated):
    users, items = random_graph(300, 250, 1200)
    if iterated:
        monkeypatch.setattr(distance, "DENSE_UP_TO", 0)
    first, again = (DistanceEmbedding(dim=16, seed=5).fit_transform(users, items) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_signs_do_not_depend_on_the_start(monkeypatch):
    monkeypatch.setattr(distance, "DENSE_UP_TO", 0)
    users, items = random_graph(300, 250, 1200)
    first, other = (DistanceEmbedding(dim=8, seed=seed).fit_transform(users, items) for seed in (1, 2))
    np.testing.assert_allclose(first, other, atol=1e-6)


@pytest.mark.parametrize(("side", "bound"), [("user", 0.2), ("item", 0.4)])
def test_a_held_out_node_is_folded_in_close_to_where_it_was(side, bound):
    """Median error of inner products with all other interactions, measured: users 0.12, items 0.30 of their size."""
    network = saft.demo_network(6000, seed=2)
    users, items = network.users, network.items
    nodes = users if side == "user" else items
    whole = DistanceEmbedding(dim=32).fit(users, items)
    everything = whole.transform(users, items)
    busy = np.flatnonzero(np.bincount(nodes) >= 8)[::30]
    errors = []
    for node in busy:
        out = nodes == node
        part = DistanceEmbedding(dim=32).fit(users[~out], items[~out])
        folded = part.transform(users[out], items[out]) @ part.transform(users[~out], items[~out]).T
        truth = everything[out] @ everything[~out].T  # inner products: coordinates turn, geometry does not
        errors.append(np.linalg.norm(folded - truth) / np.linalg.norm(truth))
    assert np.median(errors) < bound


def test_extending_keeps_known_nodes_and_fills_in_chains_of_new_ones():
    users, items = connected()
    embedding = DistanceEmbedding(dim=6).fit(users, items)
    before = embedding.user_factors_.copy()
    # User 20 has the known item 0 and the new item 30; item 30 also has the new user 21; (22, 40) has no known node.
    embedding.extend(np.array([20, 20, 21, 22]), np.array([0, 30, 30, 40]))
    np.testing.assert_array_equal(embedding.user_factors_[: len(before)], before)
    np.testing.assert_allclose(embedding.user_factors_[20], embedding.item_factors_[0] / embedding.values_)
    assert np.abs(embedding.user_factors_[21]).max() > 0
    assert (embedding.transform(np.array([22]), np.array([40])) == 0).all()


def test_folding_in_a_node_that_was_there_gives_the_same_vector():
    """For interactions with known items only the definition N φ = λ φ returns exactly what the fit had."""
    users, items = connected()
    embedding = DistanceEmbedding(dim=6).fit(users, items)
    copied = np.full((users == 2).sum(), 50)
    vectors = embedding.transform(copied, items[users == 2])
    np.testing.assert_allclose(vectors, embedding.transform(users[users == 2], items[users == 2]), atol=1e-8)


def test_codes_without_interactions_are_new_nodes():
    embedding = DistanceEmbedding(dim=3).fit(np.array([0, 0, 5, 5, 7]), np.array([1, 3, 3, 1, 1]))
    assert embedding.known_users_.tolist() == [True, False, False, False, False, True, False, True]
    assert np.isfinite(embedding.transform(np.array([1]), np.array([2]))).all()


def test_parts_that_a_single_interaction_joins_are_told_apart_also_in_single_precision(monkeypatch):
    """1 − λ is 7e-6 here, and a quarter of a million interactions are computed in single precision."""
    users, items = beside(random_graph(9_000, 4_000, 125_000), random_graph(9_000, 4_000, 125_000))
    users, items = np.append(users, 0), np.append(items, items.max())
    single = DistanceEmbedding(dim=4).fit(users, items)
    monkeypatch.setattr(bipartite, "SINGLE_PRECISION_FROM", 10**9)
    double = DistanceEmbedding(dim=4).fit(users, items)
    assert 0 < 1 - double.values_[0] < 5e-5
    np.testing.assert_allclose(1 - single.values_, 1 - double.values_, rtol=1e-3)
    z = single.transform(users, items)[:-1, 0]
    assert np.isfinite(z).all()
    assert np.sign(z[:125_000]).sum() == -np.sign(z[125_000:]).sum()


@pytest.mark.parametrize("made", [DistanceEmbedding(8), CentralityEmbedding(8), CentralityEmbedding(8, "sketch")])
def test_a_hub_with_a_million_interactions_and_users_with_one_are_fine(made):
    users = np.concatenate([np.arange(1_000_000), np.arange(500)])
    items = np.concatenate([np.zeros(1_000_000, dtype=int), 1 + np.arange(500) % 3])
    z = made.fit_transform(users, items)
    assert np.isfinite(z).all()
    assert (np.abs(z).max(axis=0) > 1e-5).sum() >= 3  # four items: three directions beside the null one


@pytest.mark.parametrize(
    ("settings", "arrays", "message"),
    [
        ({"alpha": 1.5}, ([0], [0]), "alpha has to be"),
        ({"dim": 0}, ([0], [0]), "at least one dimension"),
        ({}, ([], []), "no interactions"),
        ({}, ([0, 1], [0]), "one entry per interaction"),
        ({}, ([-1], [0]), "negative"),
        ({}, ([0.5], [0]), "integer codes"),
    ],
)
def test_impossible_settings_and_arrays_are_refused(settings, arrays, message):
    with pytest.raises(saft.InputError, match=message):
        DistanceEmbedding(**settings).fit(*(np.array(part) for part in arrays))
