"""Promotion: a new model takes the place of the one that is served. At every moment a whole model is there."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any

from saft.errors import InputError

_HERE, _EXCHANGE, _SWAP = -100, 2, 2  # AT_FDCWD, RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS


def promote(new: Path, served: Path) -> Path:
    """Put the model in ``new`` where ``served`` is; returns the folder in which the replaced one is kept.

    A kill in between leaves two whole models, at worst with the replaced one still under the name of ``new``.
    """
    kept = free_name(served, f"replaced-{time.strftime('%Y%m%d-%H%M%S')}")
    try:
        exchange(new, served)
        new.rename(kept)
    except OSError as error:
        raise InputError(f"{new} cannot take the place of {served}: {error.strerror or error}.") from error
    return kept


def refuse_other_disk(new: Path, served: Path) -> None:
    """InputError if the folders could not be exchanged in one step, to be raised before any work is done."""
    beside = next(folder for folder in new.absolute().parents if folder.is_dir())
    if beside.stat().st_dev != served.parent.stat().st_dev:
        raise InputError(f"{new} is on another disk than {served}: choose an --out beside it for --promote-if-better.")


def free_name(folder: Path, ending: str) -> Path:
    """A name beside the folder that nothing has yet."""
    found, number = folder.with_name(f"{folder.name}.{ending}"), 1
    while found.exists():
        number += 1
        found = folder.with_name(f"{folder.name}.{ending}-{number}")
    return found


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders in one step, where the system can do that (Linux, macOS)."""
    names = os.fsencode(one), os.fsencode(other)
    system: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if hasattr(system, "renameat2"):
        failed = system.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)
    elif hasattr(system, "renamex_np"):
        failed = system.renamex_np(*names, _SWAP)
    else:
        _exchange_in_steps(one, other)
        return
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _exchange_in_steps(one: Path, other: Path) -> None:
    """For a moment ``other`` is not there: whoever looks then looks again."""
    aside = free_name(other, "aside")
    other.rename(aside)
    try:
        one.rename(other)
    except OSError:
        aside.rename(other)
        raise
    aside.rename(one)
