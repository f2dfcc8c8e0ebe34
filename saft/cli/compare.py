"""``saft compare``: which method is worth using on this table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saft.cli.console import busy, plain, say, show
from saft.cli.data import read_columns
from saft.cli.options import COLUMNS, SETTINGS, Chosen, Data, settings_from, taking
from saft.errors import InputError
from saft.methods import names
from saft.settings import TYPES

if TYPE_CHECKING:
    import polars as pl

    from saft.comparison import Run
    from saft.data.network import TextualInteractionNetwork
    from saft.learning.callbacks import Callback

USUAL = "tfidf,bert,bert_labels,edgeformers,saft"  # from the simplest to ours, each adding something


@taking("columns", COLUMNS)
@taking("settings", SETTINGS)
def compare(
    data: Data,
    settings: dict[str, Any],
    columns: dict[str, Any],
    methods: Annotated[
        str, typer.Option(help=f"These methods are compared, separated by commas; all means {', '.join(names())}.")
    ] = USUAL,
    seeds: Annotated[
        int, typer.Option(help="Each method runs on this many splits; seeds count from --seed.", min=1)
    ] = 3,
    own: Annotated[
        list[str], typer.Option("--set", help="Change one method's setting, e.g. bert.layers=6; may be repeated.")
    ] = [],  # noqa: B006 (typer copies it)
    how: Annotated[
        str, typer.Option(help="The split is random, temporal, cold_users, cold_items or column.")
    ] = "random",
    inductive: Annotated[
        bool, typer.Option("--inductive", help="Keep test interactions out of the network while training.")
    ] = False,
    out: Annotated[Path, typer.Option(help="The leaderboard is written to this folder.")] = Path("saft-comparison"),
    config: Annotated[Path | None, typer.Option(help="This TOML file holds settings; flags overrule it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the comparison in the folder.")] = False,
) -> None:
    """Train several methods on the same splits of a table and show which of them is worth using."""
    shared = _without_preset(settings_from(config, settings))
    chosen = names() if methods == "all" else [name.strip() for name in methods.split(",") if name.strip()]
    if (out / RUNS).is_file() and not overwrite:
        raise InputError(f"{out} holds a comparison already. Choose another folder, or add --overwrite to replace it.")
    alone = _for_one_method(own)
    network = read_columns(data, columns)
    first = shared.pop("seed", 0)
    spread = range(first, first + seeds)
    runs = _run_all(network, chosen, spread, shared, alone, how, inductive, out)
    _write(network, runs, spread, how, out)


def _without_preset(chosen: Chosen) -> dict[str, Any]:
    """Settings for all methods. A preset is none of these: each is a method of its own."""
    if chosen.preset_of_file is not None:
        raise InputError(
            "A preset is for saft train: leave it out of the file, and compare the methods saft_fast, saft_balanced "
            "and saft."
        )
    return chosen.settings


RUNS, TABLE, PICTURE = "runs.csv", "leaderboard.csv", "leaderboard.png"


def _for_one_method(given: list[str]) -> dict[str, dict[str, Any]]:
    """``["bert.layers=6"]`` → ``{"bert": {"layers": 6}}``."""
    result: dict[str, dict[str, Any]] = {}
    for entry in given:
        place, equals, value = entry.partition("=")
        method, dot, name = place.partition(".")
        if not (equals and dot and method and name):
            raise InputError(f"--set {entry}: say method.setting=value, e.g. bert.layers=6.")
        result.setdefault(method, {})[name] = _typed(name, value, entry)
    return result


def _typed(name: str, value: str, entry: str) -> Any:
    wanted = TYPES.get(name, str)
    if wanted is bool:
        if value.lower() not in ("true", "false"):
            raise InputError(f"--set {entry}: {name} is true or false.")
        return value.lower() == "true"
    try:
        return wanted(value)
    except ValueError as error:
        raise InputError(f"--set {entry}: {name} has to be a number.") from error


def _run_all(
    network: TextualInteractionNetwork,
    methods: list[str],
    seeds: range,
    shared: dict[str, Any],
    alone: dict[str, dict[str, Any]],
    how: str,
    inductive: bool,
    out: Path,
) -> list[Run]:
    """All runs, each written to the file as soon as it is done; after Ctrl-C the finished ones."""
    from saft.cli.progress import ProgressBar
    from saft.comparison import as_table
    from saft.comparison import compare as compared
    from saft.writing import write_table

    runs: list[Run] = []
    with ProgressBar(epochs=False) as bar:

        def callbacks(method: str, seed: int) -> list[Callback]:
            bar.restart(f"{method}, seed {seed} ({len(runs) + 1} of {len(methods) * len(seeds)})")
            return [bar]

        try:
            for run in compared(
                network, methods, seeds, shared, alone, how=how, inductive=inductive, callbacks=callbacks
            ):
                runs.append(run)
                write_table(as_table(runs), out / RUNS)
                outcome = (
                    f"failed: {run.failed}"
                    if run.failed
                    else f"Macro-F1 {run.macro_f1:.1%}, Micro-F1 {run.micro_f1:.1%}, {run.seconds:.0f} s"
                )
                say(plain(f"{run.method}, seed {run.seed}: {outcome}"))
        except KeyboardInterrupt:
            say("[bold yellow]Note:[/] interrupted; the leaderboard holds the runs that were done.")
    if all(run.failed for run in runs):
        raise InputError("No method could be run." + (f" {runs[0].method}: {runs[0].failed}" if runs else ""))
    return runs


def _write(network: TextualInteractionNetwork, runs: list[Run], seeds: range, how: str, out: Path) -> None:
    from saft.comparison import draw_leaderboard, leaderboard, majority
    from saft.writing import write_table

    board, baseline = leaderboard(runs), majority(network, seeds, how)
    write_table(board, out / TABLE)
    with busy("Drawing"):
        draw_leaderboard(board, baseline, out / PICTURE)
    _show(board, baseline)
    show(plain(f"Table:   {out / TABLE} (every run: {out / RUNS})\nPicture: {out / PICTURE}"))


def _show(board: pl.DataFrame, baseline: tuple[float, float]) -> None:
    from rich.table import Table

    table = Table(title="Test part, mean ± standard deviation over seeds, in per cent", title_justify="left")
    for heading in ("method", "Macro-F1", "Micro-F1", "seconds", "parameters", "weights"):
        table.add_column(heading, justify="left" if heading in ("method", "weights") else "right")
    for row in board.iter_rows(named=True):
        if row["macro_f1"] is None:
            table.add_row(row["method"], "failed", "", "", "", plain(row["encoder"]))
            continue
        scores = (_plus_minus(row[score], row[f"{score}_std"]) for score in ("macro_f1", "micro_f1"))
        figures = (f"{row['seconds']:.0f}", f"{row['parameters']:,}", plain(row["encoder"] or "–"))
        table.add_row(row["method"], *scores, *figures)
    table.add_section()
    table.add_row("(majority class)", f"{100 * baseline[0]:.1f}", f"{100 * baseline[1]:.1f}", "", "", "")
    show(table)
    for row in board.iter_rows(named=True):
        if row["failed"]:
            say(f"[bold yellow]Note:[/] {plain(row['method'])} failed: {plain(row['failed'])}")


def _plus_minus(mean: float, spread: float | None) -> str:
    return f"{100 * mean:.1f}" + ("" if spread is None else f" ± {100 * spread:.1f}")
