"""``saft.read``: a table of interactions → a TextualInteractionNetwork, or an error with its remedy."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import polars as pl

from saft.data.attributes import attributes_of
from saft.data.coding import code, numbers, sort_codes, whole_numbers
from saft.data.columns import KNOWN_NAMES, find_columns
from saft.data.files import Table, load
from saft.data.network import HIDDEN, TextualInteractionNetwork
from saft.data.times import parse_times
from saft.errors import InputError, InputWarning, did_you_mean

Source = str | Path | Sequence[str | Path] | pl.DataFrame | pl.LazyFrame | Sequence[dict[str, Any]] | Any


class Columns(TypedDict, total=False):
    """Names of columns, where guessing would go wrong."""

    user: str
    item: str
    text: str
    label: str
    time: str
    split: str
    user_attributes: Sequence[str]  # columns that describe the user
    item_attributes: Sequence[str]  # columns that describe the item


def read(
    source: Source,
    *,
    labelled: bool = True,
    user_table: Source | None = None,
    item_table: Source | None = None,
    encoding: str | None = None,
    **columns: Unpack[Columns],
) -> TextualInteractionNetwork:
    """Read interactions from a file, a glob or list of files, a polars or pandas frame, or a list of dicts.

    Files are CSV, TSV, JSON lines, Parquet or Edgeformers' ``text\\$\\$user\\$\\$item\\$\\$label`` lines, also
    compressed with gzip or zstd. A row without a label is one to predict. Rows keep their order and number.

    Args:
        source: where the interactions are.
        labelled: demand labels of at least two classes, as training does. False for rows that are only to be predicted.
        user_table: a second table with one row per user, keyed by the user's id; its other columns are attributes.
        item_table: the same for items.
        encoding: of text files that are not UTF-8, e.g. ``"latin-1"``.
        columns: names of the user, item, text, label, time and split columns where guessing would go wrong, and lists
            ``user_attributes`` and ``item_attributes`` of columns that describe them.
    """
    named, attributes = _checked(columns)
    table = load(source, encoding)
    order = tuple(table.frame.columns)
    found = find_columns(order, named, table.name)
    described = {node: table.select(names, f"describe {node}s with") for node, names in attributes.items()}
    texts = _texts(table, found["text"])
    users, user_ids = _ids(table, found["user"])
    items, item_ids = _ids(table, found["item"])
    labels, classes = _labels(table, found.get("label"), labelled)
    table = table.without(*(found.get(role) for role in ("user", "item", "text", "label")))
    return TextualInteractionNetwork(
        users=users,
        items=items,
        texts=texts,
        labels=labels,
        user_ids=user_ids,
        item_ids=item_ids,
        classes=classes,
        times=_times(table, found.get("time"), given="time" in named),
        splits=table.frame[found["split"]] if "split" in found else None,
        user_attributes=attributes_of("user", users, user_ids, described["user"], _side(user_table, encoding)),
        item_attributes=attributes_of("item", items, item_ids, described["item"], _side(item_table, encoding)),
        other_columns=table.frame,
        column_names=found,
        column_order=order,
    )


def _side(source: Source | None, encoding: str | None) -> Table | None:
    return None if source is None else load(source, encoding)


def _checked(columns: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Role → name and node → attribute columns, from the caller's keywords."""
    known = [*KNOWN_NAMES, "user_attributes", "item_attributes"]
    for keyword in columns:
        if keyword not in known:
            raise InputError(f"read() has no setting {keyword!r}.{did_you_mean(keyword, known)}")
    named = {role: columns[role] for role in KNOWN_NAMES if columns.get(role) is not None}
    attributes = {}
    for node in ("user", "item"):
        names = columns.get(f"{node}_attributes") or ()
        attributes[node] = [names] if isinstance(names, str) else list(names)
    return named, attributes


def _ids(table: Table, column: str) -> tuple[np.ndarray, pl.Series]:
    """Codes and distinct ids; an error where one is empty."""
    values = _id_values(table.frame[column], table.name, column)
    codes, distinct = code(values)
    missing = codes < 0
    if distinct.dtype == pl.String and (distinct == "").any():
        missing |= codes == int(distinct.index_of("") or 0)
    if missing.any():
        file, rows = table.locate(np.flatnonzero(missing))
        raise InputError(
            f"{file}: column {column!r} is empty in {rows}. Every interaction needs one: fill it in or remove "
            "these rows (rows are counted from 1, without the header)."
        )
    return codes, (distinct if table.typed else whole_numbers(distinct)).alias(column)


def _id_values(values: pl.Series, where: str, column: str) -> pl.Series:
    if values.dtype.is_integer() or values.dtype == pl.String:
        return values
    if isinstance(values.dtype, pl.Categorical | pl.Enum | pl.Null):
        return values.cast(pl.String)
    if values.dtype.is_float():  # how pandas stores integers beside a missing value
        whole = values.fill_nan(None)
        if ((whole.drop_nulls() % 1 == 0) & (whole.drop_nulls().abs() < 2.0**63)).all():
            return whole.cast(pl.Int64)
    raise InputError(f"{where}: column {column!r} holds {values.dtype} values; ids have to be text or whole numbers.")


def _texts(table: Table, column: str) -> pl.Series:
    texts = table.frame[column]
    if texts.dtype in (pl.List, pl.Struct, pl.Array, pl.Object, pl.Binary):
        raise InputError(f"{table.name}: column {column!r} holds {texts.dtype} values, not texts. Say which: text=…")
    texts = texts.cast(pl.String).fill_null("")
    empty = np.flatnonzero((texts.str.len_bytes() == 0).to_numpy())
    if len(empty):
        file, rows = table.locate(empty)
        warnings.warn(
            f"{file}: column {column!r} has no text in {rows} of {len(texts):,}. They are kept: the graph around "
            "them is still informative.",
            InputWarning,
            stacklevel=3,
        )
    return texts.alias(column)


def _labels(table: Table, column: str | None, needed: bool) -> tuple[np.ndarray, pl.Series]:
    if column is None:
        if needed:
            find_columns(table.frame.columns, {}, table.name, required=["label"])
        return np.full(table.frame.height, HIDDEN, dtype=np.int32), pl.Series("label", [], dtype=pl.String)
    codes, distinct = sort_codes(*_label_codes(table, column))
    if needed and len(distinct) < 2:
        raise InputError(_too_few_classes(table, column, codes, distinct))
    return np.where(codes < 0, HIDDEN, codes).astype(np.int32), distinct.alias(column)


def _label_codes(table: Table, column: str) -> tuple[np.ndarray, pl.Series]:
    """Codes in order of appearance; missing and blank labels have the code -1."""
    values = table.frame[column]
    if isinstance(values.dtype, pl.Categorical | pl.Enum | pl.Null):
        values = values.cast(pl.String)
    if values.dtype.is_float():
        values = values.fill_nan(None)
    elif not (values.dtype == pl.String or values.dtype.is_integer() or values.dtype == pl.Boolean):
        raise InputError(
            f"{table.name}: column {column!r} holds {values.dtype} values; labels have to be text or numbers."
        )
    codes, distinct = code(values)
    if distinct.dtype != pl.String:
        _refuse_infinite(table, column, distinct)
        return codes, distinct
    filled = np.flatnonzero((distinct.str.strip_chars() != "").to_numpy())
    recode = np.full(len(distinct) + 1, -1, dtype=np.int32)
    recode[filled] = np.arange(len(filled), dtype=np.int32)
    distinct = distinct.gather(pl.Series(filled))
    return recode[codes], distinct if table.typed else _finite_numbers(distinct)


def _finite_numbers(characters: pl.Series) -> pl.Series:
    """Numbers where that is lossless; "inf" stays the word that it is."""
    found = numbers(characters)
    return found if found.dtype == pl.String or found.is_finite().all() else characters


def _refuse_infinite(table: Table, column: str, distinct: pl.Series) -> None:
    if distinct.dtype.is_float() and not distinct.drop_nulls().is_finite().all():
        raise InputError(f"{table.name}: column {column!r} holds infinite numbers, which are no labels.")


def _too_few_classes(table: Table, column: str, codes: np.ndarray, distinct: pl.Series) -> str:
    remedy = (
        "If these rows are only to be predicted, read them with labelled=False (on the command line: --unlabelled)."
    )
    if len(distinct) == 0:
        return f"{table.name}: nothing is labelled: column {column!r} is empty in all {len(codes):,} rows. {remedy}"
    return (
        f"{table.name}: one class only: every label in column {column!r} is {distinct[0]!r} "
        f"({(codes >= 0).sum():,} of {len(codes):,} rows are labelled). There is nothing to tell apart; is it the "
        f"right column? {remedy}"
    )


def _times(table: Table, column: str | None, given: bool) -> np.ndarray | None:
    if column is None:
        return None
    times, unreadable = parse_times(table.frame[column])
    if not len(unreadable):
        return times
    file, rows = table.locate(unreadable)
    example = table.frame[column][int(unreadable[0])]
    problem = f"{file}: column {column!r} has no readable time in {rows}, e.g. {example!r}"
    if given:
        raise InputError(f"{problem}. Use ISO dates such as 2024-05-31 12:30:00, or Unix seconds.")
    warnings.warn(f"{problem}; the column is not used as time.", InputWarning, stacklevel=3)
    return None
