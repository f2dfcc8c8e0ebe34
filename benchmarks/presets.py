"""What the presets cost: a million rows without an encoder, an answer of such a model, each against the old default.

And the one pass over the texts that ``balanced`` and ``best`` rest on: torch against ONNX Runtime, in single precision
and in int8. Texts are those of the marketplace, put together until they have 50 words.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import torch

import saft
from benchmarks.measuring import Figure, compare, report_cost
from saft.data.network import TextualInteractionNetwork
from saft.settings import PRESETS

MANY, FEW, WORDS = 1_000_000, 400, 50
AT_ONCE, ROUNDS, ASKED = 64, 7, 300
# What training did by default before frozen layers, evidence and presets.
BEFORE: dict[str, Any] = {
    "encoder": "minilm", "trained_layers": 6, "max_length": 128, "epochs": 5, "patience": 5,
    "sentences": False, "alike_texts": False, "neighbour_words": False,
}  # fmt: skip
COMPETITORS: dict[str, dict[str, Any]] = {"before": BEFORE, **PRESETS}


def figures() -> Iterator[Figure]:
    yield from _passes()
    yield from _against_before()
    yield Figure(f"fast, {MANY:,} interactions: training", _seconds_of_many(), "s", "<= 120")
    yield Figure("fast, 10,000 interactions: one answer, median", _answer() * 1000, "ms", "<= 2")


def _passes() -> Iterator[Figure]:
    """Speed of the pass over the texts in ONNX Runtime, as multiples of torch's."""
    from onnxruntime.quantization import quantize_dynamic

    from saft.features.tokens import load_tokenizer, tokenise
    from saft.learning.frozen_layers import Read
    from saft.model.encoder import TextEncoder
    from saft.server.onnx_session import OnnxLayers, export_frozen

    encoder = TextEncoder.load("bge-small", trained=2).train(False)
    tokens = tokenise(long_texts(FEW).texts[:AT_ONCE], load_tokenizer("bge-small"), 128)
    given = tuple(map(torch.from_numpy, tokens.padded(np.arange(AT_ONCE))))
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        single, int8 = Path(folder) / "single.onnx", Path(folder) / "int8.onnx"
        export_frozen(encoder, single)
        quantize_dynamic(single, int8)
        ways: dict[str, Read] = {"torch": encoder.read}
        ways |= {"single precision": OnnxLayers(single), "int8": OnnxLayers(int8)}
        exact = encoder.read(*given)[1][:, -1]
        taken = interleaved({name: partial(way, *given) for name, way in ways.items()})
        for name in ("single precision", "int8"):
            where = f"frozen layers of bge-small, {AT_ONCE} texts of {WORDS} words, ONNX Runtime in {name}"
            yield Figure(f"{where}: speed against torch", taken["torch"] / taken[name], "×")
            alike = torch.cosine_similarity(exact, ways[name](*given)[1][:, -1])
            yield Figure(f"{where}: least cosine with torch's vectors", float(alike.min()), "")


def interleaved(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds of each; they take turns, so that a slow second of the machine hits all."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            taken[name].append(time.perf_counter() - began)
    return {name: median(seconds) for name, seconds in taken.items()}


def _against_before() -> Iterator[Figure]:
    """Whole trainings with a cold cache; epochs and readings cost by the row, so a few hundred rows tell the ratio."""
    costs = compare("benchmarks.presets", list(COMPETITORS), [], repeats=3)
    for name, target in (("best", ">= 1"), ("balanced", ""), ("fast", ">= 10")):
        ratio = costs["before"].seconds / costs[name].seconds
        yield Figure(f"{name}, {FEW:,} rows of {WORDS} words: speed against the default before", ratio, "×", target)


def _seconds_of_many() -> float:
    network = saft.demo_network(MANY)
    began = time.perf_counter()
    saft.SaftClassifier(preset="fast").fit(network)
    return time.perf_counter() - began


def _answer() -> float:
    """Median seconds of one prediction by a live network."""
    from saft.online.live import Interaction, LiveNetwork

    network = saft.demo_network(10_000)
    live = LiveNetwork(saft.SaftClassifier(preset="fast").fit(network))
    asked = [live.interaction(number) for number in range(ASKED)]
    taken = []
    for one in asked:
        began = time.perf_counter()
        live.predict([Interaction(one.user, one.item, one.text)])
        taken.append(time.perf_counter() - began)
    return median(taken)


def long_texts(n_rows: int) -> TextualInteractionNetwork:
    """The marketplace with texts of WORDS words, each of its own and others' words."""
    frame = saft.demo_network(n_rows).to_frame()
    words = [text.split() for text in frame["text"].to_list()]
    longer = []
    for row in range(n_rows):
        text, next_row = list(words[row]), row
        while len(text) < WORDS:
            next_row += 1
            text += words[next_row % n_rows]
        longer.append(" ".join(text[:WORDS]))
    return saft.read(frame.with_columns(text=pl.Series(longer)))


def main(competitor: str) -> None:
    """In the child: one training, whose texts nobody has read before."""
    from saft.features.backbones import packaged_folder

    network = long_texts(FEW)
    packaged_folder("bge-small")  # unpacked once per machine, not per training
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SAFT_CACHE"] = folder
        report_cost(lambda: saft.SaftClassifier(**COMPETITORS[competitor]).fit(network))


if __name__ == "__main__":
    main(sys.argv[1])
