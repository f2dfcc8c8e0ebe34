"""Runs what is missing of a table, one run after the other, each in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.provenance import commit, versions
from experiments.results import DONE, FAILED, FOLDER, Result, append, standing
from experiments.tables import Run, Table
from saft.errors import InputError, did_you_mean

LAST_WORDS = 400  # characters of what a run that died said on standard error


def missing(table: Table, folder: Path = FOLDER, again: bool = False) -> list[Run]:
    """Runs that have no result yet, or a failed one, or one with other settings; with ``again``, all."""
    done = {} if again else standing(table, folder).done
    return [run for run in table.runs() if run.key not in done]


def chosen(
    runs: Sequence[Run], only: Sequence[str] = (), datasets: Sequence[str] = (), seeds: Sequence[int] = ()
) -> list[Run]:
    """Those of these rows, networks and seeds; nothing given means all."""
    _must_exist(only, {run.row.name for run in runs}, "row")
    _must_exist(datasets, {run.network.name for run in runs}, "dataset")
    return [
        run
        for run in runs
        if (not only or run.row.name in only)
        and (not datasets or run.network.name in datasets)
        and (not seeds or run.seed in seeds)
    ]


def _must_exist(wanted: Sequence[str], known: set[str], what: str) -> None:
    for name in wanted:
        if name not in known:
            raise InputError(f"The table has no {what} {name!r} to run.{did_you_mean(name, sorted(known))}")


def _nobody(*_heard: Any) -> None:
    """Nobody is told."""


def run_all(
    runs: Sequence[Run], data: Path, folder: Path = FOLDER, hear: Callable[[Run, dict[str, Any]], None] = _nobody
) -> Iterator[tuple[Run, Result]]:
    """Each run and its result, which is written down before the next begins. A failure is a result too."""
    for run in runs:
        result = run_one(run, data, partial(hear, run))
        append(run.table, result, folder)
        yield run, result


def run_one(run: Run, data: Path, hear: Callable[[dict[str, Any]], None] = _nobody) -> Result:
    facts = {"dataset": run.network.name, "method": run.row.name, "seed": run.seed, **run.described()}
    facts |= {"versions": versions(), "commit": commit()}
    measured: Result = {}
    command = [sys.executable, "-m", "experiments", "one", run.as_json(), "--data", str(data.resolve())]
    here = Path(__file__).parents[1]  # where the package is
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, cwd=here) as child,
    ):
        try:
            for line in child.stdout or ():
                told = json.loads(line)
                measured |= told.get("result", {})
                hear(told)
            child.wait()
        except BaseException:  # Ctrl-C, say: do not leave it running
            child.kill()
            raise
        said.seek(0)
        last = said.read().strip()
    if child.returncode == 0 and measured:
        return {**facts, **measured, "status": DONE}
    nothing = dict.fromkeys(("macro_f1", "micro_f1", "valid_macro_f1", "seconds", "peak_memory_mb", "settings"))
    return {**facts, **nothing, "status": FAILED, "reason": _reason(child.returncode, last)}


def _reason(code: int, last: str) -> str:
    if code < 0:
        return f"ended by {signal.Signals(-code).name}; perhaps there was not enough memory"
    return last[-LAST_WORDS:] or f"ended with exit code {code}"
