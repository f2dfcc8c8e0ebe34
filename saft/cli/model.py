"""Commands around a model: train, predict, evaluate, embed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saft.cli.console import busy, plain, say, show
from saft.cli.data import read_columns
from saft.cli.options import COLUMNS, SETTINGS, Chosen, Data, Model, Preset, settings_from, taking
from saft.errors import InputError
from saft.settings import PRESETS, Settings

if TYPE_CHECKING:
    import polars as pl

    from saft.classifier.estimator import SaftClassifier
    from saft.data.network import TextualInteractionNetwork
    from saft.data.splits import Split
    from saft.metrics import Scores

Out = Annotated[
    Path, typer.Option(help="The result is written to this file; its ending decides the format.", show_default=False)
]


@taking("columns", COLUMNS)
@taking("settings", SETTINGS)
def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="The model is written to this folder.", show_default=False)],
    settings: dict[str, Any],
    columns: dict[str, Any],
    preset: Preset = None,
    config: Annotated[
        Path | None, typer.Option(help="This TOML file holds settings, perhaps a preset; flags overrule it.")
    ] = None,
    how: Annotated[
        str,
        typer.Option(help="The split is random, temporal, cold_users, cold_items or column (default if it exists)."),
    ] = "",
    test_share: Annotated[float, typer.Option(help="This share of the labelled rows is kept for the report.")] = 0.1,
    tune: Annotated[
        int, typer.Option(help="Search for settings first, in this many trainings; 0 means no search.")
    ] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted training in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in the folder.")] = False,
) -> None:
    """Train a model on a table of interactions; write it with its report and model card to a folder."""
    from saft.classifier.estimator import SaftClassifier
    from saft.classifier.folder import is_model
    from saft.classifier.parts import parts_of
    from saft.learning.divergence import DivergedError

    given = settings_from(config, settings, preset)
    chosen = given.settings
    Settings.of(chosen, "saft train")
    with _kept_safe(out, resume, overwrite):
        network = read_columns(data, columns)
        parts = _split(network, how or ("column" if network.splits is not None else "random"), chosen, test_share)
        if tune:
            from saft.classifier.tuning import useful_trials

            tune = useful_trials(chosen, tune)
        if not resume:  # how much of it is done already is not known here
            _say_how_long(network, parts, given, trainings=tune + 1)
        if tune:
            chosen = _tuned(network, parts, chosen, tune)
        written = network, parts_of(network, parts), f"saft model trained on {_named(data)}", out
        classifier = SaftClassifier(**chosen)
        try:
            _fit(classifier, network, parts, out, resume)
        except DivergedError as error:
            if not hasattr(classifier, "assembly_") or is_model(out):
                raise
            write_model(classifier, *written)
            raise InputError(f"{error} What was best before that is the model in {out} now.") from error
        if classifier.report().interrupted:
            say("[bold yellow]Note:[/] interrupted; the best model so far is kept. Add --resume to go on.")
        write_model(classifier, *written)


def write_model(
    classifier: SaftClassifier,
    network: TextualInteractionNetwork,
    parts: pl.DataFrame,
    title: str,
    out: Path,
    further: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Save the model with report and card, and print its scores on the rows that it did not learn from.

    Args:
        network: with all labels.
        parts: what its rows were used for.
        further: writes more files to the folder.
    """
    from saft.classifier.evaluation import report_facts
    from saft.classifier.folder import CHECKPOINT
    from saft.classifier.parts import split_of, write_parts
    from saft.classifier.report import write_card, write_report
    from saft.learning.checkpoint import is_checkpoint
    from saft.metrics import score

    split = split_of(parts)
    numbers, part = (split.test, "test") if len(split.test) else (split.valid, "validation")
    rows = network.take(numbers)
    with busy("Writing the report"):
        facts = report_facts(classifier, rows, part, title)

    def also(folder: Path) -> None:
        write_report(folder / "report.html", facts)
        write_card(folder / "README.md", facts)
        write_parts(parts, folder)
        further(folder)
        if classifier.report().interrupted and is_checkpoint(out / CHECKPOINT):
            shutil.copytree(out / CHECKPOINT, folder / CHECKPOINT)

    with busy(f"Saving {out}"):
        classifier.save(out, also)
    if len(rows):
        show_scores(score(facts.labels, facts.probabilities), facts.classes, f"{part} part, {len(rows):,} rows")
    show(plain(f"{classifier.report()}\nModel:  {out}\nReport: {out / 'report.html'}"))


@taking("columns", COLUMNS)
def predict(model: Model, data: Data, out: Out, columns: dict[str, Any]) -> None:
    """Predict the class of every row; write the table with a prediction and a probability per class."""
    from saft.cli.progress import ProgressBar
    from saft.writing import refuse_other_endings, write_table

    refuse_other_endings(out)
    classifier = load_model(model)
    rows = read_columns(data, columns, labelled=False)
    with ProgressBar("Predicting", len(rows)) as bar:
        table = classifier.predict(rows, bar.advance)
    write_table(table, out)
    counts = table["prediction"].cast(str).value_counts().sort("count", descending=True)
    found = ", ".join(f"{name} {count:,}" for name, count in counts.iter_rows())
    show(plain(f"{len(rows):,} rows: {found}\nTable: {out}"))


@taking("columns", COLUMNS)
def evaluate(
    model: Model,
    data: Data,
    columns: dict[str, Any],
    out: Annotated[Path | None, typer.Option(help="Write the scores to this JSON file as well.")] = None,
) -> None:
    """Compare predictions with the labels of a table; the labels are hidden while predicting."""
    from saft.writing import as_json, replacing

    classifier = load_model(model)
    rows = read_columns(data, columns, labelled=False)
    with busy(f"Predicting {rows.is_labelled.sum():,} labelled rows"):
        scores = classifier.evaluate(rows)
    show_scores(scores, classifier.classes_.cast(str).to_list(), _named(data))
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(as_json(scores.as_dict(), indent=2), encoding="utf-8")


@taking("columns", COLUMNS)
def embed(model: Model, data: Data, out: Out, columns: dict[str, Any]) -> None:
    """Write a vector for every row, of words and graph together: to .npy, or with the rows to .parquet."""
    import numpy as np
    import polars as pl

    from saft.cli.progress import ProgressBar
    from saft.writing import refuse_other_endings, replacing, write_table

    refuse_other_endings(out, (".npy", ".parquet"))
    classifier = load_model(model)
    rows = read_columns(data, columns, labelled=False)
    with ProgressBar("Embedding", len(rows)) as bar:
        vectors = classifier.embed(rows, bar.advance)
    if out.suffix.lower() == ".npy":
        with replacing(out) as temporary, temporary.open("wb") as file:
            np.save(file, vectors, allow_pickle=False)
    else:
        write_table(rows.to_frame().with_columns(pl.Series("embedding", vectors)), out)
    show(plain(f"{len(vectors):,} vectors of {vectors.shape[1]} numbers: {out}"))


def load_model(folder: Path) -> SaftClassifier:
    from saft.classifier.estimator import SaftClassifier

    with busy(f"Loading {folder}"):
        return SaftClassifier.load(folder)


def show_scores(scores: Scores, classes: list[str], title: str) -> None:
    from rich.table import Table

    table = Table(title=plain(title), title_justify="left")
    for heading in ("class", "precision", "recall", "F1", "rows"):
        table.add_column(heading, justify="left" if heading == "class" else "right")
    for name, figures in zip(classes, scores.per_class, strict=True):
        shares = (f"{figures[figure]:.1%}" for figure in ("precision", "recall", "f1"))
        table.add_row(plain(name), *shares, f"{figures['support']:,}")
    show(table)
    show(
        f"Macro-F1 {scores.macro_f1:.1%}, Micro-F1 {scores.micro_f1:.1%}, "
        f"calibration error {scores.calibration_error:.1%}"
    )


@contextmanager
def _kept_safe(out: Path, resume: bool, overwrite: bool) -> Iterator[None]:
    """Hold the folder; refuse to replace a model or an interrupted training unless --resume or --overwrite is given."""
    from saft.classifier.folder import CHECKPOINT, claimed, is_model
    from saft.learning.checkpoint import is_checkpoint

    with claimed(out):
        running = is_checkpoint(out / CHECKPOINT)
        if resume and not running:
            raise InputError(
                f"There is no interrupted training in {out} to continue: run the command without --resume."
            )
        if not (resume or overwrite):
            if running:
                raise InputError(
                    f"{out} holds an interrupted training. Add --resume to go on, or --overwrite to start anew."
                )
            if is_model(out):
                raise InputError(
                    f"{out} holds a model already. Choose another folder, or add --overwrite to replace it."
                )
        yield


def _split(network: TextualInteractionNetwork, how: str, settings: dict[str, Any], test_share: float) -> Split:
    from saft.data.splits import split

    chosen = Settings.of(settings)
    if not 0 <= test_share <= 0.9 or test_share + chosen.valid_share > 0.95:
        raise InputError(
            f"test_share={test_share} and valid_share={chosen.valid_share} leave too little to learn from."
        )
    fractions = (1 - chosen.valid_share - test_share, chosen.valid_share, test_share)
    return split(network, how, fractions=fractions, seed=chosen.seed)


def _say_how_long(network: TextualInteractionNetwork, parts: Split, given: Chosen, trainings: int) -> None:
    """About how long training will take, and how long with quicker presets, if that can be said."""
    from saft.classifier.duration import Task, duration_line

    chosen, names = Settings.of(given.settings), list(PRESETS)
    quicker = {name: Settings.of(given.with_preset(name)) for name in reversed(names[: names.index(chosen.preset)])}
    scored = len(parts.test) or len(parts.valid)
    task = Task(len(network), len(parts.train), len(parts.valid), scored, network.texts.n_unique())
    with busy("Measuring how long this takes"):
        line = duration_line(network.hiding(parts.test), task, chosen, quicker, trainings)
    if line is not None:
        say(plain(line))


def _tuned(network: TextualInteractionNetwork, parts: Split, chosen: dict[str, Any], trials: int) -> dict[str, Any]:
    from saft.classifier.tuning import tune

    def on_progress(number: int, score: float, settings: dict[str, Any]) -> None:
        found = ", ".join(f"{name}={value}" for name, value in settings.items() if name not in chosen)
        say(plain(f"Trial {number}/{trials}: validation Macro-F1 {score:.1%} ({found or 'defaults'})"))

    with busy(f"Searching settings in {trials} trainings"):
        return tune(network.hiding(parts.test), parts.train, parts.valid, chosen, trials, on_progress)


def _fit(classifier: SaftClassifier, network: TextualInteractionNetwork, parts: Split, out: Path, resume: bool) -> None:
    from saft.classifier.folder import CHECKPOINT
    from saft.cli.progress import ProgressBar

    checkpoint = out / CHECKPOINT
    if not resume and checkpoint.is_dir():
        shutil.rmtree(checkpoint)
    try:
        with ProgressBar() as bar:
            classifier.fit(
                network.hiding(parts.test), train=parts.train, valid=parts.valid, checkpoint=checkpoint, callbacks=[bar]
            )
    except KeyboardInterrupt:  # in an epoch it ends the training, not the command
        say("[bold yellow]Note:[/] interrupted before there was a model; nothing was written.")
        raise


def _named(data: list[str]) -> str:
    return Path(data[0]).name if len(data) == 1 else f"{len(data)} files"
