"""Results: one JSON line per run in ``experiments/results/TABLE.jsonl``; the last line about a run counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.tables import Run, Table
from saft.errors import InputError

FOLDER = Path(__file__).parent / "results"
DONE, FAILED = "done", "failed"

Result = dict[str, Any]
Key = tuple[str, str, int]


def path_of(table: str, folder: Path = FOLDER) -> Path:
    return folder / f"{table}.jsonl"


def read_results(table: str, folder: Path = FOLDER) -> list[Result]:
    """All lines, the oldest first. A last line that was cut off in the middle of writing is left out."""
    path = path_of(table, folder)
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    results = []
    for number, line in enumerate(lines, start=1):
        try:
            results += [json.loads(line)] if line else []
        except json.JSONDecodeError as error:
            if number < len(lines):  # complete lines end with a line break
                raise InputError(f"{path.name}, line {number} is not JSON: {error}. Mend or remove it.") from error
    return results


def append(table: str, result: Result, folder: Path = FOLDER) -> None:
    """Append a line in one write, after removing the rest of a line that was cut off earlier."""
    path = path_of(table, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(result, ensure_ascii=False).encode() + b"\n")


@dataclass(frozen=True)
class RunStatus:
    """The results of a table's runs, by outcome.

    ``outdated`` counts results whose settings are no longer those of the table.
    """

    done: dict[Key, Result]
    failed: dict[Key, Result]
    outdated: int


def run_status(table: Table, folder: Path = FOLDER) -> RunStatus:
    lines = {_key(result): result for result in read_results(table.name, folder)}
    done, failed, outdated = {}, {}, 0
    for run in table.runs():
        result = lines.get(run.key)
        if result is None:
            continue
        if not matches(run, result):
            outdated += 1
        elif result["status"] == DONE:
            done[run.key] = result
        else:
            failed[run.key] = result
    return RunStatus(done, failed, outdated)


def matches(run: Run, result: Result) -> bool:
    described = json.loads(json.dumps(run.described()))
    return all(result.get(name) == value for name, value in described.items())


def seconds_by_row(results: Iterable[Result]) -> dict[str, float]:
    """How long runs of each row took, on average."""
    taken: dict[str, list[float]] = {}
    for result in results:
        if result["status"] == DONE:
            taken.setdefault(result["method"], []).append(result["seconds"])
    return {row: sum(values) / len(values) for row, values in taken.items()}


def _key(result: Result) -> Key:
    return result["dataset"], result["method"], result["seed"]
