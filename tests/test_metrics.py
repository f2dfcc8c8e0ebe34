"""Scores and calibration against the formulas written out, and against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import classification_report, f1_score
from sklearn.metrics import confusion_matrix as reference_confusion

from saft.metrics import (
    calibration_error,
    confusion_matrix,
    fit_temperature,
    macro_f1,
    micro_f1,
    reliability,
    score,
    softmax,
)


def drawn(rows: int = 400, classes: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels drawn from their softmax: perfectly calibrated by construction."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2, size=(rows, classes))
    draws = rng.random((rows, 1))
    return logits, (softmax(logits).cumsum(axis=1)[:, :-1] < draws).sum(axis=1)


def literal_f1(labels: np.ndarray, predictions: np.ndarray, code: int) -> float:
    pairs = list(zip(labels.tolist(), predictions.tolist(), strict=True))
    hits = sum(truth == code and found == code for truth, found in pairs)
    false_alarms = sum(truth != code and found == code for truth, found in pairs)
    misses = sum(truth == code and found != code for truth, found in pairs)
    precision = hits / (hits + false_alarms) if hits + false_alarms else 0.0
    recall = hits / (hits + misses) if hits + misses else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def literal_bins(labels: np.ndarray, probabilities: np.ndarray, bins: int) -> list[list[tuple[float, bool]]]:
    """(confidence, right) of the rows of each bin (lower edge, upper edge]."""
    found: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for label, row in zip(labels, probabilities, strict=True):
        for place in range(bins):
            if place / bins < row.max() <= (place + 1) / bins:
                found[place].append((row.max(), row.argmax() == label))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_is_the_mean_over_classes_that_occur_written_out(seed):
    rng = np.random.default_rng(seed)
    labels, predictions = rng.integers(3, size=40), rng.integers(5, size=40)  # classes 3 and 4 are only predicted
    expected = np.mean([literal_f1(labels, predictions, code) for code in sorted(set(labels.tolist()))])
    assert macro_f1(labels, predictions, 6) == pytest.approx(expected)
    assert macro_f1(labels, predictions, 6) == pytest.approx(
        f1_score(labels, predictions, labels=np.unique(labels), average="macro", zero_division=0)
    )


def test_micro_f1_is_that_of_scikit_learn_and_the_accuracy():
    logits, labels = drawn()
    predictions = logits.argmax(axis=1)
    assert micro_f1(labels, predictions, 4) == pytest.approx(f1_score(labels, predictions, average="micro"))
    assert micro_f1(labels, predictions, 4) == pytest.approx((labels == predictions).mean())


def test_a_class_that_is_never_predicted_has_f1_0_and_counts():
    assert macro_f1(np.array([0, 0, 1]), np.array([0, 0, 0]), 2) == pytest.approx(0.8 / 2)


def test_all_scores_are_those_of_scikit_learn():
    logits, labels = drawn()
    probabilities = softmax(logits)
    found = score(labels, probabilities)
    reference = classification_report(labels, probabilities.argmax(axis=1), output_dict=True, zero_division=0)
    assert found.macro_f1 == pytest.approx(reference["macro avg"]["f1-score"])
    assert found.accuracy == found.micro_f1 == pytest.approx(reference["accuracy"])
    for code, row in enumerate(found.per_class):
        expected = reference[str(code)]
        assert list(row.values()) == pytest.approx(list(expected.values()))
    np.testing.assert_array_equal(found.confusion, reference_confusion(labels, probabilities.argmax(axis=1)))
    assert found.calibration_error == calibration_error(labels, probabilities)


def test_a_class_without_rows_keeps_its_place():
    found = score(np.array([0, 0]), np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]]))
    assert found.confusion.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert found.per_class[1] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
    assert found.macro_f1 == pytest.approx(2 / 3)


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_calibration_error_is_the_gap_of_each_bin_written_out(bins):
    logits, labels = drawn()
    probabilities = softmax(logits, 0.5)
    expected = sum(
        len(rows) / len(labels) * abs(np.mean([right for _, right in rows]) - np.mean([c for c, _ in rows]))
        for rows in literal_bins(labels, probabilities, bins)
        if rows
    )
    assert calibration_error(labels, probabilities, bins) == pytest.approx(expected)


def test_reliability_is_what_each_bin_holds_and_nan_where_it_holds_nothing():
    logits, labels = drawn(60)
    probabilities = softmax(logits)
    found = reliability(labels, probabilities, bins=10)
    for place, rows in enumerate(literal_bins(labels, probabilities, 10)):
        assert found.count[place] == len(rows)
        mean = np.mean(rows, axis=0) if rows else (np.nan, np.nan)
        np.testing.assert_allclose([found.confidence[place], found.accuracy[place]], mean)
    assert found.count[0] == 0
    assert np.isnan(found.accuracy[0])


def test_a_confidence_on_an_edge_belongs_to_the_bin_below_it():
    tenths = np.arange(5, 11) / 10
    found = reliability(np.zeros(6, int), np.column_stack([tenths, 1 - tenths]), bins=10)
    assert found.count.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]


def test_calibrated_probabilities_have_a_small_error_and_sharpened_ones_a_large_one():
    logits, labels = drawn(20_000)
    assert calibration_error(labels, softmax(logits)) < 0.015
    assert calibration_error(labels, softmax(logits, 1 / 3)) > 0.1


def test_softmax_is_the_formula_written_out_and_does_not_overflow():
    logits, _ = drawn(5)
    expected = [[math.exp(x / 1.7) / sum(math.exp(y / 1.7) for y in row) for x in row] for row in logits.tolist()]
    np.testing.assert_allclose(softmax(logits, 1.7), expected)
    np.testing.assert_allclose(softmax(np.array([[1e5, 0.0]]), 0.05), [[1.0, 0.0]])
    assert softmax(np.empty((0, 3))).shape == (0, 3)
    with pytest.raises(ValueError, match="above 0"):
        softmax(logits, 0.0)


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_a_scaling_of_calibrated_logits(scale):
    logits, labels = drawn(20_000)
    assert fit_temperature(scale * logits, labels) == pytest.approx(scale, rel=0.03)


def test_the_temperature_is_the_best_of_a_fine_grid():
    logits, labels = drawn(150, seed=3)
    logits *= 2.2

    def literal_nll(temperature: float) -> float:
        doubt, total = 1 / (len(labels) + 2), 0.0
        for row, label in zip(logits, labels, strict=True):
            for place, probability in enumerate(softmax(row, temperature)):
                weight = 1 - doubt if place == label else doubt / (len(row) - 1)
                total -= weight * np.log(probability)
        return total

    grid = np.geomspace(0.5, 8, 800)
    best = grid[np.argmin([literal_nll(temperature) for temperature in grid])]
    assert fit_temperature(logits, labels) == pytest.approx(best, rel=0.005)


def test_the_temperature_stays_bounded_where_all_of_a_few_rows_are_right_or_all_are_wrong():
    logits = np.eye(3)
    sure = softmax(logits, fit_temperature(logits, np.arange(3)))
    np.testing.assert_allclose(np.diag(sure), 1 - 1 / 5, atol=1e-4)
    assert 19 < fit_temperature(logits, np.array([1, 2, 0])) <= 20


def test_without_rows_nothing_was_measured():
    none = np.empty(0, int)
    assert fit_temperature(np.empty((0, 3)), none) == 1.0
    assert math.isnan(macro_f1(none, none, 3))
    assert math.isnan(micro_f1(none, none, 3))
    found = score(none, np.empty((0, 3)))
    assert math.isnan(found.macro_f1)
    assert math.isnan(found.calibration_error)
    assert found.confusion.tolist() == [[0] * 3] * 3
    assert [row["support"] for row in found.per_class] == [0, 0, 0]


def test_hidden_labels_and_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="from 0 to 1; got -100"):
        confusion_matrix(np.array([-100, 0]), np.array([0, 0]), 2)
    with pytest.raises(ValueError, match="from 0 to 1; got -100"):
        fit_temperature(np.zeros((2, 2)), np.array([-100, 0]))
    with pytest.raises(ValueError, match="from 0 to 1; got 0 to 2"):
        macro_f1(np.array([0, 1]), np.array([0, 2]), 2)
    with pytest.raises(ValueError, match="3 labels do not fit 2"):
        micro_f1(np.zeros(3), np.zeros(2), 2)
    with pytest.raises(ValueError, match="3 labels need as many rows"):
        score(np.zeros(3), np.zeros((2, 2)))
