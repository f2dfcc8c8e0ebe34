"""Interactions per second over a whole network: SAFT against the rivals' way and against the text alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import saft
from benchmarks.competitors import (
    PlainText,
    counted_texts,
    courses,
    described,
    encoder_called,
    network_called,
    predict_rivals_way,
    predict_saft,
    saft_settings,
)
from benchmarks.measuring import Figure, compare, peak_mb
from benchmarks.rivals_way import settings_of
from saft import SaftClassifier

# encoder → (interactions of the embedded network, seed rows of the slow competitors)
SIZES = {"tiny": (10_000, 1_000), "minilm3": (2_000, 200), "minilm6": (1_000, 100)}


def figures() -> Iterator[Figure]:
    yield _read_per_interaction()
    for course in courses(SIZES):
        yield from _ratios(*course)


def _ratios(encoder: str, network: str, seed_rows: int, repeats: int) -> Iterator[Figure]:
    costs = compare(
        "benchmarks.inference", ["saft", "rivals", "plain"], [encoder, network, "5", str(seed_rows)], repeats
    )
    where = f"inference, {encoder}, {described(network)}, b=5"
    own = costs["saft"].seconds
    yield Figure(f"{where}: speed against the rivals' way", costs["rivals"].seconds / own, "×", ">= 8")
    yield Figure(f"{where}: speed against the text alone", costs["plain"].seconds / own, "×", ">= 0.6")
    yield Figure(f"{where}: peak memory", costs["saft"].peak_mb / 1024, "GB")


def _read_per_interaction() -> Figure:
    network = saft.demo_network(2_000)
    with encoder_called("tiny") as (encoder, layers):
        classifier = SaftClassifier(**saft_settings(encoder, layers, 5, epochs=0).as_dict()).fit(network)
        with counted_texts() as counts:
            classifier.predict_proba(network)
    return Figure("inference, b=5: texts encoded per interaction", sum(counts) / len(network), "texts", "<= 1")


def _measure(competitor: str, encoder_name: str, network_name: str, neighbours: int, seed_rows: int) -> float:
    network = network_called(network_name)
    with encoder_called(encoder_name) as (encoder, layers):
        if competitor == "plain":
            return PlainText(encoder, layers, network, 10 * seed_rows).predict()
        if competitor == "rivals":
            return predict_rivals_way(settings_of(encoder, layers, neighbours), network, seed_rows)
        return predict_saft(saft_settings(encoder, layers, neighbours), network)


if __name__ == "__main__":
    name, encoder_name, network_name, *numbers = sys.argv[1:]
    seconds = _measure(name, encoder_name, network_name, *map(int, numbers))
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}))
