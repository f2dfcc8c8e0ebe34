"""Parts: what a model's rows were used for, and who judged them; a file of the model folder that retraining reads.

Held-out labels are in here and nowhere else in the folder. ``saft.load`` does not read this file: no model sees them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from saft.data.network import TextualInteractionNetwork
from saft.data.splits import Split
from saft.errors import InputError
from saft.writing import replacing

PARTS = "parts.parquet"
NAMES = ("train", "valid", "test")
SCHEMA = {"part": pl.String, "label": pl.String, "reviewer": pl.String, "decided": pl.String}


def parts_of(network: TextualInteractionNetwork, parts: Split) -> pl.DataFrame:
    """A row per interaction: its part, and the label that it has there; null if it has none.

    ``decided`` says when a reviewer judged it. It is null where the label is the table's.
    """
    names = np.full(len(network), None, dtype=object)
    for name in NAMES:
        names[getattr(parts, name)] = name
    part = pl.Series(names.tolist(), dtype=pl.String)
    label = network.label_values().cast(pl.String).set(part.is_null(), None)
    nobody = pl.Series([None] * len(network), dtype=pl.String)
    return pl.DataFrame({"part": part, "label": label, "reviewer": nobody, "decided": nobody}, schema=SCHEMA)


def split_of(parts: pl.DataFrame) -> Split:
    return Split(*(np.flatnonzero((parts["part"] == name).fill_null(False).to_numpy()) for name in NAMES))


def write_parts(parts: pl.DataFrame, folder: Path) -> None:
    with replacing(folder / PARTS) as temporary:
        parts.write_parquet(temporary)


def read_parts(folder: Path, rows: int) -> pl.DataFrame | None:
    """The parts of a model of so many rows; None if the folder does not say, as when it was not made by ``saft``'s
    commands or by an early version."""
    file = folder / PARTS
    if not file.is_file():
        return None
    try:
        found = pl.read_parquet(file)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{file} cannot be read. Copy the folder again or train anew.") from error
    if dict(found.schema) != SCHEMA or len(found) != rows:
        raise InputError(f"{file} belongs to another model. Copy the folder again or train anew.")
    return found
