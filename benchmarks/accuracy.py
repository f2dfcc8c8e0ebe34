"""What speed costs in accuracy: cached neighbours, few rows encoded again, frozen layers; and the rivals' way.

The embedded network with 2,000 interactions, ``minilm`` cut to 2 layers (whole where layers are frozen), 2 epochs (5
where labels are few), 5 neighbours; Macro-F1 of the test part, scored once; the same splits for all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import saft
from benchmarks import rivals_way
from benchmarks.competitors import labelled_rows, saft_settings
from benchmarks.measuring import Figure
from saft import SaftClassifier
from saft.classifier.fitting import fit
from saft.data.network import TextualInteractionNetwork
from saft.learning.interface import Loader
from saft.learning.prediction import predict_logits
from saft.learning.trainer import Trainer
from saft.metrics import macro_f1
from saft.model.base import InteractionModel

SEEDS = (0, 1, 2)
TRAINED: dict[str, Any] = {"epochs": 2, "learning_rate": 3e-4}


def figures() -> Iterator[Figure]:
    for way, other, layers, what, target in (
        ("saft", "reread", 2, "Macro-F1 with cached neighbours minus with neighbours encoded again", ">= -1"),
        ("saft", "rivals", 2, "Macro-F1 of SAFT minus that of the rivals' way", ">= 0"),
        ("few_labels", "few_labels_all", 2, "10 % of the labels: Macro-F1 minus with all others read again", ">= -1"),
        ("half_frozen", "saft", 6, "Macro-F1 with 3 of 6 layers frozen minus with all trained", ""),
    ):
        yield Figure(what, _mean(way, layers) - _mean(other, layers), "points", target)


@cache
def _mean(way: str, layers: int) -> float:
    """Mean of :func:`measure` over the seeds, each in a process of its own."""
    found = []
    for seed in SEEDS:
        command = [sys.executable, "-m", "benchmarks.accuracy", way, str(seed), str(layers)]
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(float(json.loads(finished.stdout.splitlines()[-1])))
    return float(np.mean(found))


def measure(way: str, seed: int, layers: int, interactions: int = 2_000, encoder: str = "minilm") -> float:
    """Macro-F1 on the test part, in per cent."""
    network = saft.demo_network(interactions)
    parts = saft.split(network, seed=seed)
    train, valid = labelled_rows(network, 0.1 if way.startswith("few_labels") else 1, seed)
    hidden = network.hiding(parts.test)
    if way == "rivals":
        settings = rivals_way.settings_of(encoder, layers, 5, seed=seed, **TRAINED)
        assembly, loader = rivals_way.assemble(settings, hidden.showing(train))
        Trainer(assembly.model, loader, train, valid, network.labels[valid], settings).run()
        return _macro_f1(assembly.model, loader, network, parts.test)
    longer = {"epochs": 5}  # few steps per epoch
    changes: dict[str, dict[str, Any]] = {
        "few_labels": longer,
        "few_labels_all": longer,
        "reread": {"cache_neighbours": False},
        "half_frozen": {"trained_layers": layers - layers // 2},
    }
    settings = saft_settings(encoder, layers, 5, seed=seed, **TRAINED | changes.get(way, {}))
    if way == "few_labels_all":
        fitted = fit(settings, hidden, train, valid, refresh_at_most=len(network))
        return _macro_f1(fitted.assembly.model, fitted.assembly.loader(), network, parts.test)
    classifier = SaftClassifier(**settings.as_dict()).fit(hidden, train=train, valid=valid)
    return 100 * classifier.score(network.take(parts.test))


def _macro_f1(model: InteractionModel, loader: Loader, network: TextualInteractionNetwork, rows: np.ndarray) -> float:
    predicted = predict_logits(model, loader, rows).argmax(axis=1)
    return 100 * macro_f1(network.labels[rows], predicted, network.n_classes)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
