"""What every benchmark shares: a figure, and interleaved runs of competitors in processes of their own.

A figure is a ratio taken in one run, never a bare number of seconds: machines differ, ratios travel.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was measured, and whether the promise holds."""

    name: str
    value: float
    unit: str
    target: str = ""  # e.g. ">= 3"; empty where we promise nothing and only report

    @property
    def holds(self) -> bool | None:
        if not self.target:
            return None
        comparison, bound = self.target.split()
        return self.value >= float(bound) if comparison == ">=" else self.value <= float(bound)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "target": self.target,
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Cost:
    """Medians over the repeats."""

    seconds: float
    peak_mb: float


def compare(module: str, competitors: Sequence[str], arguments: Sequence[str], repeats: int = 7) -> dict[str, Cost]:
    """Run ``python -m module COMPETITOR ARGUMENTS`` for each competitor in turn, again and again; medians of each.

    Turns are interleaved so that a slow minute of the machine hits all competitors; each run is a fresh process, so
    that peaks of memory and warm caches do not carry over.
    """
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in competitors}
    for _ in range(repeats):
        for name in competitors:
            command = [sys.executable, "-m", module, name, *arguments]
            finished = subprocess.run(command, capture_output=True, text=True, check=True)
            measured[name].append(json.loads(finished.stdout.splitlines()[-1]))
    return {
        name: Cost(median(run["seconds"] for run in runs), median(run["peak_mb"] for run in runs))
        for name, runs in measured.items()
    }


def report_cost(work: Callable[[], object]) -> None:
    """In the child: do the work and print what it cost, for :func:`compare` to read."""
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    peak = peak_mb()
    del result  # alive until here: what the work built counts towards the peak
    print(json.dumps({"seconds": seconds, "peak_mb": peak}))


def peak_mb() -> float:
    """The high-water mark of this process. Not ``ru_maxrss``: on Linux it starts from the parent's."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        raise RuntimeError("peaks of memory are read from /proc/self/status, which this system does not have")
    return int(match[1]) / 1024
