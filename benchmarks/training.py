"""Targets per second in training: SAFT against the rivals' way and against reading the text alone.

Who competes, and on what: :mod:`benchmarks.competitors`. A target's cost includes everything that training does for it:
texts of neighbours that are read, validation, and the rows outside of training that are read after every epoch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import saft
from benchmarks.competitors import (
    EpochTimes,
    PlainText,
    counted_texts,
    courses,
    described,
    encoder_called,
    network_called,
    saft_settings,
    step_saft,
    train_rivals_way,
    train_saft,
)
from benchmarks.measuring import Cost, Figure, compare, peak_mb
from benchmarks.rivals_way import settings_of
from saft import SaftClassifier

# encoder → (interactions of the embedded network, targets of the slow competitors)
SIZES = {"tiny": (10_000, 500), "minilm3": (1_000, 100), "minilm6": (600, 50)}


def figures() -> Iterator[Figure]:
    for epochs in (3, 5):
        yield _read_per_target(epochs)
    yield _share_of_structure()
    yield _frozen()
    for course in courses(SIZES):
        yield from _ratios(*course)


def _ratios(encoder: str, network: str, targets: int, repeats: int) -> Iterator[Figure]:
    def costs(neighbours: int, *competitors: str) -> dict[str, Cost]:
        return compare("benchmarks.training", competitors, [encoder, network, str(neighbours), str(targets)], repeats)

    where = f"training, {encoder}, {described(network)}"
    five = costs(5, "saft", "rivals", "plain")
    yield Figure(f"{where}, b=5: speed against the rivals' way", _ratio(five, "rivals"), "×", ">= 6")
    yield Figure(f"{where}, b=5: speed against the text alone", _ratio(five, "plain"), "×", ">= 0.5")
    yield Figure(f"{where}, b=5: peak memory", five["saft"].peak_mb / 1024, "GB")
    yield Figure(f"{where}, b=5: peak memory of the rivals' way", five["rivals"].peak_mb / 1024, "GB")
    if repeats > 1:  # on large networks once is enough
        one = costs(1, "saft", "rivals")
        yield Figure(f"{where}, b=1: speed against the rivals' way", _ratio(one, "rivals"), "×", ">= 2.5")


def _ratio(costs: dict[str, Cost], other: str) -> float:
    return costs[other].seconds / costs["saft"].seconds


def _read_per_target(epochs: int) -> Figure:
    """Texts encoded in a training, from the first step to the finished model, for each target.

    Fewer epochs, more texts: the first one reads neighbours for the first time, and in the end all are read once more.
    """
    network, times = saft.demo_network(2_000), EpochTimes()
    parts = saft.split(network)
    with encoder_called("tiny") as (encoder, layers), counted_texts() as counts:
        settings = saft_settings(encoder, layers, 5, epochs=epochs)
        SaftClassifier(**settings.as_dict()).fit(network, parts.train, parts.valid, watcher=times)
    targets = len(times.seconds) * len(parts.train)
    name = f"training, b=5, {epochs} epochs: texts encoded per target"
    return Figure(name, sum(counts) / targets, "texts", "<= 2")


def _share_of_structure() -> Figure:
    """What is gone from a step if there are no structure embeddings, no neighbours and no messages."""
    costs = compare("benchmarks.training", ["steps", "steps_alone"], ["minilm6", "600", "5", "0"], repeats=5)
    share = 100 * (1 - costs["steps_alone"].seconds / costs["steps"].seconds)
    return Figure("training, minilm6, b=5: share of structure, sampling and messages", share, "%", "<= 10")


def _frozen() -> Figure:
    """How much faster training is if the lower half of the encoder stays as it is."""
    costs = compare("benchmarks.training", ["saft", "half_frozen"], ["minilm6", "600", "5", "0"], repeats=3)
    name = "training, minilm6, b=5: speed with 3 layers frozen against all trained"
    return Figure(name, costs["saft"].seconds / costs["half_frozen"].seconds, "×")


def _measure(competitor: str, encoder_name: str, network_name: str, neighbours: int, targets: int) -> float:
    network = network_called(network_name)
    with encoder_called(encoder_name) as (encoder, layers):
        if competitor == "plain":
            return PlainText(encoder, layers, network, 4 * targets).train()
        if competitor == "rivals":
            return train_rivals_way(settings_of(encoder, layers, neighbours), network, targets)
        changes: dict[str, dict[str, Any]] = {
            "steps_alone": {"user_messages": False, "item_messages": False, "distance": "none", "centrality": "none"},
            "half_frozen": {"frozen_layers": layers // 2},
        }
        settings = saft_settings(encoder, layers, neighbours, epochs=2, **changes.get(competitor, {}))
        return (step_saft if competitor.startswith("steps") else train_saft)(settings, network)


if __name__ == "__main__":
    name, encoder_name, network_name, *numbers = sys.argv[1:]
    seconds = _measure(name, encoder_name, network_name, *map(int, numbers))
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}))
