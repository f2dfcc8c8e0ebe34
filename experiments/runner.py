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
from experiments.results import DONE, FAILED, FOLDER, Result, append, run_status
from experiments.tables import Run, Table
from saft.errors import InputError, did_you_mean

REASON_LENGTH = 400  # last characters of standard error that are kept of a failed run
STOPPED = (-signal.SIGTERM, -signal.SIGINT)  # exit codes of a run that was stopped: no failure


def missing(table: Table, folder: Path = FOLDER, again: bool = False) -> list[Run]:
    """Runs that have no result yet, or a failed one, or one with other settings; with ``again``, all."""
    done = {} if again else run_status(table, folder).done
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


def _ignore_progress(*_event: Any) -> None:
    """The default of ``on_progress``."""


def run_all(
    runs: Sequence[Run],
    data: Path,
    folder: Path = FOLDER,
    on_progress: Callable[[Run, dict[str, Any]], None] = _ignore_progress,
    jobs: int = 1,
) -> Iterator[tuple[Run, Result]]:
    """Each run and its result, which is appended to the results file at once. A failure is a result too.

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
            return run_one(run, data, partial(on_progress, run), threads, children)
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
    on_progress: Callable[[dict[str, Any]], None] = _ignore_progress,
    threads: int = 0,
    children: set[subprocess.Popen[str]] | None = None,
) -> Result:
    """
    Args:
        threads: of the run; 0 leaves the number to the libraries.
        children: holds the run's process while it runs.
    """
    facts = {"dataset": run.network.title, "method": run.row.name, "seed": run.seed, **run.described()}
    facts |= {"versions": versions(), "commit": commit(), "threads": threads}
    measured: Result = {}
    command = [sys.executable, "-m", "experiments", "one", run.as_json(), "--data", str(data.resolve())]
    here = Path(__file__).parents[1]  # where the package is
    room = {**os.environ, "OMP_NUM_THREADS": str(threads)} if threads else None
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=here, env=room) as child,
    ):
        running = set() if children is None else children
        running.add(child)
        for line in child.stdout or ():
            event = json.loads(line)
            measured |= event.get("result", {})
            on_progress(event)
        child.wait()
        running.discard(child)
        errors.seek(0)
        last = errors.read().strip()
    if child.returncode in STOPPED:
        raise KeyboardInterrupt
    if child.returncode == 0 and measured:
        return {**facts, **measured, "status": DONE}
    nothing = dict.fromkeys(("macro_f1", "micro_f1", "valid_macro_f1", "seconds", "peak_memory_mb", "settings"))
    return {**facts, **nothing, "status": FAILED, "reason": _reason(child.returncode, last)}


def _reason(code: int, last: str) -> str:
    if code < 0:
        return f"ended by {signal.Signals(-code).name}; perhaps there was not enough memory"
    # Results are published: addresses that this machine tried to reach are left out.
    shown = re.sub(r"https?://[^\s'\"]+", "…", last)
    return shown[-REASON_LENGTH:] or f"ended with exit code {code}"
