"""Runs what is missing of a table, each run once and in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from experiments.provenance import commit, versions
from experiments.results import DONE, FAILED, FOLDER, Result, append, standing
from experiments.tables import Run, Table
from saft.errors import InputError, did_you_mean

LAST_WORDS = 400  # characters of what a run that died said on standard error
STOPPED = (-signal.SIGTERM, -signal.SIGINT)  # exit codes of a run that somebody ended: it did not fail


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
    runs: Sequence[Run],
    data: Path,
    folder: Path = FOLDER,
    hear: Callable[[Run, dict[str, Any]], None] = _nobody,
    jobs: int = 1,
) -> Iterator[tuple[Run, Result]]:
    """Each run and its result, written down as soon as it is there. A failure is a result too.

    Args:
        jobs: runs at the same time, which share the cores. Small models hardly gain from a second core of their own.
    """
    children: set[subprocess.Popen[str]] = set()
    threads = max((os.cpu_count() or 1) // jobs, 1)
    stopped = Event()

    def run_unless_stopped(run: Run) -> Result:
        try:
            if stopped.is_set():
                raise KeyboardInterrupt
            return run_one(run, data, partial(hear, run), threads, children)
        except KeyboardInterrupt:
            stopped.set()  # before this thread takes the next run
            raise

    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(run_unless_stopped, run): run for run in runs}
        try:
            for future in as_completed(futures):
                append(futures[future].table, future.result(), folder)
                yield futures[future], future.result()
        except BaseException:  # Ctrl-C, say: leave nothing running
            stopped.set()
            for child in tuple(children):
                child.kill()
            raise


def run_one(
    run: Run,
    data: Path,
    hear: Callable[[dict[str, Any]], None] = _nobody,
    threads: int = 0,
    children: set[subprocess.Popen[str]] | None = None,
) -> Result:
    """
    Args:
        threads: that it may use; 0 leaves it to the libraries.
        children: where its process is kept while it runs.
    """
    facts = {"dataset": run.network.name, "method": run.row.name, "seed": run.seed, **run.described()}
    facts |= {"versions": versions(), "commit": commit(), "threads": threads}
    measured: Result = {}
    command = [sys.executable, "-m", "experiments", "one", run.as_json(), "--data", str(data.resolve())]
    here = Path(__file__).parents[1]  # where the package is
    room = {**os.environ, "OMP_NUM_THREADS": str(threads)} if threads else None
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, cwd=here, env=room) as child,
    ):
        running = set() if children is None else children
        running.add(child)
        for line in child.stdout or ():
            told = json.loads(line)
            measured |= told.get("result", {})
            hear(told)
        child.wait()
        running.discard(child)
        said.seek(0)
        last = said.read().strip()
    if child.returncode in STOPPED:
        raise KeyboardInterrupt
    if child.returncode == 0 and measured:
        return {**facts, **measured, "status": DONE}
    nothing = dict.fromkeys(("macro_f1", "micro_f1", "valid_macro_f1", "seconds", "peak_memory_mb", "settings"))
    return {**facts, **nothing, "status": FAILED, "reason": _reason(child.returncode, last)}


def _reason(code: int, last: str) -> str:
    if code < 0:
        return f"ended by {signal.Signals(-code).name}; perhaps there was not enough memory"
    # Results are published; where this machine looked is nobody's business.
    said = re.sub(r"https?://[^\s'\"]+", "…", last)
    return said[-LAST_WORDS:] or f"ended with exit code {code}"
