"""A column of times in any usual spelling → datetime64[ms]."""

import numpy as np
import polars as pl

TEXT_FORMATS = (
    None,  # ISO 8601 and its relatives, as polars recognises them: Yelp
    "%a %b %d %H:%M:%S %z %Y",  # Goodreads: Sun Jul 30 07:44:10 -0700 2017
    "%m %d, %Y",  # Amazon 2014 and 2018, reviewTime: 09 1, 2016
    "%m/%d/%Y",
    "%B %d, %Y",
)
# A number is a Unix time; its size determines the unit. 10¹¹ seconds is the year 5138, 10¹¹ milliseconds is 1973.
# (upper bound of the size, factor and divisor that convert to milliseconds)
UNITS = ((1e11, 1000, 1), (1e14, 1, 1), (1e17, 1, 1000), (np.inf, 1, 1_000_000))

SAMPLE = 100  # values from which the format is inferred


def parse_times(values: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """(times as datetime64[ms] in UTC with NaT where there is none, rows whose value cannot be parsed)."""
    if values.dtype == pl.String:
        values = _numbers_if_all_are(values)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    if values.dtype.is_numeric():
        parsed = _from_numbers(values)
    elif values.dtype == pl.String:
        parsed = _from_text(values)
    elif values.dtype.is_temporal() and values.dtype != pl.Duration and values.dtype != pl.Time:
        parsed = _to_milliseconds(values)
    else:
        parsed = pl.Series([None] * len(values), dtype=pl.Datetime("ms"))
    unreadable = np.flatnonzero((parsed.is_null() & values.is_not_null()).to_numpy())
    return parsed.to_numpy().astype("datetime64[ms]"), unreadable


def _numbers_if_all_are(values: pl.Series) -> pl.Series:
    if (values == "").any():
        values = values.replace("", None)
    sample = values.drop_nulls().head(SAMPLE)
    for dtype in (pl.Int64, pl.Float64):
        if sample.cast(dtype, strict=False).null_count() == 0:
            cast = values.cast(dtype, strict=False)
            if cast.null_count() == values.null_count():
                return cast
    return values


def _from_numbers(values: pl.Series) -> pl.Series:
    known = values.set(values.is_infinite(), None) if values.dtype.is_float() else values
    largest = max(abs(float(bound)) for bound in (known.min() or 0, known.max() or 0))  # type: ignore[arg-type]
    times, divided = next((times, divided) for size, times, divided in UNITS if largest < size)
    known = (known * times).round() if known.dtype.is_float() else known.cast(pl.Int64) * times
    return (known // divided).cast(pl.Int64).cast(pl.Datetime("ms"))


def _from_text(values: pl.Series) -> pl.Series:
    """By the format that parses most of a sample; other values become null and are reported, not guessed."""
    sample = values.drop_nulls().head(SAMPLE)
    best = max(TEXT_FORMATS, key=lambda text_format: _with_format(sample, text_format).count())
    return _with_format(values, best)


def _with_format(values: pl.Series, text_format: str | None) -> pl.Series:
    try:
        return _to_milliseconds(values.str.to_datetime(text_format, strict=False))
    except pl.exceptions.ComputeError:  # polars recognises no format in the column: then nothing in it is a time
        return pl.Series([None] * len(values), dtype=pl.Datetime("ms"))


def _to_milliseconds(values: pl.Series) -> pl.Series:
    if isinstance(values.dtype, pl.Datetime) and values.dtype.time_zone is not None:
        values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return values.cast(pl.Datetime("ms"))


def times_as_text(times: np.ndarray | None, count: int) -> list[str | None]:
    """Each to the second; None where it is not known."""
    if times is None:
        return [None] * count
    return [None if text == "NaT" else text for text in np.datetime_as_string(times, unit="s").tolist()]
