"""Champion and challenger: the same rows, a paired bootstrap, and words that say what the figures say."""

import json

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.classifier.champion import (
    Comparison,
    Contest,
    _predicted,
    as_markdown,
    compare,
    contest_of,
    differences,
    interval,
    write_comparison,
)
from saft.classifier.parts import parts_of, split_of
from saft.classifier.retraining import as_known_by, grow
from saft.metrics import macro_f1
from tests.classifier.test_retraining import said

N = 400


def predictions(seed: int, rows: int = 60):
    """Labels, and predictions of which the second are right more often."""
    random = np.random.default_rng(seed)
    labels = random.choice(3, rows, p=[0.6, 0.3, 0.1])
    old, new = (np.where(random.random(rows) < right, labels, random.choice(3, rows)) for right in (0.5, 0.8))
    return labels, old, new


def test_a_resample_counts_as_rows_drawn_one_by_one():
    """The literal twin: every draw is written out as rows and scored by itself."""
    labels, old, new = predictions(0)
    found = differences(labels, old, new, 3, seed=7, resamples=200)
    kinds, counts = np.unique(np.stack([labels, old, new], axis=1), axis=0, return_counts=True)
    drawn = np.random.default_rng(7).multinomial(len(labels), counts / len(labels), size=200)
    for value, draw in zip(found, drawn, strict=True):
        rows = [kind for kind, count in zip(kinds.tolist(), draw.tolist(), strict=True) for _ in range(count)]
        truth, first, second = np.array(rows).T
        assert value == pytest.approx(macro_f1(truth, second, 3) - macro_f1(truth, first, 3))


def test_the_interval_is_that_of_a_bootstrap_by_loops():
    labels, old, new = predictions(1)
    low, high = interval(differences(labels, old, new, 3, seed=0))
    random, slow = np.random.default_rng(5), []
    for _ in range(2000):
        rows = random.integers(0, len(labels), len(labels))
        slow.append(macro_f1(labels[rows], new[rows], 3) - macro_f1(labels[rows], old[rows], 3))
    assert (low, high) == pytest.approx(np.quantile(slow, [0.025, 0.975]), abs=0.02)


def test_the_same_seed_gives_the_same_interval():
    assert contest_of(*predictions(2), 3, seed=4) == contest_of(*predictions(2), 3, seed=4)


def test_a_model_compared_with_itself_is_equally_good_for_certain():
    labels, old, _ = predictions(3)
    found = contest_of(labels, old, old, 3, seed=0)
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert found.verdict == "equally good"


def test_no_rows_give_no_figures_and_no_promotion():
    nothing = np.empty(0, np.int64)
    found = contest_of(nothing, nothing, nothing, 3, seed=0)
    assert found.verdict == "nothing to compare on"
    assert not Comparison(found, found, found, 3, [], "nothing").challenger_is_better


@pytest.mark.parametrize(
    ("old", "new", "low", "high", "words"),
    [
        (0.5, 0.6, 0.02, 0.2, "the new model is better by 10.0 points"),
        (0.5, 0.6, -0.02, 0.2, "the new model is better by 10.0 points, which may be chance"),
        (0.6, 0.5, -0.2, -0.01, "the old model is better by 10.0 points"),
    ],
)
def test_the_verdict_says_which_is_better_by_how_much_and_whether_that_may_be_chance(old, new, low, high, words):
    verdict = Contest(9, old, new, old, new, low, high).verdict
    assert verdict.startswith(words)
    assert ("chance" in verdict) == ("chance" in words)


@pytest.fixture(scope="module")
def pair(tiny_settings):
    """A model of 300 rows, its network with a hundred judged rows more, and a model of all."""
    everything = saft.demo_network(N)
    known = everything.take(np.arange(300))
    parts = parts_of(known, saft.split(known))
    split = split_of(parts)
    champion = SaftClassifier(**tiny_settings).fit(known.hiding(split.test), train=split.train, valid=split.valid)
    new = everything.take(np.arange(300, N)).hiding(np.arange(100))
    labels = everything.label_values()[300:].to_list()
    return champion, grow(champion, parts, new, said(labels), np.arange(300, N))


def test_what_a_model_says_of_its_own_network_is_what_the_classifier_says(pair):
    champion, grown = pair
    rows = split_of(grown.parts).test
    rows = rows[rows < 300]
    own = champion.predict_proba(champion.network_.take(rows)).argmax(axis=1)
    assert (_predicted(champion, champion.network_, rows) == own).all()


def test_the_old_model_sees_labels_of_its_classes_only(pair):
    champion, grown = pair
    seen = as_known_by(champion, grown.network)
    assert seen.classes.to_list() == champion.classes_.to_list()
    assert (seen.label_values() == grown.network.label_values()).all()


def test_a_model_against_itself_is_equal_on_every_set_of_rows(pair):
    champion, grown = pair
    comparison = compare(champion, champion, grown, "nothing")
    assert [found.difference for found in comparison.contests.values()] == [0, 0, 0]
    assert comparison.held_out.rows + comparison.judged_since.rows == comparison.everything.rows
    assert comparison.held_out.rows == 60
    assert comparison.judged_since.rows == pytest.approx(20, abs=2)


def test_the_report_is_written_for_programs_and_for_people(pair, tmp_path):
    comparison = compare(*pair[:1], *pair[:1], pair[1], "the old model's weights")
    write_comparison(comparison, tmp_path)
    stored = json.loads((tmp_path / "comparison.json").read_text())
    assert stored["better"] == "old"
    assert set(stored["contests"]) == set(comparison.contests)
    text = (tmp_path / "comparison.md").read_text()
    assert text == as_markdown(comparison)
    assert "Result: equally good." in text
    assert "| judged since | " in text
