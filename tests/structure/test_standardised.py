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
    assert set(vectors) == {"distance", "centrality", "closeness"}
    assert np.abs(vectors.pop("closeness")).max() <= 1 + 1e-6  # a cosine, as it is
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
        == {"distance", "centrality", "closeness"}
        - {
            role
            for role, name in (("distance", distance), ("centrality", centrality), ("closeness", distance))
            if name == "none"
        }
    )
    for role in before:
        np.testing.assert_array_equal(before[role], after[role])


def test_folding_new_nodes_in_does_not_change_what_is_known(network):
    structure = Structure(dim=5).fit(network.users, network.items)
    before = structure.transform(network.users, network.items)
    structure.transform(np.array([network.n_users, 0]), np.array([0, network.n_items]))
    after = structure.transform(network.users, network.items)
    np.testing.assert_array_equal(before["distance"], after["distance"])


def test_closeness_is_the_cosine_of_the_users_and_the_items_place_in_the_graph():
    """Two parts, {0, 1} × {0, 1} and {2, 3} × {2, 3}, joined by one interaction: that one is far."""
    users = np.array([0, 0, 1, 1, 2, 2, 3, 3, 0])
    items = np.array([0, 1, 0, 1, 2, 3, 2, 3, 3])
    structure = Structure(dim=3).fit(users, items)
    found = structure.transform(users, items)["closeness"]
    raw = structure.embeddings["distance"].raw
    for row, (user, item) in enumerate(zip(users, items, strict=True)):
        one, other = raw.user_factors_[user], raw.item_factors_[item]
        expected = sum(one * other) / np.sqrt(sum(one**2)) / np.sqrt(sum(other**2))
        assert found[row, 0] == pytest.approx(expected, abs=1e-5)
    assert found.argmin() == 8
    assert found.shape == (9, 1)
    new = structure.transform(np.array([7, 9]), np.array([0, 9]))["closeness"][:, 0]
    assert new[0] > found[8, 0]  # a new user is near its only item
    assert new[1] == 0  # a pair that is nowhere
    assert "closeness" not in Structure("none", dim=3).fit(users, items).transform(users, items)
