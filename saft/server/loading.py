"""Creates a ReviewService from a model folder, again when there is another model in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
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

_Stamp = tuple[int, int]


def service_loader(
    model: Path,
    database: Path | str | None = None,
    suspicious: str | None = None,
    onnx: bool | None = None,
    second_opinion: float | None = None,
    queue: Sequence[Path] = (),
    columns: dict[str, Any] | None = None,
) -> ServiceLoader:
    """What loads the model and creates the service. The arguments are checked before it is returned.

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
    return ServiceLoader(model, store, beside, suspicious, onnx, second_opinion, queue, columns or {})


@dataclass
class ServiceLoader:
    """Call it for the first service; :meth:`instead_of` is for those that follow."""

    model: Path
    store: Database
    beside: Path
    suspicious: str | None
    onnx: bool | None
    second_opinion: float | None
    queue: Sequence[Path]
    columns: dict[str, Any]
    _looked_at: _Stamp | None = field(default=None, init=False)  # the model of which it is known whether it is another

    def __call__(self) -> ReviewService:
        try:
            self._looked_at = self._stamp()
            live, fingerprint = self._live()
            incoming = [one for file in self.queue for one in interactions_of(file, live.classifier, **self.columns)]
            service = ReviewService(live, self.store, fingerprint, self.suspicious, self.second_opinion)
            new = service.mirror.unknown(incoming)
            if new:
                service.keep(service.prepared(new), source=", ".join(map(str, self.queue)))
        except BaseException:
            self.store.close()
            raise
        return service

    def instead_of(self, before: ReviewService) -> ReviewService:
        """The service of the model that is in the folder now, made while the one before goes on working."""
        live, fingerprint = self._live()
        return ReviewService(
            live, Database(before.database.where), fingerprint, self.suspicious, takes_over=before.database
        )

    def is_changed(self) -> bool:
        """Whether something happened to the folder since the last time that this was asked. Costs almost nothing."""
        stamp = self._stamp()
        if stamp is None or stamp == self._looked_at:  # there is no model for a moment while it is being replaced
            return False
        self._looked_at = stamp
        return True

    def fingerprint(self) -> str | None:
        """Of the model in the folder; None if there is none."""
        try:
            return hashlib.sha256((self.model / FACTS).read_bytes()).hexdigest()
        except FileNotFoundError:
            return None

    def _stamp(self) -> _Stamp | None:
        try:
            found = (self.model / FACTS).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _live(self) -> tuple[LiveNetwork, str]:
        before = self.fingerprint()
        live, after = LiveNetwork(load(self.model)), self.fingerprint()
        if after is None or before != after:
            raise InputError(f"The model in {self.model} was replaced while it was read. Load it again.")
        if self.onnx is not False and is_installed():
            _use_onnx(live, self.store.file or self.beside, after)
        return live, after


def _use_onnx(live: LiveNetwork, beside: Path, fingerprint: str) -> None:
    # What a model is given may change from version to version.
    name = hashlib.sha256(f"{fingerprint} {saft.__version__}".encode()).hexdigest()[:12]
    exported = beside.with_suffix(f".{name}.onnx")
    remove_outdated(exported)
    use_onnx(live, exported)
