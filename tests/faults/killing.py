"""Kills a process at its n-th operation on the files of one folder: before it, or, of a write, in the middle of it.

``every_kill`` is called in a process that has imported everything and started no thread: each attempt is a fork of it.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

BY_PATH = ("open", "rename", "replace", "unlink", "remove", "mkdir", "rmdir", "chmod", "truncate")
BY_DESCRIPTOR = ("fsync", "write")


class Killer:
    """Counts operations beneath a folder; the one with this number is the last thing that this process does."""

    def __init__(self, folder: Path, at: int) -> None:
        self.folder, self.at, self.count = str(folder.resolve()), at, 0

    def is_ours(self, path: Any) -> bool:
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        return str(Path(os.fsdecode(path)).absolute()).startswith(self.folder)

    def step(self, half: Callable[[], Any] = lambda: None) -> None:
        self.count += 1
        if self.count == self.at:
            half()
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """From now on all operations of Python and of the writers of tensors and tables are counted."""
        for name in (*BY_PATH, *BY_DESCRIPTOR):
            setattr(os, name, partial(self._operation, getattr(os, name)))
        io.open = builtins.open = partial(self._opening, io.open)
        self._watch_writers()

    def _operation(self, function: Any, path: Any, *given: Any, **named: Any) -> Any:
        if named.get("dir_fd") is not None or self.is_ours(path):
            self.step()
        return function(path, *given, **named)

    def _opening(self, function: Any, path: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        file = function(path, mode, *given, **named)
        if set(mode) & set("wax+") and self.is_ours(path):
            self.step()
            return _Halting(file, self)
        return file

    def _watch_writers(self) -> None:
        """They write outside of Python: killed in the middle, they leave half a file."""
        import polars
        import safetensors.numpy
        import safetensors.torch

        def writing(function: Any, place: int, *given: Any, **named: Any) -> Any:
            path = Path(given[place])

            def half() -> None:
                if "safetensors" in function.__module__:  # it writes beside the file first
                    path.with_name(".tmpAbC123").write_bytes(b"half")
                else:
                    path.write_bytes(b"PAR1half")

            self.step()
            self.step(half)
            return function(*given, **named)

        for module in (safetensors.numpy, safetensors.torch):
            module.save_file = partial(writing, module.save_file, 1)
        write = polars.DataFrame.write_parquet
        polars.DataFrame.write_parquet = lambda *given, **named: writing(write, 1, *given, **named)


class _Halting:
    """A file whose writes are counted; the last one is done by half."""

    def __init__(self, file: Any, killer: Killer) -> None:
        self._file, self._killer = file, killer

    def write(self, data: Any) -> Any:
        def half() -> None:
            self._file.write(data[: len(data) // 2])
            self._file.flush()

        self._killer.step(half)
        return self._file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Halting:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def every_kill(
    prepare: Callable[[Path], None], act: Callable[[Path], None], verify: Callable[[Path, bool], None], folder: Path
) -> int:
    """Let ``act`` be killed at every operation, and ``verify`` what is left; the number of operations.

    Args:
        prepare: puts into the folder what is there before.
        act: what is killed.
        verify: raises if something is lost; it is told whether ``act`` was finished.
    """
    number = 0
    while True:
        number += 1
        place = folder / str(number)
        place.mkdir()
        prepare(place)
        killed = _forked(partial(_act_and_die, act, place, number)) == -signal.SIGKILL
        if _forked(partial(verify, place, not killed)) != 0:
            raise AssertionError(f"killed at operation {number}, something is lost")
        if not killed:
            return number - 1


def _act_and_die(act: Callable[[Path], None], folder: Path, at: int) -> None:
    Killer(folder, at).watch()
    act(folder)


def _forked(work: Callable[[], None]) -> int:
    """Exit code of a fork that does this; below 0 the signal that ended it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        work()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
