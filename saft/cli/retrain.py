"""``saft retrain``: a new model from a model's table and what was judged since; which of the two is better."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from saft.cli.console import busy, plain, say, show
from saft.cli.model import load_model, write_model
from saft.cli.options import Model
from saft.cli.review import Where, opened
from saft.errors import InputError

if TYPE_CHECKING:
    from saft.classifier.champion import Comparison
    from saft.classifier.estimator import SaftClassifier
    from saft.classifier.retraining import Grown


def retrain(
    model: Model,
    database: Where,
    out: Annotated[
        Path | None,
        typer.Option(help="The new model is written to this folder; by default to MODEL-2 beside the old one, or -3 …"),
    ] = None,
    promote_if_better: Annotated[
        bool,
        typer.Option("--promote-if-better", help="The new model takes the place of the old one, which is kept beside."),
    ] = False,
    from_scratch: Annotated[
        bool,
        typer.Option("--from-scratch", help="Begin with the pretrained encoder instead of the old model's weights."),
    ] = False,
) -> None:
    """Train again with what came in and was judged, beside the old model; say which of the two is better."""
    from saft.classifier.parts import read_parts
    from saft.classifier.promotion import refuse_other_disk

    model = model.resolve()
    out = _next_to(model) if out is None else out
    _refuse_to_lose(out)
    if promote_if_better:
        refuse_other_disk(out, model)
    with opened(database) as found:
        from saft.server.judged import grown_by

        champion = load_model(model)
        grown = grown_by(champion, read_parts(model, len(champion.network_)), found)
    if not grown.changed.any():
        raise InputError(
            f"Nothing in {database} is labelled that {model} was not trained with: there is nothing to learn."
        )
    _say_what_is_new(champion, grown)
    comparison = _trained(champion, grown, from_scratch, model, out)
    show_comparison(comparison)
    _end(comparison, promote_if_better, model, out)


def _trained(champion: SaftClassifier, grown: Grown, from_scratch: bool, model: Path, out: Path) -> Comparison:
    """Train the challenger, compare both, and write the challenger with the comparison."""
    from saft.classifier import champion as contest
    from saft.classifier.retraining import goes_on, retrain
    from saft.cli.progress import ProgressBar

    if not from_scratch and champion.settings.trains_encoder and not goes_on(champion, grown):
        say(
            f"[bold yellow]Note:[/] {plain(model)} does not say which rows it was trained on, so training begins with "
            "the pretrained encoder."
        )
    continued = not from_scratch and goes_on(champion, grown)
    with ProgressBar() as bar:
        challenger = retrain(champion, grown, from_scratch, [bar])
    with busy("Comparing both models"):
        started_from = "the old model's weights" if continued else "the pretrained encoder"
        if not champion.settings.trains_encoder:
            started_from = "nothing: this preset is fitted anew"
        comparison = contest.compare(champion, challenger, grown, started_from)
    title = f"saft model retrained from {model.name}"
    write_model(
        challenger, grown.network, grown.parts, title, out, lambda folder: contest.write_comparison(comparison, folder)
    )
    return comparison


def show_comparison(comparison: Comparison) -> None:
    from rich.table import Table

    from saft.classifier.champion import HEADINGS, table_of

    table = Table(title="Macro-F1 on rows that neither model was trained on", title_justify="left")
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if place else "left")
    for line in table_of(comparison):
        table.add_row(*map(plain, line))
    show(table)
    show(plain(f"Result: {comparison.everything.verdict}."))


def _end(comparison: Comparison, promote_if_better: bool, model: Path, out: Path) -> None:
    """Promote the new model if that is wanted and it is better; say where both are."""
    from saft.classifier.champion import PAGE
    from saft.classifier.promotion import promote

    if promote_if_better and comparison.challenger_is_better:
        kept = promote(out, model)
        show(plain(f"The new model is in {model} now; the one that it replaced is in {kept}."))
        show(plain(f"Comparison: {model / PAGE}"))
        return
    if promote_if_better:
        show(plain(f"{model} stays: the new model is not better."))
    show(plain(f"Comparison: {out / PAGE}"))


def _say_what_is_new(champion: SaftClassifier, grown: Grown) -> None:
    added = len(grown.network) - len(champion.network_)
    more = grown.network.n_classes - champion.network_.n_classes
    classes = f", {more} new {'class' if more == 1 else 'classes'}" if more else ""
    say(plain(f"{added:,} interactions came in, {int(grown.changed.sum()):,} labels are new{classes}."))


def _next_to(model: Path) -> Path:
    number = 2
    while (found := model.with_name(f"{model.name}-{number}")).exists():
        number += 1
    return found


def _refuse_to_lose(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is there already: choose a folder of its own for the new model.")
