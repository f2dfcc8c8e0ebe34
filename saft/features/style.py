"""StyleModel: how a text is written, in numbers: its length, its case, its punctuation. No label is used.

Neither n-grams, whose weights are normalised, nor means of token states say how long a text is; where the quality of
texts is in question, that says much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

LARGEST = 4.0  # standard deviations from the mean; what is further is clipped
AT_ONCE = 50_000  # texts whose words are in memory at the same time
NUMBERS = (
    "characters", "words", "characters per word", "capitals", "digits", "punctuation", "question marks",
    "exclamation marks", "distinct words", "lines", "sentences",
)  # fmt: skip


@dataclass(frozen=True)
class StyleModel:
    """
    Args:
        centre, spread: (numbers,) over the texts of ``fit``.
    """

    centre: np.ndarray
    spread: np.ndarray

    @classmethod
    def fit(cls, texts: pl.Series) -> Self:
        measured = measure(texts)
        if not len(texts):
            return cls(np.zeros(len(NUMBERS), np.float32), np.ones(len(NUMBERS), np.float32))
        spread = measured.std(axis=0)
        return cls(measured.mean(axis=0), np.where(spread > 1e-6, spread, 1.0).astype(np.float32))

    def transform(self, texts: pl.Series) -> np.ndarray:
        """(texts, numbers), float32, standardised."""
        return ((measure(texts) - self.centre) / self.spread).clip(-LARGEST, LARGEST)


def measure(texts: pl.Series) -> np.ndarray:
    """(texts, numbers), float32; counts as log(1 + count), others as shares of characters or of words."""
    parts = [_measure(texts[first : first + AT_ONCE]) for first in range(0, len(texts), AT_ONCE)]
    return np.concatenate([np.empty((0, len(NUMBERS)), np.float32), *parts])


def _measure(texts: pl.Series) -> np.ndarray:
    text = pl.col("text")
    length = text.str.len_chars()
    words = text.str.to_lowercase().str.extract_all(r"\S+")
    at_least_one, some_words = length.clip(1), words.list.len().clip(1)
    numbers = [
        length.log1p(),
        words.list.len().log1p(),
        (length - text.str.count_matches(r"\s")) / some_words,
        text.str.count_matches(r"\p{Lu}") / at_least_one,
        text.str.count_matches(r"\d") / at_least_one,
        text.str.count_matches(r"[\p{P}\p{S}]") / at_least_one,
        text.str.count_matches("?", literal=True).log1p(),
        text.str.count_matches("!", literal=True).log1p(),
        words.list.n_unique() / some_words,
        text.str.count_matches("\n", literal=True).log1p(),
        text.str.count_matches(r"[.!?]+").log1p(),
    ]
    named = [number.cast(pl.Float32).alias(name) for number, name in zip(numbers, NUMBERS, strict=True)]
    return pl.DataFrame([texts.cast(pl.String).fill_null("").alias("text")]).select(named).to_numpy()
