"""Whether a model folder is what was saved: nothing lost, nothing exchanged, nothing slipped in.

This finds accidents and files that do not belong there. A folder whose ``model.json`` was forged as well is read with
the same care as any other input: it may be refused or predict nonsense, but none of it is ever run.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

import saft
from saft.classifier.folder import CHECKPOINT, FACTS, is_model, recover
from saft.errors import InputError
from saft.features.foreign_code import refuse_code
from saft.hashing import file_digest
from saft.learning.checkpoint import is_checkpoint

FORMAT = 4
ENCODER = "encoder"
CARD = "README.md"  # people may write into the model card
MOST_BYTES = 64 << 20  # of model.json, which holds some kilobytes
_READ = (".safetensors", ".parquet", ".json")
_KINDS = {
    "saft": str, "settings": dict, "classes": list, "class_type": str, "learnt": dict, "files": dict,
    "user_attributes": list, "item_attributes": list, "column_names": dict,
}  # fmt: skip


def is_hashed(name: PurePosixPath | Path) -> bool:
    """Whether the sha256 of this file of a model folder is kept."""
    return name.parts[0] != CHECKPOINT and name.as_posix() not in (CARD, FACTS)


def verified_facts(folder: Path) -> dict[str, Any]:
    """What ``model.json`` says, once every file is found to be the one that was saved; else an InputError."""
    recover(folder)
    if not folder.is_dir():
        raise InputError(f"There is no model folder {folder}.")
    if not is_model(folder):
        is_running = is_checkpoint(folder / CHECKPOINT)
        hint = " Training was interrupted there: continue with saft train … --resume." if is_running else ""
        raise InputError(f"{folder} holds no model: there is no {FACTS} in it.{hint}")
    facts = _facts(folder)
    for part in (folder, folder / ENCODER):
        refuse_code(part)
    _refuse_strangers(folder, facts["files"])
    for name, digest in facts["files"].items():
        path = folder / name
        if not path.is_file():
            raise InputError(f"{folder} is incomplete: {name} is missing. Copy the folder again or train anew.")
        if file_digest(path) != digest:
            raise InputError(f"{path} is not the file that was saved. Copy the folder again or train anew.")
    return facts


def classes_of(facts: dict[str, Any]) -> pl.Series:
    """The values of the labels, with their type."""
    dtype = getattr(pl, facts["class_type"], None)
    if not (isinstance(dtype, type) and issubclass(dtype, pl.DataType)):
        raise ValueError(f"{facts['class_type']!r} is no type of labels")
    classes = pl.Series("label", facts["classes"], dtype=dtype)
    if classes.null_count() or classes.n_unique() < max(len(classes), 2):
        raise ValueError("its classes are fewer than two, empty or repeated")
    return classes


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / FACTS
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("it is too large")
        facts = json.loads(path.read_text(encoding="utf-8"))
        _refuse_other_formats(folder, str(facts["saft"])[:40], int(facts["format"]))
        for name, kind in _KINDS.items():
            if not isinstance(facts[name], kind):
                raise TypeError(f"{name!r} is no {kind.__name__}")
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}). Copy the folder again or train anew.") from error
    return facts


def _refuse_other_formats(folder: Path, made_with: str, format_: int) -> None:
    if format_ > FORMAT:
        raise InputError(
            f"{folder} was written by saft {made_with} in a newer format ({format_}) than this saft "
            f"{saft.__version__} reads ({FORMAT}). Update saft."
        )
    if format_ < FORMAT:
        raise InputError(
            f"{folder} was written by a development version of saft, in a format ({format_}) that is no longer read. "
            "Train the model again."
        )


def _refuse_strangers(folder: Path, listed: dict[str, str]) -> None:
    """What is read has to be listed, and what is listed has to be in the folder."""
    for name in listed:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise InputError(f"{folder / FACTS} names a file outside of the folder: {name}.")
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        is_read = is_hashed(inside) and (len(inside.parts) > 1 or path.suffix in _READ)
        if is_read and not path.is_dir() and inside.as_posix() not in listed:
            raise InputError(f"{path} is not part of the model that was saved there. Remove it.")
