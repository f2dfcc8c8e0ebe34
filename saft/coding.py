"""Values → integer codes, and columns of characters → numbers where nothing is lost by it."""

import numpy as np
import polars as pl


def code(values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """(code of each entry, distinct values in order of first appearance). Null gets the code -1."""
    return _code_text(values) if values.dtype == pl.String else _code_numbers(values)


def _code_text(values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    # A category set of its own: polars' shared one would grow with every file that this process reads.
    categories = values.cast(pl.Categorical(pl.Categories.random())).to_physical()
    firsts = _first_places(categories)
    # polars hands out categories as its threads meet them; order of appearance makes the codes reproducible.
    recode = np.full(int(categories.max() or 0) + 2, -1, dtype=np.int32)  # type: ignore[arg-type]
    recode[categories.gather(firsts).to_numpy()] = np.arange(len(firsts), dtype=np.int32)
    return recode[categories.fill_null(len(recode) - 1).to_numpy()], values.gather(firsts)


def _code_numbers(values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    distinct = values.gather(_first_places(values))
    numbered = pl.DataFrame({"value": distinct, "code": np.arange(len(distinct), dtype=np.int32)})
    joined = pl.DataFrame({"value": values}).join(numbered, on="value", how="left", maintain_order="left")
    return joined["code"].fill_null(-1).to_numpy().copy(), distinct


def _first_places(values: pl.Series) -> pl.Series:
    """Where each distinct value other than null stands first."""
    places = values.arg_unique()
    return places.filter(values.gather(places).is_not_null()).sort()


def sort_codes(codes: np.ndarray, distinct: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """The same coding with the distinct values in ascending order; negative codes stay."""
    order = distinct.arg_sort().to_numpy()
    rank = np.empty(len(order) + 1, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    rank[-1] = -1  # what the code -1 looks up
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
