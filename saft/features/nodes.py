"""Vectors of users and items: fixed random numbers, or their attributes.

Random numbers are drawn from a hash of the seed and the id, so that no table is needed. Of the attributes, numbers are
clipped to the range of training and standardised, and the most frequent values of all other columns get an indicator
column each.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy.special import ndtri

from saft.hashing import GOLDEN, mix_bits, uniform

MOST_VALUES = 32
LARGEST = 1e100  # of numbers, so that their squares are numbers too
FARTHEST = 10.0  # in standard deviations, where the range of training is not known


def gaussian_vectors(ids: pl.Series, dim: int, seed: int) -> np.ndarray:
    """(ids, dim) standard normal numbers that depend only on the seed and each id's text."""
    key = seed.to_bytes(8, "little", signed=True)
    hashes = [hashlib.blake2b(text.encode(), digest_size=8, key=key).digest() for text in ids.cast(pl.String)]
    start = np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)
    bits = mix_bits(start[:, None] + np.arange(1, dim + 1, dtype=np.uint64) * GOLDEN)
    return ndtri(uniform(bits)).astype(np.float32)


@dataclass(frozen=True)
class _Column:
    """How one attribute becomes numbers: by mean and spread, or by a list of values that get a column each."""

    name: str
    mean: float = 0.0
    spread: float = 1.0
    least: float | None = None  # the range of training; models of earlier versions do not have it
    most: float | None = None
    values: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return len(self.values) + 1 if self.values else 2

    def numbers(self, values: pl.Series) -> np.ndarray:
        if self.values:
            places = values.cast(pl.String).replace_strict(
                list(self.values), list(range(len(self.values))), default=-1, return_dtype=pl.Int64
            )
            return np.hstack([places.to_numpy()[:, None] == np.arange(len(self.values)), _missing(values)]).astype(
                np.float32
            )
        least, most = (self.mean + sign * FARTHEST * self.spread for sign in (-1, 1))
        least, most = least if self.least is None else self.least, most if self.most is None else self.most
        given = _as_numbers(values)
        filled = given.clip(least, most).fill_null(self.mean).to_numpy()
        return np.hstack([((filled - self.mean) / self.spread)[:, None], _missing(given)]).astype(np.float32)


@dataclass(frozen=True)
class Attributes:
    """Attribute columns → numbers, learnt from one table of users (or items) and used on any other."""

    columns: tuple[_Column, ...]

    @classmethod
    def fit(cls, frame: pl.DataFrame) -> Attributes:
        return cls(tuple(_fitted(column) for column in frame.get_columns()))

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    def transform(self, frame: pl.DataFrame | None, count: int) -> np.ndarray:
        """(count, width); a column that the frame does not have counts as missing."""
        absent = pl.Series([None] * count, dtype=pl.String)
        parts = [
            column.numbers(frame[column.name] if frame is not None and column.name in frame.columns else absent)
            for column in self.columns
        ]
        return np.hstack(parts) if parts else np.empty((count, 0), np.float32)

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, columns: list[dict[str, Any]]) -> Attributes:
        read = tuple(_Column(**{**column, "values": tuple(column["values"])}) for column in columns)
        for column in read:
            if not (abs(column.mean) < math.inf and 0 < column.spread < math.inf):
                raise ValueError(f"attribute {column.name!r} has mean {column.mean} and spread {column.spread}")
        return cls(read)


def _fitted(values: pl.Series) -> _Column:
    if values.dtype.is_numeric() or values.dtype.is_temporal():
        numbers = _as_numbers(values).drop_nulls()
        spread = float(numbers.std() or 0.0) if len(numbers) > 1 else 0.0  # type: ignore[arg-type]
        mean, least, most = (float(number or 0.0) for number in (numbers.mean(), numbers.min(), numbers.max()))  # type: ignore[arg-type]
        return _Column(values.name, mean, spread or 1.0, least, most)
    counts = values.cast(pl.String).drop_nulls().value_counts().sort(["count", values.name], descending=[True, False])
    return _Column(values.name, values=tuple(counts[values.name].head(MOST_VALUES)) or ("",))


def _missing(values: pl.Series) -> np.ndarray:
    return values.is_null().to_numpy()[:, None]


def _as_numbers(values: pl.Series) -> pl.Series:
    if values.dtype.is_temporal():
        values = values.cast(pl.Datetime("ms")).dt.epoch("ms")
    numbers = values.cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite().fill_null(True), None).clip(-LARGEST, LARGEST)
