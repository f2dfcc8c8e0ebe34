"""Checkpoints: one safetensors file with JSON in its header, replaced in one step.

A checkpoint holds weights, the best weights so far, the optimiser's state, the neighbour cache, torch's random state
and the trainer's state. Everything else follows from the seed and the number of the epoch, so that a resumed run ends
with the weights of an uninterrupted one, bit for bit.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from saft.errors import InputError
from saft.learning.callbacks import EpochRecord, TrainerState
from saft.writing import nan_to_null, null_to_nan, replacing

Parts = dict[str, dict[str, Tensor]]  # name of a part → its tensors


class Checkpoint:
    """
    Args:
        path: of the file.
        seconds: between two saves within an epoch.
        fingerprint: of data and settings; a checkpoint continues only the run that it came from.
    """

    def __init__(self, path: Path, seconds: float, fingerprint: str) -> None:
        self.path, self.seconds, self.fingerprint = path, seconds, fingerprint
        self._saved = time.perf_counter()

    @property
    def exists(self) -> bool:
        return self.path.is_file()

    @property
    def is_due(self) -> bool:
        return time.perf_counter() - self._saved >= self.seconds

    def save(self, parts: Parts, state: TrainerState) -> None:
        from safetensors.torch import save_file

        tensors = {f"{part}.{name}": tensor for part, named in parts.items() for name, tensor in named.items()}
        stored = nan_to_null(asdict(state)) | {"history": [nan_to_null(asdict(record)) for record in state.history]}
        header = {"state": json.dumps(stored, allow_nan=False), "fingerprint": self.fingerprint}
        with replacing(self.path) as temporary:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata=header)
        self._saved = time.perf_counter()

    def load(self) -> tuple[Parts, TrainerState]:
        tensors, header = read_safetensors(self.path)
        if header.get("fingerprint") != self.fingerprint:
            raise InputError(
                f"{self.path} belongs to a run with other data or other settings and cannot be continued with these. "
                "Train without resuming, or give the data and settings of that run."
            )
        parts: Parts = {}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = tensor
        stored: dict[str, Any] = json.loads(header["state"])
        history = [EpochRecord(**null_to_nan(record)) for record in stored["history"]]
        return parts, TrainerState(**null_to_nan(stored) | {"history": history})


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors, header)."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} cannot be read ({error}). Is the file complete?") from error
