"""Both embeddings on a scale that suits a model, saved and restored."""

import numpy as np
import pytest

import saft
from saft.structure.standardised import FARTHEST, Structure


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(400)


def test_columns_have_mean_zero_and_spread_one_apart_from_what_is_cut_off(network):
    vectors = Structure(dim=6).fit(network.users, network.items).transform(network.users, network.items)
    assert set(vectors) == {"distance", "centrality"}
    for values in vectors.values():
        assert values.dtype == np.float32
        assert np.abs(values).max() <= FARTHEST
        usual = np.abs(values).max(axis=0) < FARTHEST
        np.testing.assert_allclose(values[:, usual].mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(values[:, usual].std(axis=0), 1, atol=1e-4)


@pytest.mark.parametrize(
    ("distance", "centrality"), [("node2vec", "sketch"), ("shortest_path", "none"), ("none", "none")]
)
def test_what_is_restored_transforms_as_what_was_saved(network, distance, centrality):
    first = Structure(distance, centrality, dim=5).fit(network.users, network.items)
    second = Structure(distance, centrality, dim=5).restore(first.arrays())
    users, items = np.append(network.users, network.n_users), np.append(network.items, 3)  # a new user as well
    before, after = first.transform(users, items), second.transform(users, items)
    assert (
        before.keys()
        == after.keys()
        == {"distance", "centrality"}
        - {role for role, name in (("distance", distance), ("centrality", centrality)) if name == "none"}
    )
    for role in before:
        np.testing.assert_array_equal(before[role], after[role])


def test_folding_new_nodes_in_does_not_change_what_is_known(network):
    structure = Structure(dim=5).fit(network.users, network.items)
    before = structure.transform(network.users, network.items)
    structure.transform(np.array([network.n_users, 0]), np.array([0, network.n_items]))
    after = structure.transform(network.users, network.items)
    np.testing.assert_array_equal(before["distance"], after["distance"])
