"""The command line. Each command is a typed function; heavy imports wait until a command needs them."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saft import compare_command, model_commands, serve_command
from saft.console import busy, plain, run_app, say, show
from saft.errors import InputError
from saft.flags import COLUMNS, Data, taking
from saft.model_commands import read_columns, write_model

if TYPE_CHECKING:
    from saft.network import TextualInteractionNetwork

app = typer.Typer(
    help="Classify interactions - this user did this with that item, in these words - by words and graph.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the ``saft`` command."""
    gc.set_threshold(100_000)  # imports make many objects and no garbage: looking for some took a sixth of their time
    run_app(app)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        import saft

        typer.echo(f"saft {saft.__version__}")
        raise typer.Exit


@app.command()
@taking("columns", COLUMNS)
def inspect(
    data: Data,
    columns: dict[str, Any],
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="The rows are only to be predicted.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw classes, degrees and text lengths to this file.")] = None,
) -> None:
    """Say what is in a table of interactions: users, items, classes, degrees, components, texts, duplicates."""
    network = read_columns(data, columns, labelled=not unlabelled)
    roles = ", ".join(f"{role} = {name}" for role, name in network.column_names.items())
    _print_summary(network, title=data[0] if len(data) == 1 else f"{len(data)} files")
    show(f"Columns: {plain(roles)}")
    if plot is not None:
        with busy("Drawing"):
            network.plot(plot)
        show(f"Picture: {plain(plot)}")


@app.command()
def demo(
    size: Annotated[int, typer.Option(help="Number of interactions.")] = 2000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same network and the same models.")] = 0,
    labels: Annotated[str, typer.Option(help="trust (genuine, spam, suspicious) or rating (1 to 5 stars).")] = "trust",
    out: Annotated[Path, typer.Option(help="Folder for table, picture and model.")] = Path("saft-demo"),
    train: Annotated[bool, typer.Option(help="Train on it: text only, structure only, and SAFT.")] = True,
    serve: Annotated[bool, typer.Option("--serve", help="Then serve the model and its page.")] = False,
    port: Annotated[int, typer.Option(help="Port of the page.")] = 8000,
) -> None:
    """Generate the embedded marketplace, look at it, train on it, and see what words and graph bring together."""
    from saft.marketplace import demo_network
    from saft.writing import write_table

    if serve and not train:
        raise InputError("There is nothing to serve without training: leave out --no-train or --serve.")

    with busy(f"Generating {size:,} interactions"):
        network = demo_network(size, seed, labels)
    _print_summary(network, title=f"a generated marketplace (seed {seed}, labels: {labels})")
    table, picture = out / "interactions.csv", out / "network.png"
    with busy(f"Writing {out}"):
        write_table(network.to_frame(), table)
    with busy(f"Drawing {picture}"):
        network.plot(picture)
    show(plain(f"Table:   {table}\nPicture: {picture}"))
    if train:
        _train_demo(network, seed, out / "model")
    else:
        show(plain(f"Next:    saft inspect {table}"))
    if serve:
        serve_command.run_server(out / "model", port=port)


def _train_demo(network: TextualInteractionNetwork, seed: int, out: Path) -> None:
    from rich.table import Table

    from saft.demonstration import CONTESTANTS, contest
    from saft.progress import Bar

    table = Table(title="Test part, scored once", title_justify="left")
    for heading in ("trained on the same split", "Macro-F1", "Micro-F1", "seconds"):
        table.add_column(heading, justify="left" if heading.startswith("trained") else "right")
    results = []
    for name in CONTESTANTS:
        say(f"[bold]Training {name}[/]")
        with Bar() as bar:
            results.append(contest(network, name, seed, bar))
        scores, report = results[-1].scores, results[-1].classifier.report()
        table.add_row(name, f"{scores.macro_f1:.1%}", f"{scores.micro_f1:.1%}", f"{report.seconds:.0f}")
    show(table)
    best = max(results, key=lambda result: result.classifier.report().valid_macro_f1)
    write_model(best.classifier, best.test, "test", f"{best.name} on a generated marketplace", out)
    show(plain(f"Next:   saft predict {out} NEW.csv --out predictions.csv\n        saft serve {out}"))


for command in (
    model_commands.train,
    model_commands.predict,
    model_commands.evaluate,
    model_commands.embed,
    compare_command.compare,
    serve_command.serve,
):
    app.command()(command)


def _print_summary(network: TextualInteractionNetwork, title: str) -> None:
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


if __name__ == "__main__":
    main()
