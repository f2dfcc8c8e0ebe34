"""TextualInteractionNetwork: one row per interaction, "this user did this with that item, in these words".

Users and items are integer codes that index ``user_ids`` and ``item_ids``; labels are integer codes that index
``classes``. The same pair may interact many times: an interaction is a row, never a pair. Networks are immutable:
methods such as ``take`` and ``hiding`` return a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from saft.errors import InputError

if TYPE_CHECKING:
    from saft.data.summary import Summary

# A label that is missing or hidden. Far outside every list of classes, so that an accidental lookup fails instead of
# picking a class, and the index that torch's cross-entropy ignores.
HIDDEN = -100


@dataclass(frozen=True, eq=False, repr=False)
class TextualInteractionNetwork:
    """m interactions between users and items, each with a text and perhaps a label."""

    users: np.ndarray  # (m,) int32, index into user_ids
    items: np.ndarray  # (m,) int32, index into item_ids
    texts: pl.Series  # (m,) strings, "" where there was none
    labels: np.ndarray  # (m,) int32, index into classes, or HIDDEN
    user_ids: pl.Series  # as given: strings or integers
    item_ids: pl.Series
    classes: pl.Series  # label values as given, sorted
    times: np.ndarray | None = None  # (m,) datetime64[ms]
    splits: pl.Series | None = None  # (m,) as given
    user_attributes: pl.DataFrame | None = None  # one row per user
    item_attributes: pl.DataFrame | None = None  # one row per item
    other_columns: pl.DataFrame = field(default_factory=pl.DataFrame)  # m rows: the rest of the input table, untouched
    column_names: Mapping[str, str] = field(default_factory=dict)  # role → column name in the input
    column_order: tuple[str, ...] = ()  # the input's columns from left to right
    withheld: np.ndarray | None = None  # (m,) bool: which rows had a label before it was hidden; not which label

    def __post_init__(self) -> None:
        for array in (self.users, self.items, self.labels, self.times, self.withheld):
            if array is not None:
                if len(array) != len(self.texts):
                    raise ValueError("users, items, texts, labels, times and withheld need one entry per interaction")
                array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        return (
            f"TextualInteractionNetwork({len(self):,} interactions, {self.n_users:,} users, {self.n_items:,} items, "
            f"{self.n_classes} classes, {self.is_labelled.sum():,} labelled)"
        )

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @cached_property
    def user_degrees(self) -> np.ndarray:
        """Interactions of each user; repeated pairs count each time."""
        return np.bincount(self.users, minlength=self.n_users)

    @cached_property
    def item_degrees(self) -> np.ndarray:
        """Interactions of each item; repeated pairs count each time."""
        return np.bincount(self.items, minlength=self.n_items)

    @cached_property
    def is_labelled(self) -> np.ndarray:
        return self.labels != HIDDEN

    @property
    def withheld_rows(self) -> np.ndarray:
        """Mask of the rows whose labels are known, though not shown here."""
        return np.zeros(len(self), dtype=bool) if self.withheld is None else self.withheld

    def label_values(self) -> pl.Series:
        """The label of each interaction as it was given; null where it is missing or hidden."""
        codes = pl.Series(np.maximum(self.labels, 0))
        values = self.classes.gather(codes) if self.n_classes else pl.Series([None] * len(self), dtype=pl.String)
        return values.set(pl.Series(~self.is_labelled), None).alias("label")

    def take(self, rows: np.ndarray) -> TextualInteractionNetwork:
        """The network of these interactions only, in this order. Codes keep their meaning."""
        rows = self._as_rows(rows)
        index = pl.Series(rows)
        return replace(
            self,
            users=self.users[rows],
            items=self.items[rows],
            texts=self.texts.gather(index),
            labels=self.labels[rows],
            times=None if self.times is None else self.times[rows],
            withheld=None if self.withheld is None else self.withheld[rows],
            splits=None if self.splits is None else self.splits.gather(index),
            other_columns=self.other_columns[rows] if self.other_columns.width else self.other_columns,
        )

    def labelled(self) -> TextualInteractionNetwork:
        return self.take(np.flatnonzero(self.is_labelled))

    def unlabelled(self) -> TextualInteractionNetwork:
        return self.take(np.flatnonzero(~self.is_labelled))

    def hiding(self, rows: np.ndarray) -> TextualInteractionNetwork:
        """The same network without the labels of these interactions; the result holds no reference to them.

        It does say of which rows there was one (``withheld``): nobody has to be asked for them.
        """
        labels = self.labels.copy()
        labels[self._as_rows(rows)] = HIDDEN
        return replace(self, labels=labels, withheld=self.withheld_rows | (self.is_labelled & (labels == HIDDEN)))

    def showing(self, rows: np.ndarray) -> TextualInteractionNetwork:
        """The same network with the labels of these interactions, and no others."""
        hidden = np.ones(len(self), dtype=bool)
        hidden[self._as_rows(rows)] = False
        return self.hiding(hidden)

    def to_frame(self) -> pl.DataFrame:
        """The input table: same columns, names, order and rows; hidden labels are null."""
        parts = {
            "user": self.user_ids.gather(pl.Series(self.users)),
            "item": self.item_ids.gather(pl.Series(self.items)),
            "text": self.texts,
        }
        if "label" in self.column_names or not self.column_names:  # rows to predict may come without the column
            parts["label"] = self.label_values()
        named = [values.alias(self.column_names.get(role, role)) for role, values in parts.items()]
        frame = pl.DataFrame(named).hstack(self.other_columns.get_columns())
        ordered = [name for name in self.column_order if name in frame.columns]
        return frame.select(*ordered, pl.exclude(ordered)) if ordered else frame

    def summary(self) -> Summary:
        """Counts, degrees, components, text lengths and duplicates."""
        from saft.data.summary import summarise

        return summarise(self)

    def plot(self, path: str | Path) -> None:
        """A picture of the network: classes, degrees and text lengths."""
        from saft.data.plot import draw

        draw(self, path)

    def _as_rows(self, rows: np.ndarray) -> np.ndarray:
        """Row numbers from row numbers or from a mask, checked."""
        rows = np.asarray(rows)
        if rows.dtype == bool:
            if len(rows) != len(self):
                raise InputError(f"A mask of {len(rows):,} entries does not fit {len(self):,} interactions.")
            return np.flatnonzero(rows)
        rows = rows.astype(np.int64, casting="same_kind") if rows.size else np.empty(0, np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            raise InputError(f"Row numbers run from 0 to {len(self) - 1:,}; got {rows.min():,} to {rows.max():,}.")
        return rows
