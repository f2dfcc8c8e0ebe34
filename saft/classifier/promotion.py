"""Promotion: a new model takes the place of the one that is served, in one step where the file system can do that."""

from __future__ import annotations

import time
from pathlib import Path

from saft.classifier.folder import exchanged
from saft.errors import InputError
from saft.writing import sync


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
    """Exchange the names of two folders, in one step where system and file system can do that."""
    if not exchanged(one, other):
        _exchange_in_steps(one, other)
    sync(other.parent)


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
