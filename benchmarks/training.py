"""Seed rows per second in training: SAFT against the rivals' way and against the text alone.

Competitors and networks: :mod:`benchmarks.competitors`. The cost of a seed row includes all that training does for it:
encoding neighbours, validation, and encoding rows outside of training after every epoch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import saft
from benchmarks.competitors import (
    PlainText,
    counted_texts,
    courses,
    described,
    encoder_called,
    labelled_rows,
    network_called,
    saft_settings,
    seconds_of_steps,
    train_rivals_way,
    train_saft,
)
from benchmarks.measuring import Cost, Figure, compare, peak_mb
from benchmarks.rivals_way import settings_of
from saft import SaftClassifier
from saft.classifier.assembly import Assembly
from saft.learning.callbacks import Callback, EpochRecord, TrainerState
from saft.learning.trainer import Trainer

# encoder → (interactions of the embedded network, seed rows of the slow competitors)
SIZES = {"tiny": (10_000, 500), "minilm3": (1_000, 100), "minilm6": (600, 50)}

FEW = 0.05  # share of the labels in the runs with few labels


def figures() -> Iterator[Figure]:
    yield from _texts_per_seed_row()
    yield _share_of_structure()
    yield _frozen()
    yield _few_labels()
    for course in courses(SIZES):
        yield from _ratios(*course)


def _ratios(encoder: str, network: str, seed_rows: int, repeats: int) -> Iterator[Figure]:
    def costs(neighbours: int, *competitors: str) -> dict[str, Cost]:
        return compare("benchmarks.training", competitors, [encoder, network, str(neighbours), str(seed_rows)], repeats)

    where = f"training, {encoder}, {described(network)}"
    five = costs(5, "saft", "rivals", "plain", "content")
    yield Figure(f"{where}, b=5: speed against the rivals' way", _ratio(five, "rivals"), "×", ">= 6")
    yield Figure(f"{where}, b=5: speed against the text alone", _ratio(five, "plain"), "×", ">= 0.5")
    by_default = five["plain"].seconds / five["content"].seconds
    yield Figure(f"{where}, messages of content, the default: speed against the text alone", by_default, "×", ">= 0.77")
    yield Figure(f"{where}, b=5: peak memory", five["saft"].peak_mb / 1024, "GB")
    yield Figure(f"{where}, b=5: peak memory of the rivals' way", five["rivals"].peak_mb / 1024, "GB")
    if repeats > 1:  # on large networks once is enough
        one = costs(1, "saft", "rivals")
        yield Figure(f"{where}, b=1: speed against the rivals' way", _ratio(one, "rivals"), "×", ">= 2.5")


def _ratio(costs: dict[str, Cost], other: str) -> float:
    return costs[other].seconds / costs["saft"].seconds


def _texts_per_seed_row() -> Iterator[Figure]:
    """Texts encoded for each seed row: until the last epoch ends, as in the figures of speed, and in all.

    Fewer epochs, more texts: neighbours are encoded for the first time in the first epoch, and all rows once more with
    the best weights after the last. Fewer labels, more texts: most neighbours are then no seed rows.
    """
    for epochs, share in ((5, 1.0), (3, 1.0), (5, FEW)):
        promise = "<= 2" if share == 1 else ""
        name = f"training, b=5, {epochs} epochs" + (f", {share:.0%} of the labels" if share < 1 else "")
        in_epochs, in_all = _texts(epochs, share)
        yield Figure(f"{name}: texts encoded per seed row", in_epochs, "texts", promise)
        yield Figure(f"{name}: texts encoded per seed row, with the last encoding", in_all, "texts", promise)


def _texts(epochs: int, share: float) -> tuple[float, float]:
    network = saft.demo_network(2_000)
    train, valid = labelled_rows(network, share)
    with encoder_called("tiny") as (encoder, layers), counted_texts() as counts:
        callback = _CountingEpochs(counts)
        settings = saft_settings(encoder, layers, 5, epochs=epochs)
        SaftClassifier(**settings.as_dict()).fit(network, train=train, valid=valid, callbacks=[callback])
    seed_rows = callback.epochs * len(train)
    return callback.texts / seed_rows, sum(counts) / seed_rows


class _CountingEpochs(Callback):
    """How many ``epochs`` there were, and how many ``texts`` were encoded by the end of the last."""

    def __init__(self, counts: list[int]) -> None:
        self.counts, self.epochs, self.texts = counts, 0, 0

    def on_epoch_end(self, state: TrainerState, record: EpochRecord) -> None:
        self.epochs, self.texts = record.epoch, sum(self.counts)


def _share_of_structure() -> Figure:
    """Share of a step's time that is saved without structure embeddings, neighbours and messages.

    Two trainings take turns step by step, on the same seed rows, so that a slow second of the machine hits both. Summed
    over the second epoch, when all neighbours are cached: the first step of a pass draws the neighbours for all steps.
    """
    network = saft.demo_network(1_200)
    train, valid = labelled_rows(network)
    alone = {"user_messages": False, "item_messages": False, "distance": "none", "centrality": "none"}
    trainers = []
    with encoder_called("minilm6") as (encoder, layers):
        for changes in ({}, alone):
            settings = saft_settings(encoder, layers, 5, epochs=2, **changes)
            assembly = Assembly.fresh(settings, network.showing(train))
            trainer = Trainer(assembly.model, assembly.loader(), train, valid, network.labels[valid], settings)
            trainer.run_epoch()
            trainers.append(trainer)
    turns = list(zip(*map(seconds_of_steps, trainers), strict=True))
    whole, text_alone = np.sum(turns, axis=0)
    share = 100 * (1 - text_alone / whole)
    return Figure("training, minilm6, b=5: share of structure, sampling and messages", share, "%", "<= 10")


def _frozen() -> Figure:
    """How much faster training is if the lower half of the encoder stays as it is."""
    costs = compare("benchmarks.training", ["saft", "half_frozen"], ["minilm6", "600", "5", "0"], repeats=3)
    name = "training, minilm6, b=5: speed with 3 layers frozen against all trained"
    return Figure(name, costs["saft"].seconds / costs["half_frozen"].seconds, "×")


def _few_labels() -> Figure:
    """How much faster training is if no more other rows are encoded again after an epoch than it had seed rows."""
    costs = compare("benchmarks.training", ["few_labels", "few_labels_all"], ["tiny", "10000", "5", "0"], repeats=3)
    name = f"training, tiny, 10,000 interactions, b=5, {FEW:.0%} of the labels: speed against reading all others again"
    return Figure(name, costs["few_labels_all"].seconds / costs["few_labels"].seconds, "×")


def _measure(competitor: str, encoder_name: str, network_name: str, neighbours: int, seed_rows: int) -> float:
    network = network_called(network_name)
    with encoder_called(encoder_name) as (encoder, layers):
        if competitor == "plain":
            return PlainText(encoder, layers, network, 4 * seed_rows).train()
        if competitor == "rivals":
            return train_rivals_way(settings_of(encoder, layers, neighbours), network, seed_rows)
        changes: dict[str, Any] = {"trained_layers": layers - layers // 2} if competitor == "half_frozen" else {}
        if competitor == "content":
            changes["messages"] = "content"
        settings = saft_settings(encoder, layers, neighbours, epochs=2, **changes)
        if competitor.startswith("few_labels"):
            return train_saft(settings.changed(epochs=5), network, FEW, refresh_all=competitor.endswith("_all"))
        return train_saft(settings, network)


if __name__ == "__main__":
    name, encoder_name, network_name, *numbers = sys.argv[1:]
    seconds = _measure(name, encoder_name, network_name, *map(int, numbers))
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb()}))
