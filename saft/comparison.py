"""Several methods on the same splits: runs, a leaderboard, a picture of it.

Splits and scores are made here. A method receives a network in which the labels of test rows are hidden, and predicts
those rows once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from saft.data.network import TextualInteractionNetwork
from saft.data.plot import BLUE, GREY, ORANGE, refuse_other_pictures
from saft.data.splits import Split, split
from saft.errors import InputError
from saft.methods import find
from saft.metrics import macro_f1, micro_f1
from saft.writing import replacing

if TYPE_CHECKING:
    from saft.learning.callbacks import Callback

OURS = ("saft", "saft_balanced", "saft_fast", "saft_lga", "saft_gau")


@dataclass(frozen=True)
class Run:
    """One method on one split. Scores are of the test rows, between 0 and 1, and nan if it failed."""

    method: str
    title: str
    seed: int
    macro_f1: float
    micro_f1: float
    valid_macro_f1: float
    seconds: float  # of fitting and predicting
    parameters: int  # trained ones
    encoder: str
    failed: str = ""  # error message


def compare(
    network: TextualInteractionNetwork,
    methods: Sequence[str],
    seeds: Sequence[int] = (0, 1, 2),
    settings: Mapping[str, Any] | None = None,
    own: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    how: str = "random",
    inductive: bool = False,
    callbacks: Callable[[str, int], Iterable[Callback]] = lambda method, seed: (),
) -> Iterator[Run]:
    """Run every method on every seed's 70/10/20 split, and yield each run when it is done.

    Args:
        settings: for all methods, see ``saft train --help``. Settings that define a method take precedence.
        own: method → settings and options for it alone.
        inductive: test interactions are not in the network of training, neither their texts nor the fact that they
            took place; they join it when they are to be predicted.
        callbacks: (method, seed) → callbacks of its training.

    A method that cannot run (its weights are missing, say) yields a failed run, and the others go on.
    """
    shared, own = dict(settings or {}), own or {}
    stray = [name for name in own if name not in methods]
    if stray:
        raise InputError(f"Settings for {', '.join(stray)}, which {'is' if len(stray) == 1 else 'are'} not compared.")
    cards = {name: find(name) for name in methods}
    for name, card in cards.items():  # wrong settings fail here, before hours of work
        card.make(shared, own.get(name))
    failures: dict[str, Run] = {}
    for seed in seeds:
        parts = split(network, how, seed=seed)
        for name in cards:
            if name in failures:  # what is missing at one seed is missing at all of them
                yield replace(failures[name], seed=seed)
                continue
            done = run(network, parts, name, shared | {"seed": seed}, own.get(name), inductive, callbacks(name, seed))
            if done.failed:
                failures[name] = done
            yield done


def run(
    network: TextualInteractionNetwork,
    parts: Split,
    name: str,
    shared: Mapping[str, Any],
    own: Mapping[str, Any] | None = None,
    inductive: bool = False,
    callbacks: Iterable[Callback] = (),
) -> Run:
    """One method on one split."""
    card = find(name)
    settings = card.settings_with(shared, own or {})
    began, scores, parameters, failed = time.perf_counter(), (np.nan, np.nan, np.nan), 0, ""
    try:
        method = card.make(shared, own, callbacks)
        seen, whole, train, valid, test = _views(network, parts, inductive)
        method.fit(seen, train, valid)
        rows = np.concatenate([valid, test])
        predicted = method.predict_proba(whole, rows).argmax(axis=1)
        truth, count = network.labels[np.concatenate([parts.valid, parts.test])], len(valid)
        scores = (
            macro_f1(truth[count:], predicted[count:], network.n_classes),
            micro_f1(truth[count:], predicted[count:], network.n_classes),
            macro_f1(truth[:count], predicted[:count], network.n_classes),
        )
        parameters = method.n_parameters_
    except InputError as error:
        failed = str(error)
    weights = _weights(settings.encoder, settings.layers) if card.reads_with_encoder else ""
    return Run(name, card.title, settings.seed, *scores, time.perf_counter() - began, parameters, weights, failed)


def _views(
    network: TextualInteractionNetwork, parts: Split, inductive: bool
) -> tuple[TextualInteractionNetwork, TextualInteractionNetwork, np.ndarray, np.ndarray, np.ndarray]:
    """(network to fit on, network to predict in, and in both the rows for training, early stopping and prediction)."""
    hidden = network.hiding(parts.test)
    if not inductive:
        return hidden, hidden, parts.train, parts.valid, parts.test
    known = np.setdiff1d(np.arange(len(network)), parts.test)
    train, valid = np.searchsorted(known, parts.train), np.searchsorted(known, parts.valid)
    whole = hidden.take(np.concatenate([known, parts.test]))
    return hidden.take(known), whole, train, valid, np.arange(len(known), len(whole))


def _weights(encoder: str, layers: int) -> str:
    """Name of the weights a row ran on, without their local path."""
    name = Path(encoder).name if Path(encoder).expanduser().exists() else encoder
    return f"{name}, {layers} layers" if layers else name


def majority(network: TextualInteractionNetwork, seeds: Sequence[int], how: str = "random") -> tuple[float, float]:
    """(Macro-F1, Micro-F1) of always predicting the class that is most frequent in training, mean over splits."""
    scores = []
    for seed in seeds:
        parts = split(network, how, seed=seed)
        most = int(np.bincount(network.labels[parts.train]).argmax())
        truth, guess = network.labels[parts.test], np.full(len(parts.test), most)
        scores.append([f1(truth, guess, network.n_classes) for f1 in (macro_f1, micro_f1)])
    macro, micro = np.mean(scores, axis=0)
    return float(macro), float(micro)


def as_table(runs: Sequence[Run]) -> pl.DataFrame:
    """One row per run."""
    return pl.DataFrame([asdict(run) for run in runs], schema_overrides={"failed": pl.String})


def leaderboard(runs: Sequence[Run]) -> pl.DataFrame:
    """One row per method, best Macro-F1 first; means and (sample) standard deviations over seeds that did not fail."""
    table = as_table(runs)
    for score in ("macro_f1", "micro_f1", "valid_macro_f1"):
        table = table.with_columns(pl.col(score).fill_nan(None))
    return (
        table.group_by("method", "title", "encoder", maintain_order=True)
        .agg(
            pl.col("macro_f1").is_not_null().sum().alias("runs"),
            pl.col("macro_f1").mean(),
            pl.col("macro_f1").std().alias("macro_f1_std"),
            pl.col("micro_f1").mean(),
            pl.col("micro_f1").std().alias("micro_f1_std"),
            pl.col("valid_macro_f1").mean(),
            pl.col("seconds").filter(pl.col("failed") == "").mean(),
            pl.col("parameters").max(),
            pl.col("failed").filter(pl.col("failed") != "").first(),
        )
        .sort("macro_f1", descending=True, nulls_last=True, maintain_order=True)
    )


def draw_leaderboard(board: pl.DataFrame, baseline: tuple[float, float], path: Path) -> None:
    """A dot per method with the spread over seeds, SAFT in another colour; the majority class is a line."""
    from matplotlib.figure import Figure

    refuse_other_pictures(path)
    shown = board.filter(pl.col("macro_f1").is_not_null())
    figure = Figure(figsize=(9, 1.5 + 0.32 * max(len(shown), 3)), layout="constrained")
    columns = figure.subplots(1, 2, sharey=True)
    for axes, score, title, floor in zip(
        columns, ("macro_f1", "micro_f1"), ("Macro-F1", "Micro-F1"), baseline, strict=True
    ):
        _draw_scores(axes, shown, score, 100 * floor)
        axes.set(title=title, xlabel="per cent, mean and standard deviation over seeds")
    columns[0].set_yticks(np.arange(len(shown)), shown["title"])
    columns[0].set_ylim(len(shown) - 0.5, -0.5)
    handles, labels = columns[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)


def _draw_scores(axes: Any, shown: pl.DataFrame, score: str, floor: float) -> None:
    values = 100 * shown[score].to_numpy()
    spread = 100 * shown[f"{score}_std"].fill_null(0).to_numpy()
    ours = shown["method"].is_in(OURS).to_numpy()
    for chosen, colour, label in ((ours, ORANGE, "SAFT"), (~ours, BLUE, "others")):
        if chosen.any():
            axes.errorbar(
                values[chosen], np.flatnonzero(chosen), xerr=spread[chosen],
                fmt="o", color=colour, capsize=3, markersize=6, label=label,
            )  # fmt: skip
    for place, (value, wide) in enumerate(zip(values, spread, strict=True)):
        axes.annotate(
            f"{value:.1f}", (value + wide, place), xytext=(7, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.axvline(floor, color=GREY, linestyle="--", linewidth=1, label="majority class")
    axes.margins(x=0.14)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
