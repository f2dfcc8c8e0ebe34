"""Why a file could not be read: slow, strict readers that find the row and the column for the error message.

They run only after the fast reader failed on a file. Where the file turns out to be readable after all (a stray
quotation mark inside an unquoted field, say), they return its rows.
"""

import csv
import io
import itertools
import json
from pathlib import Path

import polars as pl

from saft.errors import InputError

SHOWN = 5


def numbered(noun: str, numbers: list[int]) -> str:
    """``row 3`` · ``2 rows (3, 8)`` · ``40 rows (3, 8, 9, 12, 15, …)``, to stand inside a sentence."""
    count = len(numbers)
    if count == 1:
        return f"{noun} {numbers[0]:,}"
    shown = ", ".join(f"{number:,}" for number in numbers[:SHOWN])
    return f"{count:,} {noun}s ({shown}{', …' if count > SHOWN else ''})"


def decoded(path: Path, data: bytes) -> str:
    """The bytes as text, or an error that names the lines that are not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        bad = [number for number, line in enumerate(data.split(b"\n"), 1) if not _is_utf8(line)]
        raise InputError(_not_utf8(path, numbered("line", bad))) from None


def read_separated_slowly(path: Path, data: bytes, separator: str, refusal: Exception) -> pl.DataFrame:
    """The rows of a CSV or TSV that polars could not read, or an InputError with the place of the defect."""
    csv.field_size_limit(2**31 - 1)
    text = data.decode("utf-8-sig", "surrogateescape")
    header, rows = [], []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    line = 1
    try:
        header = next(reader, [])
        line = reader.line_num + 1
        for row in reader:
            rows.append(row)
            line = reader.line_num + 1  # where the next row starts: texts may hold line breaks
    except csv.Error:
        column = _open_column(text, separator, len(rows), header)
        raise InputError(
            f"{path}, row {len(rows) + 1:,} (line {line:,}): a quoted field in column {column!r} never closes as it "
            'should. Close it, and write a quotation mark inside a text twice ("").'
        ) from None
    _refuse_bad_bytes(path, header, rows)
    refuse_repeated_names(path, header)
    wrong = [number for number, row in enumerate(rows, 1) if len(row) > len(header)]
    if wrong:
        first = rows[wrong[0] - 1]
        raise InputError(
            f"{path}: {numbered('row', wrong)} with more fields than the header's {len(header)} columns "
            f"(the first has {len(first)}). Put texts that contain {separator!r} in quotation marks."
        )
    if not rows:
        raise InputError(f"{path} cannot be read ({_first_sentence(refusal)}).")
    filled = ([value or None for value in row] + [None] * (len(header) - len(row)) for row in rows)
    return pl.DataFrame(list(filled), schema=dict.fromkeys(header, pl.String), orient="row")


def read_json_lines_slowly(path: Path, data: bytes, refusal: Exception) -> pl.DataFrame:
    """The rows of a JSON-lines file that polars could not read, or an InputError with the place of the defect."""
    rows, broken, reason = [], [], ""
    for number, line in enumerate(decoded(path, data).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("it is not an object in braces")
            rows.append(row)
        except ValueError as error:
            broken.append(number)
            reason = reason or str(error)
    if broken:
        raise InputError(
            f"{path}: {numbered('line', broken)} cannot be read as JSON ({reason}). "
            'Each line has to be one object, such as {"user": …, "item": …, "text": …}.'
        )
    try:
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)
    except pl.exceptions.PolarsError:
        raise InputError(f"{path} cannot be read ({_first_sentence(refusal)}).") from refusal


def refuse_repeated_names(path: Path, header: list[str]) -> None:
    for place, name in enumerate(header):
        if name in header[:place]:
            raise InputError(f"{path}: the header names the column {name!r} twice. Rename one of them.")


def _open_column(text: str, separator: str, rows: int, header: list[str]) -> str:
    """The column of the unclosed field: in a lenient reading, the first field with a line break, else the last."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    record = next(itertools.islice(reader, rows + (1 if header else 0), None), [""])
    place = next((place for place, field in enumerate(record) if "\n" in field), len(record) - 1)
    return header[place] if place < len(header) else f"number {place + 1}"


def _refuse_bad_bytes(path: Path, header: list[str], rows: list[list[str]]) -> None:
    bad = [number for number, row in enumerate(rows, 1) if not all(_is_clean(field) for field in row)]
    if bad:
        first = rows[bad[0] - 1]
        place = next(place for place, field in enumerate(first) if not _is_clean(field))
        column = f" (column {header[place]!r})" if place < len(header) else ""
        raise InputError(_not_utf8(path, numbered("row", bad) + column))
    if not all(_is_clean(name) for name in header):
        raise InputError(_not_utf8(path, "the header"))


def _not_utf8(path: Path, place: str) -> str:
    return (
        f"{path}: {place} cannot be read as UTF-8. Save the file as UTF-8, or say what it is, "
        "e.g. encoding='latin-1' (on the command line: --encoding latin-1)."
    )


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_clean(field: str) -> bool:
    return field.isascii() or not any("\udc80" <= character <= "\udcff" for character in field)


def _first_sentence(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
