"""Creates a ReviewService from a model folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import saft
from saft.classifier.estimator import load
from saft.classifier.folder import FACTS, is_model, recover
from saft.errors import InputError, install_command
from saft.server.onnx_session import is_installed, remove_outdated, use_onnx
from saft.server.service import ReviewService


def service_loader(
    model: Path, database: Path | None = None, suspicious: str | None = None, onnx: bool | None = None
) -> Callable[[], ReviewService]:
    """A function that loads the model and creates the service. The arguments are checked before it is returned.

    The database is a file of its own beside the folder, because training again replaces the folder.

    Args:
        onnx: predict with ONNX Runtime; None means if it is installed.
    """
    recover(model)
    if not is_model(model):
        raise InputError(f"There is no model in {model}: train one with saft train … --out {model}")
    file = database or model.resolve().with_name(f"{model.resolve().name}.interactions.sqlite")
    if onnx and not is_installed():
        raise InputError(f"Answering through ONNX Runtime needs more packages: {install_command('onnx')}")
    if not file.parent.is_dir():
        raise InputError(f"There is no folder {file.parent} to keep interactions in.")

    def make() -> ReviewService:
        fingerprint = hashlib.sha256((model / FACTS).read_bytes()).hexdigest()
        service = ReviewService(load(model), file, fingerprint, suspicious)
        if onnx is not False and is_installed():
            # What a model is given may change from version to version.
            name = hashlib.sha256(f"{fingerprint} {saft.__version__}".encode()).hexdigest()[:12]
            exported = file.with_suffix(f".{name}.onnx")
            remove_outdated(exported)
            use_onnx(service.live, exported)
        return service

    return make
