"""Boosted trees: their columns, and the iteration that is kept."""

from dataclasses import replace

import numpy as np
import pytest

import saft
from saft.methods import find
from saft.methods.boosted import COLUMNS_PER_SPLIT, PULL, RATE, grow, log_loss


@pytest.fixture(scope="module")
def parts(toy):
    return saft.split(toy, seed=0)


def described(network, train, settings):
    """The method with its columns learnt, and these columns."""
    method = find("boosted").make(settings)
    method._learn_columns(network.showing(train))
    return method, method.columns(network.showing(train))


def test_columns_are_safts_side_features_structure_degrees_and_main_directions_of_the_sentence_vector(
    toy, toy_settings, parts
):
    method, columns = described(toy, parts.train, toy_settings)
    loader = method.assembly.loader()
    side = loader.side_features
    assert set(loader.evidence.groups()) == {
        "words",
        "labels",
        "alike",
        "likeness",
        "neighbours",
        "context",
        "style",
        "style around",
        "repeats",
    }
    np.testing.assert_array_equal(columns[:, : side.shape[1]], side)
    rest = columns[:, side.shape[1] :]
    assert rest.shape[1] == 16 + 16 + 1 + 2 + 32
    for row in (0, 50, len(toy) - 1):
        degrees = [(nodes == nodes[row]).sum() for nodes in (toy.users, toy.items)]
        np.testing.assert_allclose(rest[row, 33:35], np.log(degrees), rtol=1e-6)
    centred = loader.features.vectors - loader.features.vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(rest[:, 35:45]), np.abs(centred @ directions[:10].T), atol=1e-4)


def test_columns_of_a_training_row_do_not_depend_on_its_own_label(toy, toy_settings, parts):
    _, columns = described(toy, parts.train, toy_settings)
    for row in parts.train[:3]:
        labels = toy.labels.copy()
        labels[row] = 1 - labels[row]
        _, others = described(replace(toy, labels=labels), parts.train, toy_settings)
        np.testing.assert_allclose(others[row], columns[row], atol=1e-5)


def random_rows(seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Three classes, 0, 2 and 3, of which the columns say something."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(number, 5))
    scores = np.stack([columns[:, 0], columns[:, 1] * columns[:, 2], columns[:, 3]]) + rng.gumbel(size=(3, number))
    return columns, np.array([0, 2, 3])[scores.argmax(axis=0)]


def test_what_is_kept_is_the_model_at_the_least_validation_loss():
    from sklearn.ensemble import HistGradientBoostingClassifier

    (columns, targets), (valid, truth) = random_rows(0, 400), random_rows(1, 100)
    trees = grow(columns, targets, valid, truth, leaves=7, seed=3)
    losses = []
    for probabilities in trees.model.staged_predict_proba(valid):
        places = [trees.classes.tolist().index(label) for label in truth]
        losses.append(np.mean([-np.log(row[place]) for row, place in zip(probabilities, places, strict=True)]))
    assert trees.iterations == np.argmin(losses) + 1 < len(losses)
    assert trees.loss == pytest.approx(min(losses))
    alone = HistGradientBoostingClassifier(
        learning_rate=RATE, max_leaf_nodes=7, l2_regularization=PULL, max_features=COLUMNS_PER_SPLIT,
        early_stopping=False, random_state=3, max_iter=trees.iterations,
    ).fit(columns, targets)  # fmt: skip
    np.testing.assert_allclose(trees.predict_proba(valid), alone.predict_proba(valid), atol=1e-12)


def test_without_validation_rows_a_fixed_number_of_trees_is_grown():
    columns, targets = random_rows(0, 60)
    trees = grow(columns, targets, columns[:0], targets[:0], leaves=7, seed=0)
    assert trees.iterations == trees.model.n_iter_ == 100
    assert trees.predict_proba(columns[:0]).shape == (0, 3)


def test_classes_without_a_training_row_are_never_predicted_and_do_not_count_in_the_loss(toy, toy_settings, parts):
    assert log_loss(np.array([[0.5, 0.5], [0.1, 0.9]]), np.array([0, 2]), np.array([1, 2])) == -np.log(0.9)
    assert log_loss(np.ones((1, 1)), np.array([0]), np.array([1])) == 0.0
    rows = parts.train[toy.labels[parts.train] == 0]
    method = find("boosted").make(toy_settings | {"encoder": "none"}).fit(toy, rows, parts.valid)
    expected = np.tile([1.0, 0.0], (len(parts.test), 1))
    np.testing.assert_allclose(method.predict_proba(toy, parts.test), expected, atol=1e-12)
