"""Files are written completely or not at all, and what was written is on the disk."""

import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saft.errors import InputError

if TYPE_CHECKING:
    import polars as pl

TABLE_ENDINGS = (".csv", ".jsonl", ".ndjson", ".parquet")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside ``path``; the file there replaces ``path`` when the block ends without an error.

    A crash, a full disk or Ctrl-C leaves the old file as it was and nothing half-written beside it; a process that is
    killed may leave a hidden file. An OSError inside of the block, such as a full disk, becomes an InputError.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file in it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error
    os.close(handle)
    try:
        yield Path(temporary)
        Path(temporary).chmod(0o666 & ~_umask())  # mkstemp makes the file private; a result is an ordinary file
        sync(Path(temporary))
        Path(temporary).replace(path)
        sync(path.parent)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk: it then survives a power failure."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    opened = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def as_json(value: Any, indent: int | None = None) -> str:
    """All JSON that is written goes through here: nan and infinity, which JSON does not have, are a ValueError."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def cache_folder() -> Path:
    """Folder for what can be computed again: $SAFT_CACHE, else ``~/.cache/saft``."""
    return Path(os.environ.get("SAFT_CACHE") or Path.home() / ".cache" / "saft")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def refuse_other_endings(path: Path, endings: tuple[str, ...] = TABLE_ENDINGS) -> None:
    """InputError for other formats, to be raised before any work is done for the file."""
    if path.suffix.lower() not in endings:
        raise InputError(f"{path}: cannot write this format. Choose a name that ends in {', '.join(endings)}.")


def write_table(frame: "pl.DataFrame", path: Path) -> None:
    """CSV, JSON lines or Parquet, by the ending of the name; the file is written completely or not at all."""
    refuse_other_endings(path)
    ending = path.suffix.lower()
    with replacing(path) as temporary:
        if ending == ".csv":
            frame.write_csv(temporary)
        elif ending == ".parquet":
            write_parquet(frame, temporary)
        else:
            frame.write_ndjson(temporary)


def write_parquet(frame: "pl.DataFrame", path: Path) -> None:
    """An OSError if the disk is full, which polars calls a ComputeError."""
    import polars as pl

    try:
        frame.write_parquet(path)
    except pl.exceptions.ComputeError as error:
        raise OSError(str(error)) from error


def nan_to_null(values: dict[str, Any]) -> dict[str, Any]:
    """For JSON, which has no nan. The inverse of :func:`null_to_nan`; nested values stay as they are."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in values.items()}


def null_to_nan(values: dict[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in values.items()}
