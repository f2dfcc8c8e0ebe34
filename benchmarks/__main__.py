"""``make bench``: run every benchmark (or those named), print one table, write ``benchmarks/results.json``."""

import importlib
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.measuring import Figure
from saft.errors import did_you_mean
from saft.writing import replacing

BENCHMARKS = [
    "reading",
    "structure",
    "startup",
    "training",
    "presets",
    "inference",
    "accuracy",
    "memory",
    "scaling",
    "serving",
    "queue",
]
RESULTS = Path(__file__).parent / "results.json"


def main(names: list[str]) -> None:
    for name in names:
        if name not in BENCHMARKS:
            sys.exit(f"There is no benchmark {name!r}.{did_you_mean(name, BENCHMARKS)} Known: {', '.join(BENCHMARKS)}.")
    figures: list[Figure] = []
    with Progress() as progress:
        for name in progress.track(names or BENCHMARKS, description="measuring"):
            for figure in importlib.import_module(f"benchmarks.{name}").figures():
                figures.append(figure)
                _write(figures)  # at once: the next one may take an hour
    Console().print(_table(figures))


def _table(figures: list[Figure]) -> Table:
    table = Table("figure", "value", "target", "holds")
    for figure in figures:
        holds = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[figure.holds]
        table.add_row(figure.name, f"{figure.value:.2f} {figure.unit}", figure.target, holds)
    return table


def _write(figures: list[Figure]) -> None:
    """Figures that were not measured this time stay as they were."""
    known = {entry["name"]: entry for entry in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    known |= {figure.name: figure.as_json() for figure in figures}
    with replacing(RESULTS) as temporary:
        temporary.write_text(json.dumps(list(known.values()), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
