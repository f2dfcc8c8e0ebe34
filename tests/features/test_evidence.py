"""Counts and sums as numbers for a linear model, against the formulas written out."""

from dataclasses import fields, replace

import numpy as np
import pytest

from saft.features.context import PRIOR
from saft.features.evidence import ALIKE_PRIOR_WEIGHT, PRIOR_WEIGHT, Evidence
from saft.features.folds import VIEWS
from saft.features.ngrams import LARGEST

ROWS, CLASSES, READERS, STYLE = 7, 3, 2, 2
SIDES = ("user", "item")
NOTHING_READ = {name: np.empty((ROWS, 0)) for name in ("log_odds", "own_context", "style", "repeats")} | {"around": {}}


def made(rows: int = ROWS, **changes) -> Evidence:
    rng = np.random.default_rng(0)

    def by_side(draw):
        return {side: draw() for side in SIDES}

    parts = {
        "log_odds": rng.normal(size=(rows, READERS * CLASSES)),
        "totals": rng.integers(0, 50, (rows, CLASSES)).astype(float),
        "labels": by_side(lambda: rng.integers(0, 4, (rows, CLASSES)).astype(float)),
        "alike": by_side(lambda: rng.uniform(0, 2, (rows, CLASSES))),
        "likeness": by_side(lambda: rng.uniform(-1, 1, (rows, 2))),
        "words": by_side(lambda: np.hstack([rng.integers(0, 4, (rows, 1)), rng.normal(size=(rows, 6))])),
        "own_context": rng.normal(scale=2, size=(rows, CLASSES)),
        "style": rng.normal(size=(rows, STYLE)),
        "around": by_side(lambda: np.hstack([rng.integers(0, 4, (rows, 1)), rng.normal(size=(rows, CLASSES + STYLE))])),
        "repeats": rng.integers(1, 4, (rows, 1)).astype(float),
        "degrees": rng.integers(1, 9, (rows, 2)).astype(float),
        "views": rng.integers(0, VIEWS, rows),
    }
    return Evidence(**parts | changes)


def by_hand(evidence: Evidence, row: int) -> list[float]:
    total = sum(evidence.totals[row]) + CLASSES
    overall = [(count + 1) / total for count in evidence.totals[row]]
    found = list(evidence.log_odds[row])
    for by_side, prior in ((evidence.labels, PRIOR_WEIGHT), (evidence.alike, ALIKE_PRIOR_WEIGHT)):
        for counts in by_side.values():
            number = sum(counts[row])
            for count, share in zip(counts[row], overall, strict=True):
                found.append(np.log((count + prior * share) / (number + prior) / share))
            found.append(np.log(1 + number * PRIOR_WEIGHT / prior))
    for both in evidence.likeness.values():
        found += list(both[row])
    for sums in evidence.words.values():
        number = sums[row][0]
        found += [np.log(1 + number), *(said / (number + 1) for said in sums[row][1:])]
    for label in range(CLASSES):
        around = sum(sums[row][1 + label] / (sums[row][0] + PRIOR) for sums in evidence.around.values())
        found.append(min(max(evidence.own_context[row][label] + around, -LARGEST), LARGEST))
    found += list(evidence.style[row])
    for sums in evidence.around.values():
        found += [total / (sums[row][0] + PRIOR) for total in sums[row][1 + CLASSES :]]
    found += [np.log(1 + number) for number in evidence.repeats[row]]
    return found


def test_features_are_the_formulas_written_out():
    evidence = made()
    expected = [by_hand(evidence, row) for row in range(ROWS)]
    np.testing.assert_allclose(evidence.features(), expected, atol=1e-5)
    assert evidence.features().dtype == np.float32


def test_groups_name_the_columns_of_the_features_in_their_order():
    evidence = made()
    assert evidence.groups() == {
        "words": slice(0, 6),
        "labels": slice(6, 14),
        "alike": slice(14, 22),
        "likeness": slice(22, 26),
        "neighbours": slice(26, 40),
        "context": slice(40, 43),
        "style": slice(43, 45),
        "style around": slice(45, 49),
        "repeats": slice(49, 50),
    }
    assert evidence.features().shape[1] == 50
    np.testing.assert_array_equal(evidence.features()[:, :6], evidence.log_odds.astype(np.float32))
    few = made(alike={}, likeness={}, words={}, **NOTHING_READ)
    assert few.groups() == {"labels": slice(0, 8)}
    assert made(0).features().shape == (0, 50)


def test_blocks_are_the_columns_that_speak_of_one_class_each():
    """Not the numbers of labels and of neighbours beside them, nor likeness, style and repeats."""
    blocks = made().blocks()
    words, labels, alike = [0, 3], [6, 10], [14, 18]
    neighbours = [27, 30, 34, 37]
    assert [block.start for block in blocks] == [*words, *labels, *alike, *neighbours, 40]
    assert all(block.stop - block.start == CLASSES for block in blocks)
    few = made(alike={}, likeness={}, words={}, **NOTHING_READ)
    assert few.blocks() == [slice(0, 3), slice(4, 7)]


def test_where_nothing_is_known_all_features_are_zero():
    known = made()
    unknown = known.without_words().without_labels().without_neighbours_texts().without_degrees()
    np.testing.assert_allclose(unknown.features(), 0, atol=1e-12)
    assert (known.features() != 0).any(axis=0).all()


@pytest.mark.parametrize(
    ("change", "blank"),
    [
        (lambda evidence: evidence.without_labels(), {"labels", "alike"}),
        (lambda evidence: evidence.without_words(), {"words", "style"}),
        (lambda evidence: evidence.without_neighbours_texts(), {"alike", "likeness", "neighbours", "style around"}),
        (lambda evidence: evidence.without_text(), {"words", "alike", "likeness", "style"}),
        (lambda evidence: evidence.without_degrees(), {"repeats"}),
    ],
)
def test_removing_one_kind_of_evidence_leaves_the_others_as_they_were(change, blank):
    evidence = made()
    before, after = evidence.features(), change(evidence).features()
    for name, columns in evidence.groups().items():
        if name == "context":  # of which a part is left, see below
            continue
        expected = np.zeros_like(before[:, columns]) if name in blank else before[:, columns]
        np.testing.assert_allclose(after[:, columns], expected, atol=1e-12)
    np.testing.assert_array_equal(evidence.features(), before)  # the original is not changed


def test_repeats_that_are_not_counted_have_no_column():
    evidence, uncounted = made(), made(repeats=np.empty((ROWS, 0)))
    assert "repeats" not in uncounted.groups()
    np.testing.assert_array_equal(uncounted.features(), evidence.features()[:, :-1])
    assert uncounted.without_degrees().repeats.shape == (ROWS, 0)


def test_neither_degrees_nor_views_are_among_the_features():
    evidence = made()
    other = replace(evidence, degrees=evidence.degrees + 5, views=(evidence.views + 1) % VIEWS)
    np.testing.assert_array_equal(other.features(), evidence.features())


def test_degrees_and_repeats_are_removed_together_and_views_stay():
    """A user who met the item twice has at least one other interaction."""
    evidence = made()
    without = evidence.without_degrees()
    assert without.degrees.shape == (ROWS, 2)
    assert not without.degrees.any()
    assert not without.repeats.any()
    np.testing.assert_array_equal(without.views, evidence.views)
    assert evidence.degrees.all()
    for change in ("without_words", "without_labels", "without_text", "without_neighbours_texts"):
        changed = getattr(evidence, change)()
        for name in ("degrees", "repeats", "views"):
            np.testing.assert_array_equal(getattr(changed, name), getattr(evidence, name))


def test_labels_of_one_side_and_words_of_one_reader_can_be_removed_alone():
    evidence = made()
    without = evidence.without_labels(["user"])
    assert not without.labels["user"].any()
    assert not without.alike["user"].any()
    np.testing.assert_array_equal(without.labels["item"], evidence.labels["item"])
    np.testing.assert_array_equal(without.alike["item"], evidence.alike["item"])
    silent = evidence.without_reader(slice(CLASSES))
    assert not silent.log_odds[:, :CLASSES].any()
    np.testing.assert_array_equal(silent.log_odds[:, CLASSES:], evidence.log_odds[:, CLASSES:])


def test_of_the_context_the_own_text_and_those_of_others_can_be_removed_alone():
    evidence = made(own_context=np.ones((ROWS, CLASSES)))
    own, others = evidence.without_neighbours_texts(), evidence.without_text()
    context = evidence.groups()["context"]
    np.testing.assert_allclose(own.features()[:, context], 1)
    np.testing.assert_allclose(others.features()[:, context], evidence.features()[:, context] - 1, atol=1e-6)
    assert not own.without_text().features()[:, context].any()
    np.testing.assert_array_equal(evidence.without_labels().features()[:, context], evidence.features()[:, context])


def test_rows_taken_one_by_one_and_stacked_are_the_whole():
    evidence = made()
    assert len(evidence) == ROWS
    again = Evidence.stacked([evidence.take(np.array([row])) for row in range(ROWS)])
    for entry in fields(Evidence):
        first, second = getattr(evidence, entry.name), getattr(again, entry.name)
        for side in first if isinstance(first, dict) else [slice(None)]:
            np.testing.assert_array_equal(first[side], second[side])
    np.testing.assert_array_equal(evidence.take(np.array([4, 2])).features(), evidence.features()[[4, 2]])
