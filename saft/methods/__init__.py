"""SAFT and its rivals under one protocol: one file per method, named like it; what several share starts with ``_``.

A file holds the method and its card, ``METHOD``. Commands, tables and the tests that every method has to pass find it
by its file name.
"""

from __future__ import annotations

import importlib
import pkgutil

from saft.errors import InputError, did_you_mean
from saft.methods._card import InteractionClassifier, Method

__all__ = ["InteractionClassifier", "Method", "find", "names"]


def names() -> list[str]:
    """All methods, without importing any."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def find(name: str) -> Method:
    """The card of this method."""
    if name not in names():
        raise InputError(f"There is no method {name!r}.{did_you_mean(name, names())} Known are {', '.join(names())}.")
    card = getattr(importlib.import_module(f"{__name__}.{name}"), "METHOD", None)
    if not isinstance(card, Method):
        raise TypeError(f"saft/methods/{name}.py holds no card: METHOD = Method(…)")
    return card
