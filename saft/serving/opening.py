"""From a model folder to a desk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from saft.classifier import load
from saft.errors import InputError
from saft.serving.desk import Desk
from saft.storage import FACTS, is_model


def opened(model: Path, database: Path | None = None, suspicious: str | None = None) -> Callable[[], Desk]:
    """Loads the model when called; what can be checked at once is checked now.

    The database is a file of its own beside the folder, because training again replaces the folder.
    """
    if not is_model(model):
        raise InputError(f"There is no model in {model}: train one with saft train … --out {model}")
    file = database or model.resolve().with_name(f"{model.resolve().name}.interactions.sqlite")
    if not file.parent.is_dir():
        raise InputError(f"There is no folder {file.parent} to keep interactions in.")

    def make() -> Desk:
        fingerprint = hashlib.sha256((model / FACTS).read_bytes()).hexdigest()
        return Desk(load(model), file, fingerprint, suspicious)

    return make
