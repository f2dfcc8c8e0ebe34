"""Two networks → one: the network of the training and the new interactions to predict.

The two come from different tables, so the same user may be ``7`` in one and ``"7"`` in the other: ids and labels are
compared as text.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from saft.data.coding import code
from saft.data.diagnosis import SHOWN, numbered
from saft.data.network import HIDDEN, TextualInteractionNetwork
from saft.errors import InputError, did_you_mean

# Roles whose column a joined network keeps; times and splits were among ``other_columns``, which are dropped.
ROLES = ("user", "item", "text", "label")

# The same number or truth value as another program writes it: "5.0", "5.00" and "5"; pandas' "True" and Excel's "TRUE".
_TRAILING_ZEROS = r"^(-?\d+)(?:\.0*|(\.\d*[1-9])0*)$"
_SPELLINGS = {"-0": "0", "True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
_TRUTH_AS_NUMBERS = {"false": "0", "true": "1"}


def join(known: TextualInteractionNetwork, new: TextualInteractionNetwork) -> TextualInteractionNetwork:
    """The network of both: first the interactions of ``known``, as they are, then those of ``new``.

    Codes of ``known`` keep their meaning. Users and items that it lacks are appended as they appear in the
    interactions of ``new``; those that ``new`` lists without an interaction are left out. Classes and attributes are
    those of ``known``. Splits and other columns are dropped: they belong to one of the tables only.
    """
    users, user_ids = _appended(known.user_ids, new.users, new.user_ids)
    items, item_ids = _appended(known.item_ids, new.items, new.item_ids)
    names = {role: name for role, name in known.column_names.items() if role in ROLES}
    return replace(
        known,
        users=np.concatenate([known.users, users]),
        items=np.concatenate([known.items, items]),
        texts=pl.concat([known.texts.cast(pl.String), new.texts.cast(pl.String)]),
        labels=np.concatenate([known.labels, _labels(known, new)]),
        withheld=np.concatenate([known.withheld_rows, new.withheld_rows]),
        user_ids=user_ids,
        item_ids=item_ids,
        times=_times(known, new),
        splits=None,
        user_attributes=_attributes(known.user_attributes, user_ids, new.user_attributes, new.user_ids),
        item_attributes=_attributes(known.item_attributes, item_ids, new.item_attributes, new.item_ids),
        other_columns=pl.DataFrame(),
        column_names=names,
        column_order=tuple(name for name in known.column_order if name in names.values()),
    )


def known_rows(known: TextualInteractionNetwork, rows: TextualInteractionNetwork) -> tuple[np.ndarray, np.ndarray]:
    """(row number in ``known`` of each of ``rows``, -1 where there is none; mask of those without).

    Rows with the same user, item and text are the same interaction; repeated ones are matched in order of occurrence.
    """
    nothing = np.full(len(rows), -1, dtype=np.int64)
    users = match_ids(known.user_ids, rows.user_ids)[rows.users]
    items = match_ids(known.item_ids, rows.item_ids)[rows.items]
    likely = (users >= 0) & (items >= 0)
    if not likely.any():
        return nothing, ~likely

    def keyed(users: np.ndarray, items: np.ndarray, texts: pl.Series) -> pl.DataFrame:
        frame = pl.DataFrame({"user": users, "item": items, "text": texts})
        return frame.with_columns(time=pl.int_range(pl.len()).over("user", "item", "text")).with_row_index("row")

    asked = keyed(users, items, rows.texts)
    # ``rows`` are usually few: only interactions of their users are candidates.
    candidates = np.flatnonzero(np.isin(known.users, users[likely]))
    have = keyed(known.users[candidates], known.items[candidates], known.texts.gather(pl.Series(candidates)))
    found = asked.join(have, on=["user", "item", "text", "time"], how="left", maintain_order="left")["row_right"]
    numbers = found.fill_null(-1).cast(pl.Int64).to_numpy().copy()
    numbers[numbers >= 0] = candidates[numbers[numbers >= 0]]
    return numbers, numbers < 0


def match_ids(ids: pl.Series, wanted: pl.Series) -> np.ndarray:
    """The code of each wanted id, which is its place among ``ids``, compared as text; -1 where it is not among them."""
    asked = pl.DataFrame({"id": wanted.cast(pl.String)})
    places = pl.DataFrame({"id": ids.cast(pl.String)}).with_row_index("code")
    # Usually few of many ids are wanted, hence the semi-join. If an id is listed twice, its first code counts.
    found = places.join(asked, on="id", how="semi").group_by("id").agg(pl.col("code").min())
    matched = asked.join(found, on="id", how="left", maintain_order="left")
    return matched["code"].cast(pl.Int32).fill_null(-1).to_numpy(writable=True)


def match_classes(classes: pl.Series, wanted: pl.Series) -> np.ndarray:
    """The code of each label value, where 1.0 is 1, "True" is true, and true is 1 if the only classes are 0 and 1.

    A value that is literally among the classes is that class. A value that could be two of them gets -1.
    """
    literally = match_ids(classes, wanted)
    plain, asked = _plain(classes), _plain(wanted)
    if set(plain) <= set(_TRUTH_AS_NUMBERS) or set(plain) <= set(_TRUTH_AS_NUMBERS.values()):
        plain, asked = plain.replace(_TRUTH_AS_NUMBERS), asked.replace(_TRUTH_AS_NUMBERS)
    unambiguous = plain.set(plain.is_duplicated(), None)
    return np.where(literally >= 0, literally, match_ids(unambiguous, asked))


def class_codes(classes: pl.Series, labels: Sequence[Any]) -> np.ndarray:
    """Codes of single labels, HIDDEN for None; an error if one is not among the classes."""
    given = pl.Series([None if label is None else str(label) for label in labels], dtype=pl.String)
    codes = np.where(given.is_null().to_numpy(), HIDDEN, match_classes(classes, given))
    for label, found in zip(labels, codes, strict=True):
        if found == -1:
            raise InputError(f"There is no class {label!r}. The classes are {', '.join(map(str, classes))}.")
    return codes.astype(np.int32)


def _plain(values: pl.Series) -> pl.Series:
    """One spelling for values that differ only in how a program writes them."""
    return values.cast(pl.String).str.replace(_TRAILING_ZEROS, "${1}${2}").replace(_SPELLINGS)


def _appended(ids: pl.Series, codes: np.ndarray, new_ids: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """The new interactions' codes among all ids, and all ids: the known ones, then new ones in order of appearance."""
    order, distinct = code(new_ids.cast(pl.String).gather(pl.Series(codes)))
    places = match_ids(ids, distinct)
    unknown = places < 0
    places[unknown] = np.arange(len(ids), len(ids) + unknown.sum())
    return places[order], _longer(ids, distinct.filter(pl.Series(unknown)))


def _longer(ids: pl.Series, added: pl.Series) -> pl.Series:
    """The ids and the added ones: integers stay integers if the added ones are integers, else all become text."""
    if ids.dtype.is_integer():
        cast = added.cast(ids.dtype, strict=False)
        if (cast.cast(pl.String) == added).fill_null(False).all():  # "007" is not 7
            return pl.concat([ids, cast])
    return pl.concat([ids.cast(pl.String), added]) if len(added) else ids


def _labels(known: TextualInteractionNetwork, new: TextualInteractionNetwork) -> np.ndarray:
    """The new interactions' labels as codes of the known classes."""
    recode = np.append(match_classes(known.classes, new.classes), HIDDEN)  # index -1, no label → HIDDEN
    labels = recode[np.where(new.is_labelled, new.labels, -1)].astype(np.int32)
    unknown = np.flatnonzero(labels == -1)
    if len(unknown):
        raise InputError(_unknown_classes(known, new, unknown))
    return labels


def _unknown_classes(known: TextualInteractionNetwork, new: TextualInteractionNetwork, rows: np.ndarray) -> str:
    values = new.label_values().gather(pl.Series(rows)).unique(maintain_order=True)
    classes = known.classes.cast(pl.String).to_list()
    several = len(values) > 1
    return (
        f"Column {new.column_names.get('label', 'label')!r} of the new interactions has {_listed(values)} in "
        f"{numbered('row', (rows + 1).tolist())}; the known classes are {_listed(known.classes) or 'none'}."
        f"{did_you_mean(str(values[0]), classes)} If {'these are new classes' if several else 'this is a new class'}, "
        f"retrain with {'them' if several else 'it'}, or leave the label empty (rows are counted from 1)."
    )


def _listed(values: pl.Series) -> str:
    shown = ", ".join(repr(value) for value in values.head(SHOWN))
    return f"{shown} and {len(values) - SHOWN:,} more" if len(values) > SHOWN else shown


def _times(known: TextualInteractionNetwork, new: TextualInteractionNetwork) -> np.ndarray | None:
    """The times of both, NaT where there are none."""
    if known.times is None and new.times is None:
        return None
    unknown = np.datetime64("NaT", "ms")
    return np.concatenate(
        [np.full(len(part), unknown) if part.times is None else part.times for part in (known, new)]
    ).astype("datetime64[ms]")


def _attributes(
    known: pl.DataFrame | None, ids: pl.Series, new: pl.DataFrame | None, new_ids: pl.Series
) -> pl.DataFrame | None:
    """The known attributes, then those of the appended ids as far as ``new`` has the same columns."""
    if known is None:
        return None
    added = known.clear(len(ids) - len(known))
    if new is not None and len(added):
        rows = pl.Series(match_ids(new_ids, ids.tail(len(added))))
        shared = [name for name in known.columns if name in new.columns]
        added = added.with_columns(_as_type(new[name].gather(rows), known.schema[name]) for name in shared)
    return pl.concat([known, added])


def _as_type(values: pl.Series, dtype: pl.DataType) -> pl.Series:
    """The values as this type; null where they cannot be converted."""
    try:
        return values.cast(dtype, strict=False)
    except pl.exceptions.PolarsError:  # polars has no such cast at all, e.g. from text to dates
        return pl.Series(values.name, [None] * len(values), dtype=dtype)
