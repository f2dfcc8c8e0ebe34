"""FrozenStore: what an encoder's frozen layers say of texts, on disk, shared by all trainings that read them.

A store belongs to one encoder cut at one layer. It consists of segments, which are never changed once written, so that
any number of processes read and write at once without locks:

    NAME.npy         (rows, width), half precision: states of the texts' tokens, one after the other
    NAME.index.npy   of every text: a hash of its tokens, its first row, its number of rows; written last

The folder is ``frozen`` in the one that SAFT_CACHE names (``~/.cache/saft`` without it). All stores together take
at most SAFT_CACHE_GB (20 without it) and half of what is free; segments that were not used for longest make room.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from saft.errors import InputError
from saft.learning.array_file import ArrayFile
from saft.writing import as_json, cache_folder, replacing

INDEX = np.dtype([("hash", np.uint64), ("first", np.int64), ("rows", np.int64)])
PLACED = np.dtype([*INDEX.descr, ("segment", np.int64)])
LONGEST_WRITE = 3600.0  # seconds; what is still without an index then was left by a process that was killed
DEFAULT_LIMIT = 20.0  # GB
ABOUT = "about.json"


class FrozenStore:
    """Arrays of (rows, width), one per text, found by a hash of the text's tokens.

    Args:
        folder: of this store.
        about: which encoder's it is, for ``saft cache``; written beside the first segment.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any] | None = None) -> None:
        self.folder, self.about = folder, about or {}
        self._paths: list[Path] = []  # of all segments
        self._opened: dict[int, ArrayFile] = {}  # of those segments that are in use
        self._lost: list[int] = []
        self._index = np.empty(0, PLACED)  # in the order of arrival, so that a place stays what it is
        self._sorted = np.empty(0, np.int64)  # its places by hash
        self._add(sorted(folder.glob("*.index.npy")) if folder.is_dir() else [])

    def __contains__(self, hashed: int) -> bool:
        return bool(self.places(np.array([hashed], np.uint64))[0] >= 0)

    def places(self, hashes: np.ndarray) -> np.ndarray:
        """(hashes,) where each is, for :meth:`read`; -1 if it is not there. Segments found here are in use from now."""
        while True:
            places = self._find(hashes)
            segments = np.unique(self._index["segment"][places[places >= 0]]).tolist()
            lost = [segment for segment in segments if not self._open(segment)]
            if not lost:
                return places
            self._lost += lost
            self._sort()

    def read(self, place: int) -> np.ndarray | None:
        """(rows, width), half precision; None if another program has shortened the file since it was opened."""
        entry = self._index[place]
        return self._opened[int(entry["segment"])].rows(int(entry["first"]), int(entry["rows"]))

    def write(self, hashes: np.ndarray, states: Sequence[np.ndarray]) -> bool:
        """Add a segment; False if there is no room for it."""
        joined = np.concatenate(states).astype(np.float16)
        rows = np.array([len(one) for one in states])
        index = np.array(list(zip(hashes, np.cumsum(rows) - rows, rows, strict=True)), INDEX)
        in_use = {self._paths[segment].name for segment in self._opened}
        if not _make_room(joined.nbytes + index.nbytes, keep=in_use):
            return False
        path = self.folder / f"{uuid4().hex}.index.npy"
        try:
            self._describe()
            for file, array in ((_states_of(path), joined), (path, index)):
                with replacing(file) as temporary, temporary.open("wb") as opened:
                    np.save(opened, array, allow_pickle=False)
        except (OSError, InputError):  # a full or read-only disk: the caller computes again instead
            _states_of(path).unlink(missing_ok=True)
            return False
        self._add([path])
        self._open(len(self._paths) - 1)  # in use: the next segments must not replace it
        return True

    def _describe(self) -> None:
        if self.about and not (self.folder / ABOUT).is_file():
            with replacing(self.folder / ABOUT) as temporary:
                temporary.write_text(as_json(dict(self.about)), encoding="utf-8")

    def _add(self, paths: Sequence[Path]) -> None:
        """Read the indexes of these segments; files of states are opened when they are needed."""
        parts = [self._index]
        for path in paths:
            index = _loaded(path)
            if index is not None and index.dtype == INDEX:
                placed = np.empty(len(index), PLACED)
                for name in INDEX.names or ():
                    placed[name] = index[name]
                placed["segment"] = len(self._paths)
                self._paths.append(path)
                parts.append(placed)
        self._index = np.concatenate(parts)
        self._sort()

    def _sort(self) -> None:
        order = np.argsort(self._index["hash"], kind="stable")
        self._sorted = order[~np.isin(self._index["segment"][order], self._lost)]

    def _find(self, hashes: np.ndarray) -> np.ndarray:
        if not len(self._sorted):
            return np.full(len(hashes), -1)
        ordered = self._index["hash"][self._sorted]
        position = np.searchsorted(ordered, hashes).clip(max=len(ordered) - 1)
        return np.where(ordered[position] == hashes, self._sorted[position], -1)

    def _open(self, segment: int) -> bool:
        """False if its states are damaged or another process has removed them."""
        if segment not in self._opened:
            entries = self._index[self._index["segment"] == segment]
            states = ArrayFile.of(_states_of(self._paths[segment]))
            if states is None or len(states) < (entries["first"] + entries["rows"]).max(initial=0):
                return False
            with suppress(OSError):  # a cache that others may only read
                os.utime(self._paths[segment])  # it is in use
            self._opened[segment] = states
        return True


def _loaded(path: Path) -> np.ndarray | None:
    """None if another process has removed the file, or if it is damaged."""
    try:
        found: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found


def hash_tokens(tokens: np.ndarray) -> int:
    return int.from_bytes(hashlib.blake2b(tokens.tobytes(), digest_size=8).digest(), "little")


def frozen_folder() -> Path:
    return cache_folder() / "frozen"


def limit_bytes() -> float:
    """How much all stores may take together."""
    given = os.environ.get("SAFT_CACHE_GB", "")
    try:
        limit = float(given or DEFAULT_LIMIT)
    except ValueError:
        limit = math.nan
    if not limit >= 0:
        raise InputError(f"SAFT_CACHE_GB has to be a number of gigabytes; got {given!r}.")
    return limit * 1e9


def _make_room(needed: int, keep: set[str]) -> bool:
    """Remove what was not used for the longest time until so much may be written; False if that is not enough."""
    folder, limit = frozen_folder(), limit_bytes()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        segments = sorted(folder.glob("*/*.index.npy"), key=_last_use)
        taken, free = sum(map(_size, segments)), shutil.disk_usage(folder).free
        for oldest in segments:
            if taken + needed <= limit and needed <= free / 2:
                break
            if oldest.name not in keep:
                size = _size(oldest)
                oldest.unlink(missing_ok=True)
                _states_of(oldest).unlink(missing_ok=True)
                taken, free = taken - size, free + size
    except OSError:  # a folder that cannot be made or written
        return False
    return taken + needed <= limit and needed <= free / 2


def _remove_leftovers(folder: Path) -> None:
    """Files without an index, of processes that were killed while they wrote."""
    for path in folder.glob("*/*.npy"):
        is_index = path.name.endswith(".index.npy")
        if not is_index and not _index_of(path).is_file() and time.time() - _last_use(path) > LONGEST_WRITE:
            path.unlink(missing_ok=True)


def _index_of(states: Path) -> Path:
    return states.with_name(f"{states.stem}.index.npy")


def _states_of(index: Path) -> Path:
    return index.with_name(index.name.replace(".index.npy", ".npy"))


def _size(index: Path) -> int:
    return sum(found.st_size for path in (index, _states_of(index)) if (found := _stat(path)))


def _last_use(path: Path) -> float:
    found = _stat(path)
    return found.st_mtime if found else 0.0


def _stat(path: Path) -> os.stat_result | None:
    """None if another process has removed it by now."""
    try:
        return path.stat()
    except OSError:
        return None


@dataclass(frozen=True)
class StoreSummary:
    """A store as ``saft cache`` shows it.

    Args:
        folder: of the store.
        about: what the store was told about its encoder; empty if it does not say.
        size: bytes.
        last_use: seconds since 1970; 0 if it is empty.
    """

    folder: Path
    about: dict[str, Any]
    size: int
    last_use: float


def stores() -> list[StoreSummary]:
    """All stores, the one that was used last first."""
    found = []
    for folder in frozen_folder().glob("*/"):
        segments = list(folder.glob("*.index.npy"))
        last_use = max(map(_last_use, segments), default=0.0)
        found.append(StoreSummary(folder, _about(folder), sum(map(_size, segments)), last_use))
    return sorted(found, key=lambda store: -store.last_use)


def clear_stores() -> int:
    """Remove all segments; returns the bytes that were freed. A process that uses some computes them again."""
    folder, freed = frozen_folder(), 0
    for index in folder.glob("*/*.index.npy"):
        freed += _size(index)
        index.unlink(missing_ok=True)
        _states_of(index).unlink(missing_ok=True)
    _remove_leftovers(folder)
    for store in folder.glob("*/"):
        (store / ABOUT).unlink(missing_ok=True)
        with suppress(OSError):  # another process is writing into it
            store.rmdir()
    return freed


def _about(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
