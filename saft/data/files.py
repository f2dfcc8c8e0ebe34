"""Files and frames of any supported kind → a :class:`Table`: one polars frame and the files its rows come from.

The name determines the format (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet`` …), the first bytes the compression. polars
reads the file; only if it fails does :mod:`saft.data.diagnosis` read it again, slowly, for a precise error message.
"""

import glob
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from saft.data import diagnosis
from saft.data.columns import listed
from saft.errors import InputError, did_you_mean

EDGEFORMERS_COLUMNS = ("text", "user", "item", "label")
SPLIT_OF_FILE_NAME = {
    "train": "train", "training": "train",
    "valid": "valid", "val": "valid", "validation": "valid", "dev": "valid",
    "test": "test", "testing": "test",
}  # fmt: skip
_DUPLICATED = re.compile(r"_duplicated_\d+$")
UNPACKED_GB, LEAST_LIMIT = "SAFT_UNPACKED_GB", 250_000_000
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Table:
    """A frame, the files it was read from, and whether its values have types of their own (a CSV has only strings)."""

    frame: pl.DataFrame
    parts: tuple[tuple[str, int], ...]  # (name, rows) in the order of the rows
    typed: bool

    @property
    def name(self) -> str:
        first, more = self.parts[0][0], len(self.parts) - 1
        return first if not more else f"{first} and {more} more file{'s' if more > 1 else ''}"

    def without(self, *columns: str | None) -> "Table":
        return replace(self, frame=self.frame.drop(column for column in columns if column is not None))

    def select(self, columns: Sequence[str], purpose: str) -> "Table":
        """Only these columns; if one does not exist, the error message includes ``purpose``."""
        for name in columns:
            if name not in self.frame.columns:
                raise InputError(
                    f"{self.name}: there is no column {name!r} to {purpose}.{did_you_mean(name, self.frame.columns)} "
                    f"The columns are {listed(self.frame.columns)}."
                )
        return replace(self, frame=self.frame.select(columns))

    def locate(self, rows: np.ndarray) -> tuple[str, str]:
        """For a message: (the file of the first of these rows, "3 rows (2, 5, 9)"), counting data rows from 1."""
        starts = np.cumsum([0] + [count for _, count in self.parts])
        part = int(np.searchsorted(starts, rows[0], side="right")) - 1
        inside = rows[(rows >= starts[part]) & (rows < starts[part + 1])] - starts[part] + 1
        shown = diagnosis.numbered("row", inside.tolist())
        elsewhere = len(rows) - len(inside)
        return self.parts[part][0], shown + (f" (and {elsewhere:,} in other files)" if elsewhere else "")


def load(source: Any, encoding: str | None = None) -> Table:
    """Any source that :func:`saft.read` takes, as a Table."""
    if isinstance(source, str | Path):
        return _load_files(_matching_files(source), encoding)
    if isinstance(source, Sequence) and source and all(isinstance(path, str | Path) for path in source):
        return _load_files([path for entry in source for path in _matching_files(entry)], encoding)
    frame, name = _as_frame(source)
    if frame.is_empty():
        raise InputError(f"There are no interactions: {name} is empty.")
    return Table(frame, ((name, frame.height),), typed=True)


def _as_frame(source: Any) -> tuple[pl.DataFrame, str]:
    if isinstance(source, pl.DataFrame):
        return source, "the given frame"
    if isinstance(source, pl.LazyFrame):
        return source.collect(), "the given frame"
    if type(source).__module__.partition(".")[0] == "pandas":
        return _from_pandas(source), "the given pandas frame"
    if hasattr(source, "__arrow_c_stream__"):  # pyarrow, duckdb and others
        return pl.DataFrame(source), "the given table"
    if isinstance(source, Sequence) and all(isinstance(row, dict) for row in source):
        return pl.DataFrame(list(source), infer_schema_length=None, strict=False), "the given list"
    raise InputError(
        f"Cannot read interactions from {type(source).__name__}: give a file name, a glob such as 'reviews/*.csv', "
        "a polars or pandas frame, or a list of dicts."
    )


def _from_pandas(frame: Any) -> pl.DataFrame:
    """Column by column through Python values, so that saft depends on neither pandas nor pyarrow."""
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufbM":
            columns[str(name)] = pl.Series(column.to_numpy(), nan_to_null=True)
        else:
            columns[str(name)] = pl.Series(column.astype(object).where(column.notna(), None).tolist(), strict=False)
    return pl.DataFrame(columns)


def _matching_files(source: str | Path) -> list[Path]:
    path = Path(source)
    if path.is_file():
        return [path]
    if path.is_dir():
        raise InputError(f"{path} is a folder; say which files in it, e.g. '{path}/*.csv'.")
    found = glob.glob(str(source), recursive=True)  # noqa: PTH207 (pathlib's takes no absolute patterns)
    matches = sorted(match for match in map(Path, found) if match.is_file())
    if not matches:
        if glob.has_magic(str(source)):
            raise InputError(f"No file matches {str(source)!r}.")
        siblings = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"There is no file {path}.{did_you_mean(path.name, siblings)}")
    return matches


def _load_files(paths: list[Path], encoding: str | None) -> Table:
    tables = [_load_file(path, encoding) for path in paths]
    frames = [frame for frame, _ in tables]
    splits = [SPLIT_OF_FILE_NAME.get(path.name.partition(".")[0].lower()) for path in paths]
    if len(paths) > 1 and all(splits) and not any("split" in frame.columns for frame in frames):
        frames = [frame.with_columns(split=pl.lit(split)) for frame, split in zip(frames, splits, strict=True)]
    frame = frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")
    parts = tuple((str(path), part.height) for path, part in zip(paths, frames, strict=True))
    return Table(frame, parts, typed=all(typed for _, typed in tables))


def _load_file(path: Path, encoding: str | None) -> tuple[pl.DataFrame, bool]:
    reader, typed = _READERS.get(_ending(path), (None, False))
    if reader is None:
        raise InputError(
            f"{path}: cannot tell the format from the name. Known endings are {', '.join(f'.{e}' for e in _READERS)}, "
            "each also with .gz or .zst behind it."
        )
    try:
        frame = reader(path, _content(path, encoding))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}. Is the file complete?") from error
    if frame.is_empty():
        raise InputError(f"{path} holds no interactions: there is no row below the header.")
    return frame, typed


def _ending(path: Path) -> str:
    """``csv`` for ``reviews.csv`` and ``reviews.csv.gz``."""
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst").removesuffix(".zstd")
    return name.rpartition(".")[2]


def _content(path: Path, encoding: str | None) -> bytes:
    """The file as UTF-8 bytes; zstd stays as it is, polars decompresses it.

    Bytes rather than the path: polars would read the file into memory all the same, but release it later
    (at a million rows of CSV the peak of the whole reading is a fifth lower this way).
    """
    data = path.read_bytes()
    if not data:
        raise InputError(f"{path} is empty.")
    if data.startswith(GZIP_MAGIC):
        data = _unzipped(path, data)
    if encoding is None and data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"  # the "Unicode text" that spreadsheets export
    return data if encoding is None or data.startswith(ZSTD_MAGIC) else _recoded(path, data, encoding)


def _unzipped(path: Path, data: bytes) -> bytes:
    limit = most_unpacked(len(data))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(limit + 1)
    except EOFError as error:
        raise InputError(
            f"{path}: the gzip file ends too early, so its last rows are missing. Copy or download it again."
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: the gzip file is damaged ({error}). Copy or download it again.") from error
    if len(unpacked) > limit:
        raise InputError(
            f"{path}: {len(data) / 1e6:,.1f} MB unpack to more than {limit / 1e9:g} GB, as no table should. If "
            f"this one may, set {UNPACKED_GB} to as many gigabytes as it may have."
        )
    return unpacked


def most_unpacked(packed: int) -> int:
    """How many bytes a compressed file of this size may have: texts shrink to a tenth, seldom to a hundredth."""
    given = os.environ.get(UNPACKED_GB)
    try:
        limit = max(LEAST_LIMIT, 100 * packed) if not given else int(float(given) * 1e9)
    except (ValueError, OverflowError):
        limit = 0
    if limit <= 0:
        raise InputError(f"{UNPACKED_GB} has to be a number of gigabytes above 0; got {given!r}.")
    return limit


def _recoded(path: Path, data: bytes, encoding: str) -> bytes:
    try:
        return data.decode(encoding).encode()
    except LookupError as error:
        raise InputError(f"{encoding!r} is not an encoding that Python supports; try 'latin-1' or 'cp1252'.") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: the bytes there are not {encoding} ({error.reason}).") from error


def _read_separated(path: Path, data: bytes) -> pl.DataFrame:
    header = _first_line(data)
    mark = next((mark for mark in ("\\$\\$", "$$") if header.count(mark) == 3), None)
    if mark is not None:
        return _read_edgeformers(path, data, mark)
    separator = "\t" if _ending(path) in ("tsv", "tab") else max(",;\t|", key=header.count)
    try:
        frame = pl.scan_csv(data, separator=separator, infer_schema=False).collect(engine="streaming")
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        frame = diagnosis.read_separated_slowly(path, _unpacked(data), separator, error)
    # polars calls the second of two columns of one name x_duplicated_0
    diagnosis.refuse_repeated_names(path, [_DUPLICATED.sub("", name) for name in frame.columns])
    return _without_blank_end(frame)


def _read_edgeformers(path: Path, data: bytes, mark: str) -> pl.DataFrame:
    """Lines ``text\\$\\$user\\$\\$item\\$\\$label`` without a header, as in the data released with Edgeformers."""
    lines = pl.Series(diagnosis.decoded(path, _unpacked(data)).removesuffix("\n").split("\n"))
    escaped = mark.replace("\\", r"\\").replace("$", r"\$")
    fields = lines.str.strip_suffix("\r").str.extract_groups(f"(?s)^(.*){escaped}(.*){escaped}(.*){escaped}(.*)$")
    frame = fields.struct.rename_fields(list(EDGEFORMERS_COLUMNS)).struct.unnest()
    broken = np.flatnonzero(frame["label"].is_null().to_numpy()) + 1
    if len(broken):
        raise InputError(
            f"{path}: {diagnosis.numbered('line', broken.tolist())} not of the form "
            f"text{mark}user{mark}item{mark}label."
        )
    return frame


def _read_json_lines(path: Path, data: bytes) -> pl.DataFrame:
    try:
        if data[:64].lstrip().startswith(b"["):
            return pl.read_json(data, infer_schema_length=None)
        # Types are inferred from the whole file: a column that first appears in the last row must not be lost.
        return pl.read_ndjson(data, infer_schema_length=None)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        return diagnosis.read_json_lines_slowly(path, _unpacked(data), error)


def _read_parquet(path: Path, data: bytes) -> pl.DataFrame:
    try:
        return pl.read_parquet(data)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} is not a readable Parquet file ({error}). Is it complete?") from error


def _first_line(data: bytes) -> str:
    if data.startswith(ZSTD_MAGIC):
        return str(_lines(data, 1)[0])
    end = data.find(b"\n")
    return data[: end if end >= 0 else len(data)].decode("utf-8", "replace")


def _unpacked(data: bytes) -> bytes:
    return "\n".join(_lines(data).fill_null("")).encode() if data.startswith(ZSTD_MAGIC) else data


def _lines(data: bytes, most: int | None = None) -> pl.Series:
    """Lines of a zstd file, decompressed by polars: Python 3.11 has no zstd module."""
    frame = pl.read_csv(data, has_header=False, separator="\x01", quote_char=None, n_rows=most, infer_schema=False)
    return frame.to_series()


def _without_blank_end(frame: pl.DataFrame) -> pl.DataFrame:
    """Blank lines at the end of a file are not rows; blank rows in the middle stay and are reported as null ids."""
    while frame.height and all(value is None for value in frame.row(-1)):
        frame = frame.head(-1)
    return frame


_READERS: dict[str, tuple[Callable[[Path, bytes], pl.DataFrame], bool]] = {
    "csv": (_read_separated, False),
    "tsv": (_read_separated, False),
    "tab": (_read_separated, False),
    "txt": (_read_separated, False),
    "jsonl": (_read_json_lines, True),
    "ndjson": (_read_json_lines, True),
    "json": (_read_json_lines, True),
    "parquet": (_read_parquet, True),
    "pq": (_read_parquet, True),
}
