"""What trees are shown, where it stands among the side features, and how much they count beside the regression.

Covers: features.trees.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_softmax

from saft.features.folds import FOLDS, VIEWS
from saft.features.trees import SEEN_DIMENSIONS, SideFeatures, TreeModel, mixing_weight, tree_columns
from tests.features.test_evidence import made

N = 300


def summed_loss(logits, targets) -> float:
    return -sum(log_softmax(row)[target] for row, target in zip(logits, targets, strict=True))


@pytest.mark.parametrize("sure", [0.0, 0.5, 1.0, 3.0])
def test_the_mixing_weight_is_the_best_of_21(sure):
    rng, targets = np.random.default_rng(0), np.arange(90) % 3
    by_regression = rng.normal(size=(90, 3)) + np.eye(3)[targets]
    by_trees = rng.normal(size=(90, 3)) + sure * np.eye(3)[targets]
    best, least = 0.0, np.inf
    for step in range(21):
        weight = step / 20
        loss = summed_loss((1 - weight) * by_regression + weight * by_trees, targets)
        if loss < least - 1e-9:
            best, least = weight, loss
    gain = summed_loss(by_regression, targets) - least
    assert mixing_weight(by_regression, by_trees, targets, 0.0) == pytest.approx(best)
    assert mixing_weight(by_regression, by_trees, targets, gain * 0.99) == pytest.approx(best)
    assert mixing_weight(by_regression, by_trees, targets, gain * 1.01 + 1e-6) == 0


def test_trees_that_say_what_the_regression_says_or_worse_do_not_count():
    logits, targets = np.random.default_rng(0).normal(size=(90, 3)), np.arange(90) % 3
    assert mixing_weight(logits, logits, targets, 3.0) == 0
    assert mixing_weight(9 * np.eye(3)[targets], logits, targets, 0.0) == 0
    assert mixing_weight(logits, 9 * np.eye(3)[targets], targets, 3.0) == 1


def test_trees_see_the_features_the_first_dimensions_of_every_embedding_and_the_degrees():
    evidence, rng = made(), np.random.default_rng(0)
    structure = {"distance": rng.normal(size=(7, 11)), "centrality": rng.normal(size=(7, 3))}
    expected = [
        [
            *evidence.features()[row],
            *structure["distance"][row][:SEEN_DIMENSIONS],
            *structure["centrality"][row],
            *(np.log(1 + degree) for degree in evidence.degrees[row]),
        ]
        for row in range(7)
    ]
    found = tree_columns(evidence, structure)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert found.dtype == np.float32
    np.testing.assert_allclose(tree_columns(evidence, {}), evidence.features(), atol=1e-4)  # no structure, no degrees
    nobody = evidence.take(np.arange(0))
    assert tree_columns(nobody, {role: rows[:0] for role, rows in structure.items()}).shape == (0, found.shape[1])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_where_nothing_is_known_trees_see_zeros_and_no_rounding(kind):
    """Many rows have this zero. Trees would split them by the last bit, which is another in a growing network."""
    unknown = made(200).without_words().without_labels().without_neighbours_texts().without_degrees()
    unknown = replace(unknown, alike={side: weights.astype(kind) for side, weights in unknown.alike.items()})
    assert not tree_columns(unknown, {"distance": np.zeros((200, 2))}).any()


def test_side_features_are_the_evidence_and_then_what_the_trees_say_in_the_view_of_each_row():
    evidence, rng = made(N), np.random.default_rng(0)
    structure = {"distance": rng.normal(size=(N, 4))}
    columns, targets = tree_columns(evidence, structure), (evidence.log_odds[:, 0] > 0).astype(np.int64)
    model = TreeModel.fit(columns, targets, 3, np.arange(N) % FOLDS, seed=0)
    asked = SideFeatures(evidence, structure, model)
    some = asked.of(np.arange(0, N, 3))  # before all of them: what was said is kept
    found = asked.of(np.arange(N))
    np.testing.assert_array_equal(some, found[::3])
    np.testing.assert_array_equal(asked.of(np.array([5, 5, 2])), found[[5, 5, 2]])
    assert asked.of(np.arange(0)).shape == (0, found.shape[1])
    np.testing.assert_array_equal(found[:, :-3], evidence.features())
    for row in range(0, N, 17):
        expected = model.log_odds(columns[[row]], evidence.views[[row]])[0]
        np.testing.assert_allclose(found[row, -3:], expected, atol=1e-6)
    np.testing.assert_array_equal(SideFeatures(evidence, structure, None).of(np.arange(N)), evidence.features())
    assert len(np.unique(evidence.views)) == VIEWS
