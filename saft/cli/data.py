"""Commands around a table: inspect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saft.cli.console import busy, plain, show
from saft.cli.options import COLUMNS, Data, taking

if TYPE_CHECKING:
    from saft.data.network import TextualInteractionNetwork


@taking("columns", COLUMNS)
def inspect(
    data: Data,
    columns: dict[str, Any],
    unlabelled: Annotated[
        bool, typer.Option("--unlabelled", help="The table needs no labels; its rows are only to be predicted.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw classes, degrees and text lengths to this file.")] = None,
) -> None:
    """Summarise a table of interactions: users, items, classes, degrees, components, texts, duplicates."""
    network = read_columns(data, columns, labelled=not unlabelled)
    roles = ", ".join(f"{role} = {name}" for role, name in network.column_names.items())
    print_summary(network, title=data[0] if len(data) == 1 else f"{len(data)} files")
    show(f"Columns: {plain(roles)}")
    if plot is not None:
        with busy("Drawing"):
            network.plot(plot)
        show(f"Picture: {plain(plot)}")


def read_columns(data: list[str], columns: dict[str, Any], labelled: bool = True) -> TextualInteractionNetwork:
    from saft.data.reading import read

    with busy("Reading"):
        return read(data, labelled=labelled, **columns)


def print_summary(network: TextualInteractionNetwork, title: str) -> None:
    from rich.table import Table

    with busy("Counting"):
        summary = network.summary()
    table = Table(title=plain(title), show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    for name, figure in summary.rows():
        table.add_row(name, figure)
    table.add_section()
    shown = summary.class_rows()
    for name, count, share in shown[:20]:
        table.add_row(f"  {plain(name)}", f"{count:>9,}  {share:>6.1%}  [blue]{'█' * round(30 * share)}[/]")
    if len(shown) > 20:
        table.add_row("  …", f"{len(shown) - 20:,} more classes")
    show(table)
