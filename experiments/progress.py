"""Progress display while a table runs: runs done, what the current run does, and the time left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.results import DONE, FOLDER, Result, read_results, seconds_by_row
from experiments.runner import run_all
from experiments.tables import Run
from saft.cli.console import plain, say

UNKNOWN = 120.0  # seconds assumed for a run while no run was timed


def run_with_progress(runs: Sequence[Run], data: Path, folder: Path = FOLDER, jobs: int = 1) -> None:
    from rich.console import Console

    if not runs:
        return
    tables = {run.table: read_results(run.table, folder) for run in runs}
    taken = {(table, row): mean for table, results in tables.items() for row, mean in seconds_by_row(results).items()}
    began, ahead = time.perf_counter(), list(runs)
    with Console(stderr=True).status("") as status:

        def on_progress(run: Run, event: dict[str, Any]) -> None:
            if "result" not in event:
                what = event.get("message") or f"epoch {event['epoch']}, validation {event['valid_macro_f1']:.1f}"
                spent, left = _clock(time.perf_counter() - began), _clock(seconds_left(ahead, taken, jobs))
                place = f"{len(runs) - len(ahead)} of {len(runs)} done · {_named(run)}"
                status.update(f"{place} · {plain(what)} · {spent} spent, about {left} left")

        for run, result in run_all(runs, data, folder, on_progress, jobs):
            ahead.remove(run)
            if result["status"] == DONE:
                taken.setdefault((run.table, run.row.name), result["seconds"])
            place = f"{len(runs) - len(ahead)} of {len(runs)}"
            say(_line(run, result, place, seconds_left(ahead, taken, jobs)))


def seconds_left(runs: Sequence[Run], taken: dict[tuple[str, str], float], jobs: int = 1) -> float:
    """Estimated from the time of the same row of the same table; for rows without one, from the mean over rows."""
    usual = sum(taken.values()) / len(taken) if taken else UNKNOWN
    return sum(taken.get((run.table, run.row.name), usual) for run in runs) / jobs


def _line(run: Run, result: Result, place: str, left: float) -> str:
    if result["status"] != DONE:
        return f"{place}: {_named(run)} [bold red]failed:[/] {plain(result['reason'])}"
    return (
        f"{place}: {_named(run)}: Macro-F1 {result['macro_f1']:.2f}, Micro-F1 {result['micro_f1']:.2f}, "
        f"{_clock(result['seconds'])}; about {_clock(left)} left"
    )


def _named(run: Run) -> str:
    return f"{run.row.name}, {run.network.title}, seed {run.seed}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
