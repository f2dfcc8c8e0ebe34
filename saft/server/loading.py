"""Creates a ReviewService from a model folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import saft
from saft.classifier.estimator import load
from saft.classifier.folder import FACTS, is_model, recover
from saft.errors import InputError, install_command
from saft.online.live import LiveNetwork
from saft.server.database import Database
from saft.server.incoming import interactions_of
from saft.server.onnx_session import is_installed, remove_outdated, use_onnx
from saft.server.service import ReviewService


def service_loader(
    model: Path,
    database: Path | str | None = None,
    suspicious: str | None = None,
    onnx: bool | None = None,
    second_opinion: float | None = None,
    queue: Sequence[Path] = (),
    columns: dict[str, Any] | None = None,
) -> Callable[[], ReviewService]:
    """A function that loads the model and creates the service. The arguments are checked before it is returned.

    By default the database is a file of its own beside the folder, because training again replaces the folder. It is
    written to last, when nothing else can fail any more.

    Args:
        onnx: predict with ONNX Runtime; None means if it is installed.
        queue: tables whose interactions are stored, as far as they are not known yet.
        columns: names of their columns, where guessing would go wrong.
    """
    recover(model)
    if not is_model(model):
        raise InputError(f"There is no model in {model}: train one with saft train … --out {model}")
    beside = model.resolve().with_name(f"{model.resolve().name}.interactions.sqlite")
    store = Database(beside if database is None else database)
    store.check()
    if onnx and not is_installed():
        raise InputError(f"Answering through ONNX Runtime needs more packages: {install_command('onnx')}")
    for file in queue:
        if not file.is_file():
            raise InputError(f"There is no file {file}.")
    store.serve_alone()

    def make() -> ReviewService:
        try:
            fingerprint = hashlib.sha256((model / FACTS).read_bytes()).hexdigest()
            live = LiveNetwork(load(model))
            incoming = [one for file in queue for one in interactions_of(file, live.classifier, **columns or {})]
            if onnx is not False and is_installed():
                _use_onnx(live, store.file or beside, fingerprint)
            service = ReviewService(live, store, fingerprint, suspicious, second_opinion)
            new = service.mirror.unknown(incoming)
            if new:
                service.keep(service.prepared(new), source=", ".join(map(str, queue)))
        except BaseException:
            store.close()
            raise
        return service

    return make


def _use_onnx(live: LiveNetwork, beside: Path, fingerprint: str) -> None:
    # What a model is given may change from version to version.
    name = hashlib.sha256(f"{fingerprint} {saft.__version__}".encode()).hexdigest()[:12]
    exported = beside.with_suffix(f".{name}.onnx")
    remove_outdated(exported)
    use_onnx(live, exported)
