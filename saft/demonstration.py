"""What ``saft demo`` trains: the same small encoder on text alone, on structure alone, and SAFT in both its forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from saft.classifier import SaftClassifier
from saft.metrics import Scores
from saft.network import TextualInteractionNetwork
from saft.settings import STRUCTURE_ONLY, TEXT_ONLY
from saft.splits import split

if TYPE_CHECKING:
    from saft.training import Watcher

# Small enough for two cores: two of the encoder's six layers, the texts are short anyway.
SMALL = {"layers": 2, "max_length": 32, "epochs": 4, "learning_rate": 3e-4}
CONTESTANTS: dict[str, dict[str, Any]] = {
    "text only": TEXT_ONLY,
    "structure only": STRUCTURE_ONLY,
    "SAFT (LGA)": {"messages": "lga"},
    "SAFT (GAU)": {"messages": "gau"},
}


@dataclass(frozen=True)
class Result:
    name: str
    scores: Scores  # on the test part
    classifier: SaftClassifier
    test: TextualInteractionNetwork


def contest(network: TextualInteractionNetwork, name: str, seed: int, watcher: Watcher | None = None) -> Result:
    """Train one of them on the 70/10/20 split that all share; the test labels are hidden until it has predicted."""
    parts = split(network, seed=seed)
    test = network.take(parts.test)
    classifier = SaftClassifier(**SMALL, **CONTESTANTS[name], seed=seed)
    classifier.fit(network.hiding(parts.test), parts.train, parts.valid, watcher=watcher)
    return Result(name, classifier.evaluate(test), classifier, test)
