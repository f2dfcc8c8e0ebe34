"""Codes against a literal dictionary, numbers only where nothing is lost."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saft.data.coding import code, numbers, sort_codes, whole_numbers

values = st.lists(st.none() | st.sampled_from(["b", "a", "", "ä", "10", "9"]), max_size=30)


def literal(entries):
    seen: dict = {}
    return [-1 if entry is None else seen.setdefault(entry, len(seen)) for entry in entries], list(seen)


@settings(deadline=None)
@given(values)
def test_codes_of_texts_are_those_of_a_dictionary_filled_in_order(entries):
    codes, distinct = code(pl.Series(entries, dtype=pl.String))
    assert (codes.tolist(), distinct.to_list()) == literal(entries)


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-3, 3), max_size=30))
def test_codes_of_numbers_are_those_of_a_dictionary_filled_in_order(entries):
    codes, distinct = code(pl.Series(entries, dtype=pl.Int64))
    assert (codes.tolist(), distinct.to_list()) == literal(entries)


@settings(deadline=None)
@given(values)
def test_sorted_codes_name_the_same_values(entries):
    codes, distinct = sort_codes(*code(pl.Series(entries, dtype=pl.String)))
    assert distinct.to_list() == sorted({entry for entry in entries if entry is not None})
    assert [None if place < 0 else distinct[int(place)] for place in codes] == entries


def test_codes_are_the_same_every_time_although_polars_uses_threads():
    entries = pl.Series([f"user {k * 7919 % 5003}" for k in range(200_000)])
    assert all((code(entries)[0] == code(entries)[0]).all() for _ in range(3))


@pytest.mark.parametrize("text", ["007", "+1", "1.0", "1e3", " 1", "٣", "9223372036854775808", "", "one"])
def test_what_is_not_the_plain_spelling_of_an_integer_stays_text(text):
    assert whole_numbers(pl.Series(["1", text])).dtype == pl.String


def test_plain_spellings_become_numbers():
    assert whole_numbers(pl.Series(["1", None, "-20"])).to_list() == [1, None, -20]
    assert numbers(pl.Series(["1.0", "2.5"])).to_list() == [1.0, 2.5]
    assert numbers(pl.Series(["1.50", "2.5"])).dtype == pl.String
