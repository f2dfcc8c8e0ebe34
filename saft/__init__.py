"""saft classifies textual interactions: by their words, and by the graph around them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saft.classifier.estimator import SaftClassifier, load
    from saft.comparison import compare
    from saft.data.demo import demo_network
    from saft.data.network import TextualInteractionNetwork
    from saft.data.reading import read
    from saft.data.splits import Split, split
    from saft.errors import InputError, InputWarning
    from saft.online.explanation import explain

__version__ = "0.1.0"
__all__ = [
    "InputError",
    "InputWarning",
    "SaftClassifier",
    "Split",
    "TextualInteractionNetwork",
    "compare",
    "demo_network",
    "explain",
    "load",
    "read",
    "split",
]

# Loaded at first use, so that `saft --help` does not wait for polars and torch.
_HOME = {
    "InputError": "saft.errors",
    "InputWarning": "saft.errors",
    "SaftClassifier": "saft.classifier.estimator",
    "Split": "saft.data.splits",
    "TextualInteractionNetwork": "saft.data.network",
    "compare": "saft.comparison",
    "demo_network": "saft.data.demo",
    "explain": "saft.online.explanation",
    "load": "saft.classifier.estimator",
    "read": "saft.data.reading",
    "split": "saft.data.splits",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'saft' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
