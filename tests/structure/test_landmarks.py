"""Shortest paths on the line graph, against a literal search."""

import numpy as np
import pytest

from saft.structure import ShortestPathEmbedding
from tests.structure.graphs import GRAPHS, incidence, random_graph


def literal_distances(users, items) -> np.ndarray:
    """Breadth-first over interactions that share an end; the same pair is at distance 0."""
    touching = incidence(users, items).T @ incidence(users, items) > 0
    distance = np.full((len(users),) * 2, np.inf)
    distance[(users[:, None] == users) & (items[:, None] == items)] = 0
    for hop in range(1, len(users) + 1):
        reached = (touching @ (distance == hop - 1) > 0) & np.isinf(distance)
        distance[reached] = hop
    return distance


@pytest.mark.parametrize("graph", GRAPHS)
def test_columns_are_nearness_to_the_landmarks_on_the_dense_line_graph(graph):
    users, items = GRAPHS[graph]
    made = ShortestPathEmbedding(dim=5, seed=2).fit(users, items)
    distance = literal_distances(users, items)
    for column, (user, item) in enumerate(zip(made.landmark_users_, made.landmark_items_, strict=True)):
        landmark = np.flatnonzero((users == user) & (items == item))[0]
        np.testing.assert_allclose(made.transform(users, items)[:, column], 1 / (1 + distance[landmark]))


def test_a_new_user_is_one_hop_further_than_its_nearest_item():
    users, items = GRAPHS["tree"]
    made = ShortestPathEmbedding(dim=2, seed=0).fit(users, items)
    hops = made.extend(np.array([9, 9]), np.array([0, 2])).user_factors_[9]
    np.testing.assert_array_equal(hops, 1 + np.minimum(made.item_factors_[0], made.item_factors_[2]))


def test_an_interaction_without_a_path_to_a_landmark_is_far_from_all():
    users, items = random_graph(9, 7, 30)
    fitted = ShortestPathEmbedding(dim=4).fit(users, items)
    assert not fitted.transform(np.array([20]), np.array([30])).any()
    assert not fitted.extend(np.array([20]), np.array([30])).transform(np.array([20]), np.array([30])).any()
    assert fitted.transform(np.array([21]), items[:1]).any()
