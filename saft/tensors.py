"""Tensors and arrays in safetensors files: read as a whole, never mapped, with errors that say what to do.

A mapped file that another program shortens ends the process that reads it, without any message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saft.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Any], header: dict[str, str] | None = None) -> None:
    """Tensors of torch, or numpy arrays; an OSError if they cannot be written."""
    from safetensors import SafetensorError, numpy, torch

    try:
        if all(isinstance(array, np.ndarray) for array in tensors.values()):
            arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
            numpy.save_file(arrays, path, metadata=header)
        else:
            torch.save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata=header)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of those that hold nan or infinite numbers."""
    return [name for name, tensor in tensors.items() if tensor.is_floating_point() and not tensor.isfinite().all()]


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors, header)."""
    from safetensors import torch

    return _read(path, torch.load)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    from safetensors import numpy

    arrays: dict[str, np.ndarray] = _read(path, numpy.load)[0]
    return arrays


def _read(path: Path, parse: Any) -> tuple[dict[str, Any], dict[str, str]]:
    from safetensors import SafetensorError

    try:
        data = path.read_bytes()
        tensors = parse(data)
        length = int.from_bytes(data[:8], "little")
        return tensors, json.loads(data[8 : 8 + length]).get("__metadata__") or {}
    # Types that torch or numpy do not know are a KeyError.
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({error}). Is the file complete?") from error
