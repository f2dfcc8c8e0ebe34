"""Times in the spellings of real exports."""

import datetime

import numpy as np
import polars as pl
import pytest

from saft.data.times import parse_times

MOMENT = np.datetime64("2020-05-05T14:08:48", "ms")


@pytest.mark.parametrize(
    "value",
    [
        1588687728,
        1588687728000,
        1588687728000000,
        1588687728000000000,
        1588687728.0,
        "1588687728",
        "1588687728.0",
        "2020-05-05 14:08:48",
        "2020-05-05T14:08:48Z",
        "2020-05-05T16:08:48+02:00",
        "Tue May 05 07:08:48 -0700 2020",
        datetime.datetime(2020, 5, 5, 14, 8, 48),
        datetime.datetime(2020, 5, 5, 14, 8, 48, tzinfo=datetime.UTC),
    ],
)
def test_the_same_moment_is_recognised_in_every_spelling(value):
    times, unreadable = parse_times(pl.Series([value, None]))
    assert times[0] == MOMENT
    assert np.isnat(times[1])
    assert not len(unreadable)


@pytest.mark.parametrize("value", ["2020-05-05", "05 5, 2020", "05/05/2020", "May 05, 2020", datetime.date(2020, 5, 5)])
def test_days_are_recognised_in_every_spelling(value):
    times, unreadable = parse_times(pl.Series([value]))
    assert times[0] == np.datetime64("2020-05-05")
    assert not len(unreadable)


def test_unreadable_times_are_reported_by_row():
    times, unreadable = parse_times(pl.Series(["2020-05-05", "soon", None, "", "later"]))
    assert unreadable.tolist() == [1, 4]
    assert np.isnat(times[1:]).all()


def test_numbers_that_are_no_time_are_missing_or_unreadable():
    times, unreadable = parse_times(pl.Series([1.5e9, float("nan"), float("inf")]))
    assert np.isnat(times).tolist() == [False, True, True]
    assert unreadable.tolist() == [2]


def test_a_column_without_any_time_in_it_is_reported():
    assert parse_times(pl.Series(["a", "b"]))[1].tolist() == [0, 1]
    assert parse_times(pl.Series([[1], [2]]))[1].tolist() == [0, 1]
