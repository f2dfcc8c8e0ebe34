"""Values → integer codes, and columns of characters → numbers where that is lossless."""

import numpy as np
import polars as pl


def code(values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """(code of each entry, distinct values in order of first appearance). Null gets the code -1."""
    # Numbers are grouped several times faster than strings, so strings are grouped by 64-bit hash, then compared.
    keys = values.hash() if values.dtype == pl.String else values
    codes, distinct = _numbered(keys, values)
    if keys is not values and not distinct.gather(pl.Series(codes)).equals(values):
        codes, distinct = _numbered(values, values)  # two strings shared a hash
    if not distinct.null_count():
        return codes, distinct
    null = int(distinct.is_null().arg_max() or 0)
    return np.where(codes == null, -1, codes - (codes > null)).astype(np.int32), distinct.drop_nulls()


def _numbered(keys: pl.Series, values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """Number the distinct keys by first appearance: (number of each entry, the value at each first appearance)."""
    firsts = keys.arg_unique().sort()
    numbers = pl.DataFrame({"key": keys.gather(firsts)}).with_row_index("number")
    joined = pl.DataFrame({"key": keys}).join(numbers, on="key", how="left", maintain_order="left", nulls_equal=True)
    return joined["number"].to_numpy().astype(np.int32), values.gather(firsts)


def sort_codes(codes: np.ndarray, distinct: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """The same coding with the distinct values in ascending order; negative codes stay."""
    order = distinct.arg_sort().to_numpy()
    rank = np.empty(len(order) + 1, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    rank[-1] = -1  # the code -1 stays -1
    return rank[codes], distinct.gather(pl.Series(order))


def whole_numbers(characters: pl.Series) -> pl.Series:
    """Integers if writing them out again gives the same characters throughout ("007" stays text), else the input."""
    return _lossless(characters, pl.Int64)


def numbers(characters: pl.Series) -> pl.Series:
    """Integers or floats if writing them out again gives the same characters throughout, else the input."""
    result = whole_numbers(characters)
    return _lossless(characters, pl.Float64) if result.dtype == pl.String else result


def _lossless(characters: pl.Series, dtype: type[pl.DataType]) -> pl.Series:
    cast = characters.cast(dtype, strict=False)
    return cast if (cast.cast(pl.String) == characters).fill_null(characters.is_null()).all() else characters
