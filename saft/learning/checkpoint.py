"""Checkpoints: a folder of its own with one safetensors file, replaced in one step, and JSON in its header.

A checkpoint holds weights, the best weights so far, the optimiser's state, the neighbour cache, torch's random state
and the trainer's state. Everything else follows from the seed and the number of the epoch, so that a resumed run ends
with the weights of an uninterrupted one, bit for bit.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from saft.errors import InputError, InputWarning
from saft.learning.callbacks import EpochRecord, TrainerState
from saft.locking import exclusive
from saft.tensors import read_tensors, write_tensors
from saft.writing import as_json, nan_to_null, null_to_nan, replacing

STATE, LOCK = "state.safetensors", "lock"
# What a process that was killed while it saved leaves there: our temporary file, or the one safetensors writes first.
_LEFTOVER = re.compile(r"\.state-\w{8}\.safetensors|\.tmp\w{6}")
Parts = dict[str, dict[str, Tensor]]  # name of a part → its tensors


def is_checkpoint(folder: Path) -> bool:
    """Whether a training can be continued from there."""
    return (folder / STATE).is_file()


def strangers(folder: Path) -> list[str]:
    """Names of what is there and is no part of a checkpoint."""
    if not folder.is_dir():
        return []
    names = (entry.name for entry in folder.iterdir())
    return sorted(name for name in names if name not in (STATE, LOCK) and not _LEFTOVER.fullmatch(name))


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold this folder for one training; an InputError, before any work is done, if it cannot keep checkpoints."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; a checkpoint needs a folder of its own.")
    if others := strangers(folder):
        raise InputError(f"{folder} holds something else ({others[0]} …): a checkpoint needs a folder of its own.")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot write checkpoints to {folder}: {error.strerror}.") from error
    try:
        with exclusive(folder / LOCK, f"Another training keeps its checkpoint in {folder}. Wait for it, or stop it."):
            for entry in folder.iterdir():
                if _LEFTOVER.fullmatch(entry.name):
                    entry.unlink()
            yield
    finally:
        with suppress(OSError):  # where something is in one, it stays
            for path in made:
                path.rmdir()


class Checkpoint:
    """
    Args:
        folder: of its own, which is :func:`claimed`.
        seconds: between two saves within an epoch.
        fingerprint: of data and settings; a checkpoint continues only the run that it came from.
    """

    def __init__(self, folder: Path, seconds: float, fingerprint: str) -> None:
        self.path, self.seconds, self.fingerprint = folder / STATE, seconds, fingerprint
        self._saved = time.perf_counter()

    @property
    def exists(self) -> bool:
        return self.path.is_file()

    @property
    def is_due(self) -> bool:
        return time.perf_counter() - self._saved >= self.seconds

    def save(self, parts: Parts, state: TrainerState) -> None:
        """Replace what is there; a warning if that cannot be done, since training can go on without."""
        tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
        stored = nan_to_null(asdict(state)) | {"history": [nan_to_null(asdict(record)) for record in state.history]}
        header = {"state": as_json(stored), "fingerprint": self.fingerprint}
        try:
            with replacing(self.path) as temporary:
                write_tensors(temporary, tensors, header)
        except InputError as error:
            warnings.warn(
                f"{error} Training goes on; if it is interrupted, it continues from the last checkpoint that was "
                "written, or from the beginning if there is none.",
                InputWarning,
                stacklevel=2,
            )
        self._saved = time.perf_counter()

    def load(self) -> tuple[Parts, TrainerState]:
        tensors, header = read_tensors(self.path)
        if header.get("fingerprint") != self.fingerprint:
            raise InputError(
                f"{self.path} belongs to a run with other data or other settings and cannot be continued with these. "
                "Train without resuming, or give the data and settings of that run."
            )
        try:
            stored: dict[str, Any] = json.loads(header["state"])
            history = [EpochRecord(**null_to_nan(record)) for record in stored["history"]]
            state = TrainerState(**null_to_nan(stored) | {"history": history})
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path} is damaged ({error}). Train without resuming.") from error
        parts: Parts = {}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = tensor
        return parts, state
