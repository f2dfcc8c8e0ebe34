"""Evidence of a whole network against a loop over its rows, and what may never reach it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saft.data.network import HIDDEN
from saft.features import gathering
from saft.features.evidence import Evidence
from saft.features.folds import FOLDS, NO_FOLD, VIEWS
from saft.features.gathering import SIDES, TEMPERATURE, Kinds, Rows, gather
from saft.hashing import fixed_keys

CLASSES, READERS, WIDTH, STYLE = 3, 2, 4, 2


def made(n_rows: int, seed: int, n_users: int = 4, n_items: int = 3) -> Rows:
    """Labelled and unlabelled rows, some of them without a fold."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n_rows, WIDTH))
    return Rows(
        users=rng.integers(0, n_users, n_rows),
        items=rng.integers(0, n_items, n_rows),
        labels=rng.choice([HIDDEN, 0, 1, 2], n_rows).astype(np.int32),
        folds=rng.integers(NO_FOLD, FOLDS, n_rows),
        log_odds=rng.normal(size=(VIEWS, n_rows, READERS * CLASSES)).astype(np.float32),
        parts=rng.normal(size=(VIEWS, n_rows, 3 * CLASSES)).astype(np.float32),
        vectors=(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32),
        style=rng.normal(size=(n_rows, STYLE)).astype(np.float32),
        n_classes=CLASSES,
        seed=seed,
    )


class ByHand:
    """The evidence of one row, from looking at every other row."""

    def __init__(self, rows: Rows, row: int) -> None:
        self.rows, self.row = rows, row
        in_fold = rows.labels[row] != HIDDEN and rows.folds[row] != NO_FOLD
        self.view = int(rows.folds[row]) if in_fold else FOLDS
        self.log_odds = rows.log_odds[self.view, row]
        self.own_context = rows.parts[self.view, row, :CLASSES]
        self.totals = self.counted(other for other in range(len(rows.users)) if other != row)

    def sees_label_of(self, other: int) -> bool:
        rows = self.rows
        return rows.labels[other] != HIDDEN and (self.view == FOLDS or rows.folds[other] != self.view)

    def sees_words_of(self, other: int) -> bool:
        came_later = self.rows.folds[other] == NO_FOLD
        return not self.sees_label_of(other) and not (self.view != FOLDS and came_later)

    def counted(self, others) -> list[float]:
        counts = [0.0] * CLASSES
        for other in others:
            if self.sees_label_of(other):
                counts[self.rows.labels[other]] += 1
        return counts

    def others(self, side: str) -> list[int]:
        nodes = self.rows.nodes(side)
        return [other for other in range(len(nodes)) if nodes[other] == nodes[self.row] and other != self.row]

    def degrees(self) -> list[int]:
        return [len(self.others(side)) for side in SIDES]

    def repeats(self) -> int:
        """The other rows that have both its user and its item."""
        rows, found = self.rows, 0
        for other in range(len(rows.users)):
            same_pair = rows.users[other] == rows.users[self.row] and rows.items[other] == rows.items[self.row]
            found += same_pair and other != self.row
        return found

    def compared(self, side: str) -> list[int]:
        """All others, or of many members of the node first labelled ones, in a fixed order."""
        members = sorted([*self.others(side), self.row])
        if len(members) > gathering.MOST_COMPARED:
            keys = fixed_keys(np.arange(len(self.rows.users)), self.rows.seed)
            members.sort(key=lambda one: (self.rows.labels[one] == HIDDEN, keys[one]))
        return [one for one in members[: gathering.MOST_COMPARED] if one != self.row]

    def cosine(self, other: int) -> float:
        return float(self.rows.vectors[self.row].astype(np.float64) @ self.rows.vectors[other])

    def labels(self, side: str) -> list[float]:
        return self.counted(self.others(side))

    def words(self, side: str) -> list[float]:
        heard = [other for other in self.others(side) if self.sees_words_of(other)]
        said = [sum(float(self.rows.log_odds[self.view, other, column]) for other in heard) for column in range(6)]
        return [len(heard), *said]

    def around(self, side: str) -> list[float]:
        later_than_readers = {other for other in self.others(side) if self.rows.folds[other] == NO_FOLD}
        heard = [other for other in self.others(side) if self.view == FOLDS or other not in later_than_readers]
        first = CLASSES if side == "user" else 2 * CLASSES
        carried = [
            sum(float(self.rows.parts[self.view, other, first + label]) for other in heard) for label in range(CLASSES)
        ]
        style = [sum(float(self.rows.style[other, column]) for other in heard) for column in range(STYLE)]
        return [len(heard), *carried, *style]

    def alike(self, side: str) -> list[float]:
        weights = [0.0] * CLASSES
        for other in self.compared(side):
            if self.sees_label_of(other):
                weights[self.rows.labels[other]] += np.exp((self.cosine(other) - 1) / TEMPERATURE)
        return weights

    def likeness(self, side: str) -> list[float]:
        cosines = [self.cosine(other) for other in self.compared(side)]
        return [sum(cosines) / len(cosines), max(cosines)] if cosines else [0.0, 0.0]


def assert_as_by_hand(rows: Rows, checked: np.ndarray | None = None) -> None:
    evidence = gather(rows, Kinds())
    for row in np.arange(len(rows.users)) if checked is None else checked:
        expected = ByHand(rows, int(row))
        np.testing.assert_array_equal(evidence.log_odds[row], expected.log_odds)
        np.testing.assert_array_equal(evidence.own_context[row], expected.own_context)
        np.testing.assert_array_equal(evidence.totals[row], expected.totals)
        np.testing.assert_array_equal(evidence.repeats[row], [expected.repeats()])
        np.testing.assert_array_equal(evidence.degrees[row], expected.degrees())
        assert evidence.views[row] == expected.view
        for side in SIDES:
            np.testing.assert_array_equal(evidence.labels[side][row], expected.labels(side))
            for kind in ("words", "around", "alike", "likeness"):
                found = getattr(evidence, kind)[side][row]
                np.testing.assert_allclose(found, getattr(expected, kind)(side), atol=1e-4, err_msg=kind)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_evidence_is_that_of_a_loop_over_all_rows(n_rows, seed):
    assert_as_by_hand(made(n_rows, seed))


@pytest.mark.parametrize("most", [1, 2, 7])
def test_of_a_node_with_many_rows_some_are_compared_labelled_ones_first(monkeypatch, most):
    monkeypatch.setattr(gathering, "MOST_COMPARED", most)
    for seed in range(5):
        assert_as_by_hand(made(40, seed))


def test_nodes_may_have_more_rows_than_are_compared():
    rows = made(700, 0, n_users=1, n_items=60)
    assert np.bincount(rows.users).max() > gathering.MOST_COMPARED > np.bincount(rows.items).max()
    assert_as_by_hand(rows, np.arange(0, 700, 17))


def test_kinds_that_are_not_wanted_or_have_nothing_to_rest_on_are_left_out():
    rows = made(30, 1)
    assert not gather(rows, Kinds(labels=False)).labels
    assert not gather(rows, Kinds(labels=False)).alike  # weighted labels are labels
    assert gather(rows, Kinds(labels=False)).likeness.keys() == set(SIDES)
    assert not gather(rows, Kinds(alike=False)).likeness
    silent = gather(rows, Kinds(words=False))
    assert not silent.words
    assert not silent.around
    assert "context" not in silent.groups()
    assert silent.groups()["style"].stop - silent.groups()["style"].start == STYLE  # of the own text
    nothing_read = {"log_odds": rows.log_odds[:, :, :0], "parts": rows.parts[:, :, :0], "style": rows.style[:, :0]}
    wordless = gather(replace(rows, **nothing_read), Kinds())
    assert not wordless.words
    assert wordless.groups().keys() == {"labels", "alike", "likeness", "repeats"}
    uncounted, counted = gather(rows, Kinds(repeats=False)), gather(rows, Kinds())
    assert "repeats" not in uncounted.groups()
    np.testing.assert_array_equal(uncounted.features(), counted.features()[:, :-1])
    np.testing.assert_array_equal(uncounted.degrees, counted.degrees)  # they are of the structure
    encoderless = replace(rows, vectors=rows.vectors[:, :0], parts=rows.parts[:, :, :0])
    assert gather(encoderless, Kinds()).groups().keys() == {
        "words", "labels", "neighbours", "style", "style around", "repeats"
    }  # fmt: skip


@pytest.mark.parametrize("side", SIDES)
def test_texts_of_one_side_alone_are_heard_if_it_is_asked_for_and_labels_of_both(side):
    rows = made(30, 1)
    both, one, nobody = (gather(rows, Kinds(heard=heard)) for heard in (SIDES, (side,), ()))
    for kind in ("words", "alike", "likeness", "around"):
        assert getattr(one, kind).keys() == {side}
        assert not getattr(nobody, kind)
        np.testing.assert_array_equal(getattr(one, kind)[side], getattr(both, kind)[side])
    for evidence in (one, nobody):
        assert evidence.labels.keys() == set(SIDES)
    assert "context" in one.groups()
    assert nobody.groups().keys() == {"words", "labels", "style", "repeats"}


def test_no_rows_give_no_evidence_of_the_same_width():
    rows = made(30, 1)
    none = Rows(
        *(array[:0] for array in (rows.users, rows.items, rows.labels, rows.folds)),
        rows.log_odds[:, :0],
        rows.parts[:, :0],
        rows.vectors[:0],
        rows.style[:0],
        CLASSES,
    )
    nothing = gather(none, Kinds())
    assert nothing.features().shape == (0, gather(rows, Kinds()).features().shape[1])
    assert (nothing.repeats.shape, nothing.degrees.shape, nothing.views.shape) == ((0, 1), (0, 2), (0,))


def test_of_a_pair_that_met_three_times_each_time_has_two_repeats():
    rows = made(7, 1)
    users, items = np.array([0, 1, 0, 0, 2, 1, 5]), np.array([1, 0, 1, 1, 3, 2, 0])  # (1, 0) is not (0, 1)
    evidence = gather(replace(rows, users=users, items=items), Kinds())
    assert evidence.repeats.ravel().tolist() == [2, 0, 2, 2, 0, 0, 0]
    assert evidence.degrees.tolist() == [[2, 2], [1, 1], [2, 2], [2, 2], [0, 0], [1, 0], [0, 1]]


def test_repeats_and_degrees_do_not_depend_on_labels():
    rows = made(60, 5)
    before, after = gather(rows, Kinds()), gather(replace(rows, labels=np.full_like(rows.labels, HIDDEN)), Kinds())
    assert before.repeats.any()
    np.testing.assert_array_equal(after.repeats, before.repeats)
    np.testing.assert_array_equal(after.degrees, before.degrees)
    assert (after.views == FOLDS).all()


def flipped(rows: Rows, some: np.ndarray) -> Rows:
    """With other labels for those of these rows that have one."""
    labels = rows.labels.copy()
    labels[some] = np.where(labels[some] == HIDDEN, HIDDEN, (labels[some] + 1) % CLASSES)
    return replace(rows, labels=labels)


def differing(first: Evidence, second: Evidence) -> np.ndarray:
    np.testing.assert_array_equal(first.degrees, second.degrees)
    return np.flatnonzero((first.features() != second.features()).any(axis=1))


@pytest.mark.parametrize("most", [3, 256])
def test_labels_of_a_fold_reach_no_labelled_row_of_it(monkeypatch, most):
    monkeypatch.setattr(gathering, "MOST_COMPARED", most)
    rows = made(60, 2)
    before = gather(rows, Kinds())
    for fold in range(FOLDS):
        mates = np.flatnonzero((rows.folds == fold) & (rows.labels != HIDDEN))
        after = gather(flipped(rows, mates), Kinds())
        moved = differing(before, after)
        assert not np.isin(mates, moved).any()
        assert len(moved) > 10  # they reach others


def test_the_label_of_a_row_that_came_later_does_not_reach_its_own_evidence():
    rows = made(60, 3)
    before = gather(rows, Kinds())
    later = np.flatnonzero((rows.folds == NO_FOLD) & (rows.labels != HIDDEN))
    assert len(later)
    for row in later:
        moved = differing(before, gather(flipped(rows, np.array([row])), Kinds()))
        assert row not in moved
        assert len(moved)


def test_words_of_a_row_that_came_later_reach_no_row_of_training_with_a_label():
    """What readers say of it depends on the labels of all folds."""
    rows = made(60, 4)
    later = rows.folds == NO_FOLD
    said, carried = rows.log_odds.copy(), rows.parts.copy()
    said[:, later] += 1
    carried[:, later] += 1
    for other in (replace(rows, log_odds=said), replace(rows, parts=carried)):
        moved = differing(gather(rows, Kinds()), gather(other, Kinds()))
        assert len(moved)
        assert not np.isin(moved, np.flatnonzero(~later & (rows.labels != HIDDEN))).any()


def test_sums_over_nothing_are_numbers_that_can_grow():
    sums = gathering.sum_values(np.array([0, 1]), np.zeros(2, bool), np.ones((2, 3)), 2)
    assert sums.dtype == np.float64
    np.testing.assert_array_equal(sums, np.zeros((2, 4)))
