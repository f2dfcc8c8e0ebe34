"""A picture of a network: how often each class occurs, how active users and items are, how long texts are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from saft.data.summary import word_counts
from saft.errors import InputError
from saft.writing import replacing

if TYPE_CHECKING:
    from saft.data.network import TextualInteractionNetwork

# Okabe and Ito's palette: distinguishable with colour blindness and in grey print.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#888888"
FORMATS = (".png", ".svg", ".pdf")


def draw(network: TextualInteractionNetwork, path: str | Path) -> None:
    from matplotlib.figure import Figure

    path = Path(path)
    refuse_other_pictures(path)
    figure = Figure(figsize=(10, 7), layout="constrained")
    classes, words, users, items = figure.subplots(2, 2).flat
    figure.suptitle(
        f"{len(network):,} interactions of {(network.user_degrees > 0).sum():,} users "
        f"with {(network.item_degrees > 0).sum():,} items"
    )
    _draw_classes(classes, network)
    _draw_words(words, network)
    _draw_degrees(users, network.user_degrees, "user", BLUE)
    _draw_degrees(items, network.item_degrees, "item", ORANGE)
    for axes in (classes, words, users, items):
        axes.spines[["top", "right"]].set_visible(False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150)


def refuse_other_pictures(path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"Cannot draw to {path.name!r}: the name has to end in {', '.join(FORMATS)}.")


def _draw_classes(axes: Any, network: TextualInteractionNetwork, most: int = 12) -> None:
    counts = np.bincount(network.labels[network.is_labelled], minlength=network.n_classes)
    names = [str(name) for name in network.classes]
    if len(names) > most:  # the largest, in their original order, and the rest in one bar
        kept = np.sort(np.argsort(-counts, kind="stable")[: most - 1])
        rest = counts.sum() - counts[kept].sum()
        names = [names[place] for place in kept] + [f"{len(counts) - len(kept)} others"]
        counts = np.append(counts[kept], rest)
    unlabelled = int((~network.is_labelled).sum())
    if unlabelled:
        names, counts = [*names, "unlabelled"], np.append(counts, unlabelled)
    shown = [name if len(name) <= 24 else name[:23] + "…" for name in names]
    bars = axes.barh(np.arange(len(shown)), counts, height=0.6, color=GREEN)
    if unlabelled:
        bars[-1].set_color(GREY)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=3)
    axes.set_yticks(np.arange(len(shown)), shown)
    axes.margins(x=0.15)
    axes.set_ylim(max(len(shown), 4) - 0.5, -0.5)  # with few classes, bars stay thin
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(title="Classes", xlabel="interactions")


def _draw_words(axes: Any, network: TextualInteractionNetwork) -> None:
    words = word_counts(network.texts)
    # The longest per cent would squeeze everything else into the first bar; they are counted in the last one.
    bound = max(int(np.quantile(words, 0.99)), 1) if len(words) else 1
    width = int(np.ceil((bound + 1) / 40))  # bars of whole words: fractions would leave gaps
    bins = np.arange(0, bound + width + 1, width) - 0.5
    axes.hist(np.minimum(words, bound), bins=bins, color=GREY, edgecolor="white", linewidth=0.5)
    if len(words):
        median = np.median(words)
        axes.axvline(median, color="black", linewidth=1, linestyle="--", label=f"median {median:g}")
        axes.legend(frameon=False)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set(title="Text length", xlabel=f"words ({bound:,} or more: in the last bar)", ylabel="interactions")


def _draw_degrees(axes: Any, degrees: np.ndarray, node: str, colour: str) -> None:
    degrees = degrees[degrees > 0]
    largest = int(degrees.max()) if len(degrees) else 1
    # Bins of equal width on the logarithmic axis, each holding at least one whole number.
    edges = np.unique(np.floor(np.geomspace(1, largest + 1, 24)).astype(int)) - 0.5
    axes.hist(
        degrees,
        bins=np.append(edges, largest + 0.5) if edges[-1] < largest else edges,
        color=colour,
        edgecolor="white",
        linewidth=0.5,
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.6)  # so that a bar of one can be seen
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set(title=f"Interactions per {node}", xlabel="interactions", ylabel=f"{node}s")
