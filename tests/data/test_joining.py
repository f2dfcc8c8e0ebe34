"""Joining keeps what is known as it is, and finds known users, items and classes again however they are spelled."""

from dataclasses import replace
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saft
from saft.data.joining import join, match_classes, match_ids
from saft.data.network import HIDDEN


def read(rows: list[tuple], columns: str = "user item text label", **settings) -> saft.TextualInteractionNetwork:
    frame = pl.DataFrame(rows, schema=columns.split(), orient="row", infer_schema_length=None)
    return saft.read(frame, labelled=False, **settings)


def as_text(values: pl.Series) -> list:
    return values.cast(pl.String).to_list()


@pytest.fixture
def known(rows) -> saft.TextualInteractionNetwork:
    return saft.read(rows)


@pytest.fixture
def new() -> saft.TextualInteractionNetwork:
    """Codes of its own: zoe and bob, hat and lamp, good only. zoe bought the hat twice."""
    rows = [("zoe", "hat", "new", None), ("bob", "hat", "seen", "good"), ("zoe", "hat", "again", "good")]
    return read([*rows, ("amy", "lamp", "fine", None)])


# The slow literal twin: tables as lists, joined by writing one under the other.
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.lists(st.text(characters, min_size=1, max_size=4) | st.sampled_from(["1", "2", "01"]), min_size=1)
integers = st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 3), min_size=1)
classes = st.none() | st.sampled_from([1, 2, 5])
columns = st.one_of(texts, integers)


@st.composite
def tables(draw) -> list[tuple]:
    """Rows whose users are all texts or all integers, and so are their items; any pair may be repeated."""
    users, items = draw(columns), draw(columns)
    rows = st.tuples(st.sampled_from(users), st.sampled_from(items), st.just("some words"), classes)
    return draw(st.lists(rows, min_size=1, max_size=12))


@settings(deadline=None)
@given(tables(), tables(), st.sampled_from([pl.Int64, pl.Float64, pl.String]))
def test_the_first_rows_are_those_of_known_and_the_last_rows_those_of_new(first, second, label_type):
    known = read([*first, *((*first[0][:3], label) for label in (1, 2, 5))])
    table = pl.DataFrame(second, ["user", "item", "text", "label"], orient="row")
    new = saft.read(table.cast({"label": label_type}), labelled=False)
    joined = join(known, new)
    assert joined.labels[: len(known)].tolist() == known.labels.tolist()
    assert joined.label_values().to_list() == [*known.label_values(), *(row[3] for row in second)]
    for column in ("user", "item", "text"):
        parts = as_text(known.to_frame()[column]) + as_text(new.to_frame()[column])
        assert as_text(joined.to_frame()[column]) == parts
    for part, ids in (("users", "user_ids"), ("items", "item_ids")):
        assert getattr(joined, part)[: len(known)].tolist() == getattr(known, part).tolist()
        seen = dict.fromkeys([*as_text(getattr(known, ids)), *as_text(getattr(new, ids))])
        assert as_text(getattr(joined, ids)) == list(seen)


def test_codes_of_known_users_items_and_classes_stay(known, new):
    joined = join(known, new)
    assert joined.user_ids.to_list() == ["ann", "bob", "zoe", "amy"]
    assert joined.item_ids.to_list() == ["lamp", "rug", "hat"]
    assert joined.users.tolist() == [*known.users, 2, 1, 2, 3]
    assert joined.items.tolist() == [*known.items, 2, 2, 2, 0]
    assert joined.classes is known.classes
    assert joined.labels.tolist() == [*known.labels, HIDDEN, 1, 1, HIDDEN]
    assert joined.users.dtype == joined.items.dtype == joined.labels.dtype == np.int32


def test_repeated_pairs_stay_rows_of_their_own(known, new):
    joined = join(known, new)
    assert joined.user_degrees.tolist() == [3, 2, 2, 1]
    assert joined.texts.to_list() == [*known.texts, "new", "seen", "again", "fine"]
    assert len(join(known, known)) == 8
    assert join(known, known).n_users == 2


def test_the_networks_that_are_joined_stay_as_they_were(known, new):
    before = known.to_frame(), new.to_frame()
    join(known, new)
    assert known.to_frame().equals(before[0])
    assert new.to_frame().equals(before[1])


def test_ids_that_no_new_interaction_uses_are_left_out(known, new):
    joined = join(known, new.take(np.array([3, 1])))
    assert joined.user_ids.to_list() == ["ann", "bob", "amy"]
    assert joined.users.tolist() == [*known.users, 2, 1]


def test_integer_ids_are_found_among_texts_and_texts_among_integers():
    integers, texts = read([(7, 1, "a", "x"), (8, 1, "b", "y")]), read([("8", "1", "c", "x"), ("9", "2", "d", "y")])
    joined = join(integers, texts)
    assert joined.user_ids.equals(pl.Series("user", [7, 8, 9]))
    assert joined.users.tolist() == [0, 1, 1, 2]
    joined = join(texts, integers)
    assert joined.user_ids.equals(pl.Series("user", ["8", "9", "7"]))
    assert joined.users.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("other", ["u9", "007", "9223372036854775808"])
def test_integer_ids_become_text_where_a_new_id_is_no_such_integer(other):
    joined = join(read([(7, 1, "a", "x"), (8, 1, "b", "y")]), read([("7", 1, "c", "x"), (other, 1, "d", "y")]))
    assert joined.user_ids.to_list() == ["7", "8", other]
    assert joined.item_ids.dtype == pl.Int64
    assert joined.to_frame()["user"].to_list() == ["7", "8", "7", other]


def test_match_ids_gives_codes_and_minus_one():
    assert match_ids(pl.Series([5, 3, 9]), pl.Series(["9", "09", "5", None, "9"])).tolist() == [2, -1, 0, -1, 2]
    assert match_ids(pl.Series(["b", "a", "b"]), pl.Series(["b"])).tolist() == [0]
    assert match_ids(pl.Series([None, "a"]), pl.Series([None, "a"])).tolist() == [-1, 1]
    assert match_ids(pl.Series([]), pl.Series([1])).tolist() == [-1]
    assert match_ids(pl.Series([1]), pl.Series([])).tolist() == []


@pytest.mark.parametrize(
    ("classes", "wanted", "codes"),
    [
        ([1, 2], [1.0, 2.0, 1.5], [0, 1, -1]),
        ([-1.0, 0.5, 1.0], [-1, 1, 0], [0, 2, -1]),
        ([0, 1], [-0.0], [0]),
        ([1, 2], ["1", "2.0", "1.00", "01", "x.0"], [0, 1, 0, -1, -1]),
        (["1.0", "1.5"], [1, 2], [0, -1]),
        (["1", "1.0"], ["1.0", "1", "1.00"], [1, 0, -1]),
        ([False, True], ["True", "FALSE", "true", "yes"], [1, 0, 1, -1]),
        (["False", "True"], [True, False], [1, 0]),
        ([False, True], [1, 0, 2], [1, 0, -1]),
        ([0, 1], [True, False], [1, 0]),
        ([1, 2, 3], [True, False], [-1, -1]),
        (["bad", "good"], ["good", "Good", " good"], [1, -1, -1]),
        ([], ["good"], [-1]),
        (["good"], [], []),
    ],
)
def test_labels_match_however_a_program_writes_the_same_value(classes, wanted, codes):
    assert match_classes(pl.Series(classes), pl.Series(wanted)).tolist() == codes


def test_a_label_that_is_no_known_class_is_named_with_its_rows_and_the_nearest_class(known):
    new = read([("a", "b", "c", "good"), ("a", "b", "c", "goood"), ("a", "b", "c", None), ("a", "b", "c", "goood")])
    with pytest.raises(saft.InputError) as error:
        join(known, new)
    assert str(error.value) == (
        "Column 'label' of the new interactions has 'goood' in 2 rows (2, 4); the known classes are 'bad', 'good'. "
        "Did you mean 'good'? If this is a new class, retrain with it, or leave the label empty (rows are counted "
        "from 1)."
    )


def test_many_unknown_labels_are_named_briefly(known):
    new = read([("a", "b", "c", stars) for stars in range(9)], "user item text stars", label="stars")
    with pytest.raises(saft.InputError, match=r"'stars' .* has 0, 1, 2, 3, 4 and 4 more in 9 rows \(1, 2, 3, 4, 5, …"):
        join(known, new)


def test_labels_are_refused_where_no_class_is_known_at_all(known, new):
    unlabelled = read([("a", "b", "c")], "user item text")
    with pytest.raises(saft.InputError, match="the known classes are none"):
        join(unlabelled, new)
    assert join(unlabelled, unlabelled).to_frame().columns == ["user", "item", "text"]


def test_an_unknown_class_whose_labels_are_all_hidden_is_ignored(known):
    new = read([("a", "b", "c", "other"), ("a", "b", "c", "bad")]).hiding(np.array([0]))
    assert join(known, new).labels.tolist() == [*known.labels, HIDDEN, 0]


def test_rows_without_a_label_column_are_to_be_predicted(known):
    joined = join(known, read([("ann", "rug", "c")], "user item text"))
    assert joined.labels.tolist() == [*known.labels, HIDDEN]
    assert joined.to_frame()["label"].to_list() == ["good", "bad", None, "good", None]


def test_times_are_joined_and_missing_ones_are_not_a_time(known, new):
    timed = replace(new, times=np.arange(4).astype("datetime64[ms]"))
    untimed = replace(known, times=None)
    assert join(known, timed).times.tolist() == [*known.times.tolist(), *timed.times.tolist()]
    assert np.isnat(join(known, new).times).tolist() == [False] * 4 + [True] * 4
    assert np.isnat(join(untimed, timed).times).tolist() == [True] * 4 + [False] * 4
    assert join(untimed, new).times is None
    assert join(known, new).times.dtype == np.dtype("datetime64[ms]")


def test_splits_and_other_columns_are_dropped_and_the_rest_is_called_as_in_known():
    rows = [("c", "good", 5, "x", "train", 1), ("d", "bad", 6, "x", "test", 2)]
    known = read(rows, "words verdict buyer ware split extra", text="words", label="verdict", user="buyer", item="ware")
    joined = join(known, read([(5, "y", "e", None)]))
    assert joined.splits is None
    assert joined.other_columns.width == 0
    assert joined.to_frame().columns == ["words", "verdict", "buyer", "ware"]
    assert joined.to_frame().rows() == [("c", "good", 5, "x"), ("d", "bad", 6, "x"), ("e", None, 5, "y")]
    assert joined.take(np.array([2])).to_frame().rows() == [("e", None, 5, "y")]


@pytest.fixture
def described() -> saft.TextualInteractionNetwork:
    rows = [("ann", "lamp", "a", "x", 30, "nice"), ("bob", "rug", "b", "y", None, "grey")]
    return read(rows, "user item text label age look", user_attributes=["age"], item_attributes=["look"])


def test_new_users_bring_their_attributes_and_known_ones_keep_theirs(described):
    rows = [
        ("zoe", "lamp", "c", "44", "off", 1),
        ("ann", "hat", "d", "99", "red", 2),
        ("amy", "hat", "e", "?", "red", 3),
    ]
    names = {"user_attributes": ["age", "more"], "item_attributes": ["look"]}
    new = read(rows, "user item text age look more", **names).take(np.array([2, 1, 0]))
    joined = join(described, new)
    assert joined.user_ids.to_list() == ["ann", "bob", "amy", "zoe"]
    assert joined.user_attributes.equals(pl.DataFrame({"age": [30, None, None, 44]}))
    assert joined.item_attributes.equals(pl.DataFrame({"look": ["nice", "grey", "red"]}))


def test_attributes_of_new_users_are_null_where_new_has_none_and_absent_where_known_has_none(described, known, new):
    joined = join(described, new.hiding(np.arange(4)))
    assert joined.user_attributes.equals(pl.DataFrame({"age": [30, None, None, None]}))
    assert joined.item_attributes["look"].to_list() == ["nice", "grey", None]
    joined = join(known, described.hiding(np.arange(2)))
    assert joined.user_attributes is None
    assert joined.item_attributes is None


@pytest.mark.parametrize("value", [5, date(2020, 1, 1), True, [1, 2]])
def test_attributes_that_cannot_be_of_the_known_type_are_null(described, value):
    frame = pl.DataFrame({"age": [value, value]})
    new = read([("zoe", "rug", "c", "much")], "user item text age", user_attributes=["age"])
    joined = join(replace(described, user_attributes=frame), new)
    assert joined.user_attributes.equals(pl.concat([frame, frame.clear(1)]))


def test_known_and_new_may_be_empty(known, new, described):
    nothing = np.empty(0, dtype=np.int64)
    joined = join(known, new.take(nothing))
    assert joined.to_frame().equals(known.to_frame().drop("time"))
    assert joined.user_ids.to_list() == ["ann", "bob"]
    joined = join(known.take(nothing), new)
    assert joined.user_ids.to_list() == ["ann", "bob", "zoe", "amy"]
    assert joined.label_values().to_list() == [None, "good", "good", None]
    assert len(join(known.take(nothing), new.take(nothing))) == 0
    assert join(described, new.take(nothing)).user_attributes.equals(described.user_attributes)


def test_a_network_without_users_items_and_classes_can_be_joined_to(known):
    none = np.empty(0, dtype=np.int32)
    bare = saft.TextualInteractionNetwork(none, none, pl.Series([]), none, pl.Series([]), pl.Series([]), pl.Series([]))
    joined = join(bare, known.hiding(np.arange(4)))
    assert joined.to_frame()["user"].to_list() == ["ann", "bob", "ann", "ann"]
    assert join(known, bare).labels.tolist() == known.labels.tolist()
    assert len(join(bare, bare)) == 0
