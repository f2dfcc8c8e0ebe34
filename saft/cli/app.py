"""The command line. Each command is a typed function; heavy imports happen inside the commands."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from saft.cli import cache, compare, data, demo, model, retrain, review, serve
from saft.cli.console import run_app

app = typer.Typer(
    help="Classify interactions - this user did this with that item, in these words - by words and graph.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the ``saft`` command."""
    gc.set_threshold(100_000)  # imports create many objects and no garbage; collecting took a sixth of their time
    run_app(app)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        import saft

        typer.echo(f"saft {saft.__version__}")
        raise typer.Exit


for command in (
    data.inspect,
    demo.demo,
    model.train,
    model.predict,
    model.evaluate,
    model.embed,
    compare.compare,
    serve.serve,
    retrain.retrain,
    review.export,
    cache.cache,
):
    app.command()(command)
app.add_typer(review.reviewer, name="reviewer")


if __name__ == "__main__":
    main()
