"""``saft demo``: the embedded marketplace, and what the same small encoder learns from text, structure and both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saft.cli.console import busy, plain, say, show
from saft.cli.data import print_summary
from saft.cli.model import write_model
from saft.cli.serve import require_extra, run_server
from saft.errors import InputError
from saft.settings import STRUCTURE_ONLY, TEXT_ONLY

if TYPE_CHECKING:
    import polars as pl

    from saft.classifier.estimator import SaftClassifier
    from saft.data.network import TextualInteractionNetwork
    from saft.learning.callbacks import Callback
    from saft.metrics import Scores

MOST_NEW = 100  # interactions that wait on the page of `saft demo --serve`
# Quick enough for two cores. What the layers that are not trained say of the texts is computed for the first only.
SMALL: dict[str, Any] = {"max_length": 32, "epochs": 4, "learning_rate": 3e-4}
CONTESTANTS: dict[str, dict[str, Any]] = {
    "text only": TEXT_ONLY,
    "structure only": STRUCTURE_ONLY,
    "SAFT": {},
}


def demo(
    size: Annotated[int, typer.Option(help="The network has this many interactions.")] = 2000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same network and the same models.")] = 0,
    labels: Annotated[
        str, typer.Option(help="Rows are labelled by trust (genuine, spam, suspicious) or by rating (1 to 5 stars).")
    ] = "trust",
    out: Annotated[Path, typer.Option(help="Table, picture and model are written to this folder.")] = Path("saft-demo"),
    train: Annotated[bool, typer.Option(help="Train on text only, on structure only, and SAFT on both.")] = True,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the best model and its page afterwards.")] = False,
    port: Annotated[int, typer.Option(help="The server listens on this port.")] = 8000,
) -> None:
    """Generate the embedded marketplace, summarise it, and train on its text, on its structure, and on both."""
    from saft.data.demo import demo_network
    from saft.writing import write_table

    if serve and not train:
        raise InputError("There is nothing to serve without training: leave out --no-train or --serve.")
    if serve:
        require_extra()

    with busy(f"Generating {size:,} interactions"):
        network = demo_network(size, seed, labels)
    print_summary(network, title=f"a generated marketplace (seed {seed}, labels: {labels})")
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
        from saft.server.loading import service_loader

        new = out / "new.csv"
        write_table(unlabelled(demo_network(size, seed + 1, labels)), new)
        show(plain(f"Queue:   {new}"))
        run_server(out / "model", service_loader(out / "model", queue=[new]), port=port)


def unlabelled(network: TextualInteractionNetwork, most: int = MOST_NEW) -> pl.DataFrame:
    """The first interactions of another marketplace of the same shoppers and things, to be reviewed."""
    return network.to_frame().head(most).drop("label")


def _train_demo(network: TextualInteractionNetwork, seed: int, out: Path) -> None:
    from rich.table import Table

    from saft.classifier.parts import parts_of
    from saft.cli.progress import ProgressBar
    from saft.data.splits import split

    table = Table(title="Test part, scored once", title_justify="left")
    for heading in ("trained on the same split", "Macro-F1", "Micro-F1", "seconds"):
        table.add_column(heading, justify="left" if heading.startswith("trained") else "right")
    results = []
    for name in CONTESTANTS:
        say(f"[bold]Training {name}[/]")
        with ProgressBar() as bar:
            results.append(contest(network, name, seed, [bar]))
        scores, report = results[-1].scores, results[-1].classifier.report()
        table.add_row(name, f"{scores.macro_f1:.1%}", f"{scores.micro_f1:.1%}", f"{report.seconds:.0f}")
    show(table)
    best = max(results, key=lambda result: result.classifier.report().valid_macro_f1)
    parts = parts_of(network, split(network, seed=seed))
    write_model(best.classifier, network, parts, f"{best.name} on a generated marketplace", out)
    show(plain(f"Next:   saft predict {out} NEW.csv --out predictions.csv\n        saft serve {out}"))


@dataclass(frozen=True)
class Result:
    name: str
    scores: Scores  # on the test part
    classifier: SaftClassifier
    test: TextualInteractionNetwork


def contest(network: TextualInteractionNetwork, name: str, seed: int, callbacks: Iterable[Callback] = ()) -> Result:
    """Train one contestant on the 70/10/20 split that all share; the test labels are hidden until it has predicted."""
    from saft.classifier.estimator import SaftClassifier
    from saft.data.splits import split

    parts = split(network, seed=seed)
    test = network.take(parts.test)
    classifier = SaftClassifier(**SMALL, **CONTESTANTS[name], seed=seed)
    classifier.fit(network.hiding(parts.test), train=parts.train, valid=parts.valid, callbacks=callbacks)
    return Result(name, classifier.evaluate(test), classifier, test)
