"""Attributes of users and items: one row per user and one per item."""

import warnings

import numpy as np
import polars as pl

from saft.data.coding import numbers
from saft.data.columns import find_columns
from saft.data.files import Table
from saft.errors import InputError, InputWarning


def attributes_of(
    node: str, codes: np.ndarray, ids: pl.Series, columns: Table, side: Table | None
) -> pl.DataFrame | None:
    """One row per user (or item): from columns of the interactions, from a table of their own, or both."""
    parts = []
    if columns.frame.width:
        parts.append(_attribute_columns(columns, node, codes, len(ids)))
    if side is not None:
        parts.append(_side_table(side, node, ids))
    names = [name for part in parts for name in part.columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"The attribute {name!r} of {node}s comes from two tables. Name it in one of them only.")
    return pl.concat(parts, how="horizontal") if parts else None


def _attribute_columns(table: Table, node: str, codes: np.ndarray, count: int) -> pl.DataFrame:
    names = table.frame.columns
    key = "code" + "_" * max(len(name) for name in names)  # longer than every column name, so it equals none
    grouped = table.frame.with_columns(pl.Series(key, codes)).group_by(key)
    firsts = grouped.agg(pl.col(names).drop_nulls().first()).sort(key)
    counts = grouped.agg(pl.col(names).drop_nulls().n_unique())
    for name in names:
        differing = int((counts[name] > 1).sum())
        if differing:
            warnings.warn(
                f"{table.name}: column {name!r} changes between rows of the same {node} for {differing:,} of "
                f"{count:,} {node}s; the first value is kept.",
                InputWarning,
                stacklevel=4,
            )
    return firsts.select(_typed(firsts[name], table.typed) for name in names)


def _side_table(table: Table, node: str, ids: pl.Series) -> pl.DataFrame:
    key = find_columns(table.frame.columns, {}, table.name, required=[node])[node]
    keys = table.frame[key].cast(pl.String)
    repeated = np.flatnonzero(keys.is_duplicated().to_numpy())
    if len(repeated):
        file, rows = table.locate(repeated)
        raise InputError(f"{file}: column {key!r} names the same {node} in {rows}. Keep one row per {node}.")
    absent = int((~ids.cast(pl.String).is_in(keys.implode())).sum())
    if absent:
        warnings.warn(
            f"{table.name}: {absent:,} of {len(ids):,} {node}s are not in it; their attributes are empty.",
            InputWarning,
            stacklevel=4,
        )
    wanted = pl.DataFrame({key: ids.cast(pl.String)})
    joined = wanted.join(table.frame.with_columns(keys), on=key, how="left", maintain_order="left").drop(key)
    return joined.select(_typed(column, table.typed) for column in joined.get_columns())


def _typed(values: pl.Series, typed: bool) -> pl.Series:
    return values if typed or values.dtype != pl.String else numbers(values)
