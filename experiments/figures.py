"""Figures of the report: scores as dots, sweeps as lines, times as bars. Readable in print and in grey."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saft.data.plot import BLUE, GREY, ORANGE
from saft.writing import replacing

if TYPE_CHECKING:
    from experiments.measured import Measured

STYLES = ("o-", "s--", "^:", "D-.")
MOST_IN_A_LINE = 5  # panels


def draw(one: Measured, path: Path) -> bool:
    """The figure of a table; False if there is nothing to draw yet."""
    from matplotlib.figure import Figure

    networks = one.networks
    if not networks:
        return False
    if one.table.kind == "scores":
        shown = [row for row in one.table.rows if any((network, row.name) in one.cells for network in networks)]
        lines = -(-len(networks) // MOST_IN_A_LINE)
        in_a_line = -(-len(networks) // lines)
        size = 3.2 * in_a_line + 2.2, lines * (1.3 + 0.3 * len(shown))
        figure = Figure(figsize=size, layout="constrained")
        panels = np.ravel(figure.subplots(lines, in_a_line, sharey=True))
        for axes, network in zip(panels, networks, strict=False):
            _dots(axes, one, network, shown)
        for axes in panels[len(networks) :]:
            axes.set_visible(False)
    elif one.table.kind == "sweep":
        figure = Figure(figsize=(8.5, 3.2), layout="constrained")
        for axes, score, name in zip(
            figure.subplots(1, 2), ("macro_f1", "micro_f1"), ("Macro-F1", "Micro-F1"), strict=True
        ):
            _lines(axes, one, score, name)
    else:
        figure = Figure(figsize=(7, 1 + 0.5 * len(one.table.rows)), layout="constrained")
        _bars(figure.subplots(), one)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)
    return True


def _dots(axes: Any, one: Measured, network: str, shown: list[Any]) -> None:
    """Macro-F1 of every row, SAFT in another colour and shape, the spread over splits as a bar."""
    for place, row in enumerate(shown):
        values = one.shared_values(network, row.name, "macro_f1")
        if values:
            ours = row.method.startswith("saft")
            axes.errorbar(
                np.mean(values), place, xerr=np.std(values, ddof=1) if len(values) > 1 else 0, capsize=2,
                fmt="D" if ours else "o", color=ORANGE if ours else BLUE, markersize=6 if ours else 5,
            )  # fmt: skip
    axes.set_yticks(np.arange(len(shown)), [row.title for row in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set(title=network.replace("_", " "), xlabel="Macro-F1, per cent")
    axes.grid(axis="both", color="#e5e5e5", linewidth=0.6)
    _quiet(axes)


def _lines(axes: Any, one: Measured, score: str, name: str) -> None:
    """Every value of a sweep (a row's title) against the mean of all: networks differ by far more than values do.

    Measured in colour, published in grey.
    """
    titles = {row.name: row.title for row in one.table.rows}
    places = {row: place for place, row in enumerate(titles)}
    for number, (network, rows) in enumerate(one.table.published.items()):
        values = np.array([pair[0 if score == "macro_f1" else 1] for pair in rows.values()])
        axes.plot(
            [places[row] for row in rows], values - values.mean(), STYLES[number % 4], color=GREY, markersize=3,
            linewidth=0.8, label=f"{network.replace('_', ' ')}, published",
        )  # fmt: skip
    for number, network in enumerate(one.networks):
        there, deviations = from_the_mean({row: one.values(network, row, score) for row in titles})
        if not deviations.size:
            continue
        spread = deviations.std(axis=1, ddof=1) if deviations.shape[1] > 1 else None
        axes.errorbar(
            [places[row] for row in there], deviations.mean(axis=1), yerr=spread, capsize=3,
            fmt=STYLES[number % 4], color=(ORANGE, BLUE)[number % 2], label=f"{network.replace('_', ' ')}, measured",
        )  # fmt: skip
    axes.set_xticks(range(len(titles)), list(titles.values()))
    axes.set(xlabel=one.table.title, ylabel=f"{name}, points from the mean")
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
    if score == "micro_f1":
        axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    _quiet(axes)


def from_the_mean(values: Mapping[str, Mapping[int, float]]) -> tuple[list[str], np.ndarray]:
    """The rows that were run, and row by seed how far each is from the mean of all rows on that split.

    Only splits on which all those rows were run: otherwise an easy split would show as an effect of the row.
    """
    there = [row for row, seeds in values.items() if seeds]
    seeds = sorted(set.intersection(*(set(values[row]) for row in there)))
    scores = np.array([[values[row][seed] for seed in seeds] for row in there])
    return there, scores - scores.mean(axis=0)


def _bars(axes: Any, one: Measured) -> None:
    rows, networks = list(one.table.rows), one.networks
    height = 0.8 / len(networks)
    for number, network in enumerate(networks):
        seconds = one.means(network, "seconds_per_epoch")
        there = np.array([place for place, row in enumerate(rows) if row.name in seconds])  # others get no bar
        bars = axes.barh(
            there + (number - (len(networks) - 1) / 2) * height, list(seconds.values()), height,
            color=(BLUE, ORANGE)[number % 2], label=network.replace("_", " "),
        )  # fmt: skip
        axes.bar_label(bars, fmt="%.0f", padding=3, fontsize=8)
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    axes.invert_yaxis()
    axes.set(xlabel="seconds per epoch")
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    _quiet(axes)


def _quiet(axes: Any) -> None:
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
