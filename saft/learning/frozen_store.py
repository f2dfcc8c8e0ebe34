"""FrozenStore: what an encoder's frozen layers say of texts, on disk, shared by every training that reads the same texts.

A store belongs to one encoder cut at one layer. It consists of segments, which are never changed once written, so that
any number of processes read and write at once without locks:

    NAME.npy         (rows, width), half precision, mapped into memory: states of the texts' tokens, one after the other
    NAME.index.npy   of every text: a hash of its tokens, its first row, its number of rows; written last

The folder is ``frozen`` in the one that SAFT_CACHE names (``~/.cache/saft`` without it). All stores together take at most
SAFT_CACHE_GB (20 without it) and half of what is free; segments that were not used for the longest time make room.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from saft.errors import InputError
from saft.writing import cache_folder, replacing

INDEX = np.dtype([("hash", np.uint64), ("first", np.int64), ("rows", np.int64)])
DEFAULT_LIMIT = 20.0  # GB


class FrozenStore:
    """Arrays of (rows, width), one per text, found by a hash of the text's tokens.

    Args:
        folder: of this store.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._segments: list[Any] = []
        self._index = np.empty(0, [*INDEX.descr, ("segment", np.int64)])
        self._names: set[str] = set()
        for path in sorted(folder.glob("*.index.npy")) if folder.is_dir() else []:
            self._open(path)

    def __contains__(self, hashed: int) -> bool:
        return bool(self.places(np.array([hashed], np.uint64))[0] >= 0)

    def places(self, hashes: np.ndarray) -> np.ndarray:
        """(hashes,) where each is, for :meth:`read`; -1 if it is not there."""
        if not len(self._index):
            return np.full(len(hashes), -1)
        place = np.searchsorted(self._index["hash"], hashes).clip(max=len(self._index) - 1)
        return np.where(self._index["hash"][place] == hashes, place, -1)

    def read(self, place: int) -> np.ndarray:
        """(rows, width), half precision."""
        entry = self._index[place]
        states: np.ndarray = self._segments[entry["segment"]][entry["first"] : entry["first"] + entry["rows"]]
        return states

    def write(self, hashes: np.ndarray, states: Sequence[np.ndarray]) -> bool:
        """Add a segment; False if there is no room for it."""
        joined = np.concatenate(states).astype(np.float16)
        if not _make_room(joined.nbytes, keep=self._names):
            return False
        rows = np.array([len(one) for one in states])
        index = np.array(list(zip(hashes, np.cumsum(rows) - rows, rows, strict=True)), INDEX)
        path = self.folder / f"{uuid4().hex}.index.npy"
        try:
            for file, array in ((_states_of(path), joined), (path, index)):
                with replacing(file) as temporary, temporary.open("wb") as opened:
                    np.save(opened, array, allow_pickle=False)
        except (OSError, InputError):  # a full or read-only disk: the caller computes again instead
            _states_of(path).unlink(missing_ok=True)
            return False
        self._open(path)
        return True

    def _open(self, path: Path) -> None:
        try:
            index = np.load(path, allow_pickle=False)
            segment = np.load(_states_of(path), mmap_mode="r", allow_pickle=False)
            os.utime(path)  # it is in use
        except (OSError, ValueError):  # removed by another process, or damaged: as if it were not there
            return
        added = np.empty(len(index), self._index.dtype)
        for name in INDEX.names or ():
            added[name] = index[name]
        added["segment"] = len(self._segments)
        self._segments.append(segment)
        self._names.add(path.name)
        self._index = np.concatenate([self._index, added])
        self._index = self._index[np.argsort(self._index["hash"], kind="stable")]


def hash_tokens(tokens: np.ndarray) -> int:
    return int.from_bytes(hashlib.blake2b(tokens.tobytes(), digest_size=8).digest(), "little")


def frozen_folder() -> Path:
    return cache_folder() / "frozen"


def limit_bytes() -> float:
    """How much all stores may take together."""
    given = os.environ.get("SAFT_CACHE_GB", "")
    try:
        limit = float(given or DEFAULT_LIMIT)
    except ValueError as error:
        raise InputError(f"SAFT_CACHE_GB has to be a number of gigabytes; got {given!r}.") from error
    return limit * 1e9


def _make_room(needed: int, keep: set[str]) -> bool:
    """Remove what was not used for the longest time until so much may be written; False if that is not enough."""
    folder = frozen_folder()
    folder.mkdir(parents=True, exist_ok=True)
    segments = sorted(folder.glob("*/*.index.npy"), key=_last_use)
    taken = sum(map(_size, segments))
    free = shutil.disk_usage(folder).free
    for oldest in segments:
        if taken + needed <= limit_bytes() and needed <= free / 2:
            break
        if oldest.name not in keep:
            size = _size(oldest)
            oldest.unlink(missing_ok=True)
            _states_of(oldest).unlink(missing_ok=True)
            taken, free = taken - size, free + size
    return taken + needed <= limit_bytes() and needed <= free / 2


def _states_of(index: Path) -> Path:
    return index.with_name(index.name.replace(".index.npy", ".npy"))


def _size(index: Path) -> int:
    return sum(path.stat().st_size for path in (index, _states_of(index)) if path.is_file())


def _last_use(index: Path) -> float:
    return index.stat().st_mtime if index.is_file() else 0.0
