"""The command line. Each command is a typed function; heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saft.errors import InputError, InputWarning

if TYPE_CHECKING:
    from saft.network import TextualInteractionNetwork

app = typer.Typer(
    help="Classify interactions - this user did this with that item, in these words - by words and graph.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Column = Annotated[str | None, typer.Option(help="Name of this column, if guessing goes wrong.")]
SideTable = Annotated[Path | None, typer.Option(help="A table of attributes: one row each, keyed by the id.")]


def main() -> None:
    """Entry point of the ``saft`` command: what is wrong with the input is said in a sentence, with exit code 2."""
    warnings.showwarning = _show_warning
    try:
        app()
    except InputError as error:
        _say(f"[bold red]Error:[/] {_plain(error)}")
        sys.exit(2)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        import saft

        typer.echo(f"saft {saft.__version__}")
        raise typer.Exit


@app.command()
def inspect(
    data: Annotated[list[str], typer.Argument(help="CSV, TSV, JSON lines or Parquet files, also .gz or .zst.")],
    user: Column = None,
    item: Column = None,
    text: Column = None,
    label: Column = None,
    time: Column = None,
    split: Column = None,
    user_table: SideTable = None,
    item_table: SideTable = None,
    encoding: Annotated[str | None, typer.Option(help="Of text files that are not UTF-8, e.g. latin-1.")] = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="The rows are only to be predicted.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw classes, degrees and text lengths to this file.")] = None,
) -> None:
    """Say what is in a table of interactions: users, items, classes, degrees, components, texts, duplicates."""
    from saft.reading import read

    named = {"user": user, "item": item, "text": text, "label": label, "time": time, "split": split}
    with _busy("Reading"):
        network = read(
            data,
            labelled=not unlabelled,
            user_table=user_table,
            item_table=item_table,
            encoding=encoding,
            **{role: name for role, name in named.items() if name is not None},
        )
    columns = ", ".join(f"{role} = {name}" for role, name in network.column_names.items())
    _print_summary(network, title=data[0] if len(data) == 1 else f"{len(data)} files")
    _print(f"Columns: {_plain(columns)}")
    if plot is not None:
        with _busy("Drawing"):
            network.plot(plot)
        _print(f"Picture: {_plain(plot)}")


@app.command()
def demo(
    size: Annotated[int, typer.Option(help="Number of interactions.")] = 3000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same network.")] = 0,
    labels: Annotated[str, typer.Option(help="trust (genuine, spam, suspicious) or rating (1 to 5 stars).")] = "trust",
    out: Annotated[Path, typer.Option(help="Folder for the table and the picture.")] = Path("saft-demo"),
) -> None:
    """Generate the embedded marketplace, say what is in it, and write its table and a picture of it."""
    from saft.marketplace import demo_network
    from saft.writing import replacing

    with _busy(f"Generating {size:,} interactions"):
        network = demo_network(size, seed, labels)
    _print_summary(network, title=f"a generated marketplace (seed {seed}, labels: {labels})")
    table, picture = out / "interactions.csv", out / "network.png"
    with _busy(f"Writing {out}"), replacing(table) as temporary:
        network.to_frame().write_csv(temporary)
    with _busy(f"Drawing {picture}"):
        network.plot(picture)
    _print(_plain(f"Table:   {table}\nPicture: {picture}\nNext:    saft inspect {table}"))


def _print_summary(network: TextualInteractionNetwork, title: str) -> None:
    from rich.table import Table

    with _busy("Counting"):
        summary = network.summary()
    table = Table(title=_plain(title), show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    for name, figure in summary.rows():
        table.add_row(name, figure)
    table.add_section()
    shown = summary.class_rows()
    for name, count, share in shown[:20]:
        table.add_row(f"  {_plain(name)}", f"{count:>9,}  {share:>6.1%}  [blue]{'█' * round(30 * share)}[/]")
    if len(shown) > 20:
        table.add_row("  …", f"{len(shown) - 20:,} more classes")
    _print(table)


def _busy(what: str) -> AbstractContextManager[Any]:
    """A spinner on standard error while something takes long; nothing where nobody is watching."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(f"{_plain(what)} …") if console.is_terminal else nullcontext()


def _print(what: Any) -> None:
    from rich.console import Console

    Console().print(what, soft_wrap=isinstance(what, str), highlight=False)


def _say(markup: str) -> None:
    """To standard error, so that results on standard output stay clean."""
    from rich.console import Console

    Console(stderr=True).print(markup, soft_wrap=True, highlight=False)


def _plain(message: object) -> str:
    from rich.markup import escape

    return escape(str(message))


def _show_warning(message: Warning | str, category: type[Warning], *_place: Any, **_more: Any) -> None:
    if issubclass(category, InputWarning):
        _say(f"[bold yellow]Note:[/] {_plain(message)}")
    else:
        sys.stderr.write(f"{category.__name__}: {message}\n")


if __name__ == "__main__":
    main()
