"""A model folder as a whole: what may be replaced, who is writing it, and how a new one takes its place in one step.

There are, in the folder around it:

    NAME               the model: there before and after, never half of it
    NAME/checkpoint    of a training that has not finished
    .NAME-xxxxxxxx     while a model is written: the new one, then the old one on its way out
    .NAME.lock         held by whoever trains or saves

Where the file system cannot exchange two folders, there is a moment between two renames without NAME: :func:`recover`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from saft.errors import InputError
from saft.learning.checkpoint import STATE, is_checkpoint, strangers
from saft.locking import exclusive
from saft.writing import sync

FACTS, CHECKPOINT = "model.json", "checkpoint"
_EXCHANGE, _HERE = 2, -100  # RENAME_EXCHANGE (RENAME_SWAP of macOS) and AT_FDCWD of renameat2(2)
_OLD_CHECKPOINT = re.compile(r"checkpoint\.safetensors|\.checkpoint-\w{8}\.safetensors|\.tmp\w{6}")
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def is_model(folder: Path) -> bool:
    return (folder / FACTS).is_file()


def refuse_foreign(folder: Path) -> None:
    """Raise InputError if saving would replace anything but a model or a checkpoint."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; a model needs a folder.")
    if os.path.ismount(folder):
        raise InputError(f"{folder} is a mount point, which cannot be replaced: choose a folder in it.")
    if folder.is_dir() and not is_model(folder):
        others = [entry.name for entry in folder.iterdir() if entry.name != CHECKPOINT]
        others += [f"{CHECKPOINT}/{name}" for name in strangers(folder / CHECKPOINT)]
        if others:
            raise InputError(f"{folder} holds something else ({others[0]} …): choose a new folder for the model.")


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold this folder for one training or saving; an InputError, before any work is done, if that cannot succeed."""
    _refuse_unwritable(folder, folder.parent)
    with _locked(folder):
        recover(folder)
        _adopt_checkpoint(folder)
        refuse_foreign(folder)
        if folder.is_dir():
            _refuse_unwritable(folder, folder)
        for left in _leftovers(folder):
            shutil.rmtree(left)
        yield


def _refuse_unwritable(folder: Path, where: Path) -> None:
    try:
        where.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=where):
            pass
    except OSError as error:
        raise InputError(f"Cannot write the model to {folder}: {error.strerror}.") from error


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A new private folder that takes the place of ``folder`` when the block ends without an error."""
    with claimed(folder):
        place = folder.resolve()  # a link stays where it is
        try:
            with tempfile.TemporaryDirectory(
                dir=place.parent,
                prefix=f".{place.name}-",
                ignore_cleanup_errors=True,  # what is left is cleared the next time
            ) as temporary:
                new = Path(temporary) / "new"
                new.mkdir(mode=0o700)
                yield new
                _make_durable(new)
                _exchange(new, place, Path(temporary) / "old")
        except OSError as error:
            raise InputError(f"Cannot write the model to {folder}: {error.strerror or error}.") from error
        except InputError as error:  # of a file in the temporary folder, which is gone
            raise InputError(str(error).replace(str(new), str(folder))) from error


def recover(folder: Path) -> None:
    """Bring back a model whose replacement was killed between two renames, where folders cannot be exchanged."""
    if os.path.lexists(folder) or not (kept := [left / "old" for left in _leftovers(folder) if is_model(left / "old")]):
        return
    with _locked(folder):
        if kept[0].is_dir():
            kept[0].rename(folder.resolve())


def _adopt_checkpoint(folder: Path) -> None:
    """Move the checkpoint of a version that kept it beside the model's files; clear what was half-written there."""
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    left = {name for name in names if _OLD_CHECKPOINT.fullmatch(name)}
    if not left or (not is_model(folder) and names - left - {CHECKPOINT}):  # nothing of ours, or a stranger's folder
        return
    old = folder / f"{CHECKPOINT}.safetensors"
    if old.is_file() and not is_checkpoint(folder / CHECKPOINT):
        (folder / CHECKPOINT).mkdir(exist_ok=True)
        old.rename(folder / CHECKPOINT / STATE)
    for name in left:
        (folder / name).unlink(missing_ok=True)


def _locked(folder: Path) -> AbstractContextManager[None]:
    place = folder.resolve()
    refusal = f"Another process trains or saves a model in {folder}. Wait for it, or choose another folder."
    return exclusive(place.with_name(f".{place.name}.lock"), refusal)


def _leftovers(folder: Path) -> list[Path]:
    """Temporary folders of savings of this model that were killed, or that still run."""
    place = folder.resolve()
    ours = re.compile(rf"\.{re.escape(place.name)}-[a-z0-9_]{{8}}")
    if not place.parent.is_dir():
        return []
    return [entry for entry in place.parent.iterdir() if ours.fullmatch(entry.name) and entry.is_dir()]


def _make_durable(folder: Path) -> None:
    """Texts and ids of people are in a model: its files are for their owner alone."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.chmod(0o700 if path.is_dir() else 0o600)
        sync(path)
    sync(folder)


def _exchange(new: Path, folder: Path, old: Path) -> None:
    """Put ``new`` into the place of ``folder``; if that fails, what was there stays."""
    if not folder.exists():
        new.rename(folder)
    elif not exchanged(new, folder):
        folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            old.rename(folder)
            raise
    sync(folder.parent)


def exchanged(one: Path, other: Path) -> bool:
    """Let two folders change their places in one step; False where the system or the file system cannot."""
    names = os.fsencode(one), os.fsencode(other)
    system: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if hasattr(system, "renameat2"):
        status = system.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE)
    elif hasattr(system, "renamex_np"):
        status = system.renamex_np(*names, _EXCHANGE)
    else:
        return False
    if status == 0:
        return True
    failed = ctypes.get_errno()
    if failed in _CANNOT_EXCHANGE:
        return False
    raise OSError(failed, os.strerror(failed))
