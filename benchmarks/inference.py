"""Interactions per second over a whole network: SAFT against the rivals' way and against reading the text alone."""

from __future__ import annotations

import json
import sys

import saft
from benchmarks.competitors import (
    REAL,
    PlainText,
    counted_texts,
    encoder_called,
    network_called,
    predict_rivals_way,
    predict_saft,
    saft_settings,
)  # fmt: skip
from benchmarks.measuring import Figure, compare, peak_mb
from benchmarks.rivals_way import settings_of
from saft import SaftClassifier

# encoder → (interactions of the embedded network, targets of the slow competitors, repeats)
SIZES = {"tiny": (10_000, 1_000, 3), "minilm3": (5_000, 200, 3), "minilm6": (5_000, 100, 3)}
REAL_NETWORK = "rotten_tomatoes"


def figures() -> list[Figure]:
    found: list[Figure] = []
    for encoder, (interactions, targets, repeats) in SIZES.items():
        found += _ratios(encoder, str(interactions), targets, repeats)
    found += _ratios("tiny", "100000", 1_000, 1)
    if (REAL / f"{REAL_NETWORK}.parquet").is_file():
        found += _ratios("tiny", REAL_NETWORK, 1_000, 1)
    return [*found, _read_per_interaction()]


def _ratios(encoder: str, network: str, targets: int, repeats: int) -> list[Figure]:
    costs = compare("benchmarks.inference", ["saft", "rivals", "plain"], [encoder, network, "5", str(targets)], repeats)
    where = f"inference, {encoder}, {network if not network.isdigit() else f'{int(network):,} interactions'}, b=5"
    own = costs["saft"].seconds
    return [
        Figure(f"{where}: speed against the rivals' way", costs["rivals"].seconds / own, "×", ">= 8"),
        Figure(f"{where}: speed against the text alone", costs["plain"].seconds / own, "×", ">= 0.6"),
        Figure(f"{where}: peak memory", costs["saft"].peak_mb / 1024, "GB"),
    ]


def _read_per_interaction() -> Figure:
    network = saft.demo_network(2_000)
    with encoder_called("tiny") as (encoder, layers):
        classifier = SaftClassifier(**saft_settings(encoder, layers, 5, epochs=0).as_dict()).fit(network)
        with counted_texts() as counts:
            classifier.predict_proba(network)
    return Figure("inference, b=5: texts encoded per interaction", sum(counts) / len(network), "texts", "<= 1")


def _measure(competitor: str, encoder_name: str, network_name: str, neighbours: int, targets: int) -> float:
    network = network_called(network_name)
    with encoder_called(encoder_name) as (encoder, layers):
        if competitor == "plain":
            return PlainText(encoder, layers, network).predict(10 * targets)
        if competitor == "rivals":
            return predict_rivals_way(settings_of(encoder, layers, neighbours), network, targets)
        return predict_saft(saft_settings(encoder, layers, neighbours), network)


if __name__ == "__main__":
    name, encoder_name, network_name, *numbers = sys.argv[1:]
    seconds = _measure(name, encoder_name, network_name, *map(int, numbers))
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}))
