"""A small trained model, and servers that really run."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.online.live import LiveNetwork
from saft.server.service import ReviewService
from tests.server.ports import free_port
from tests.server.postgres import Cluster, binaries

N = 300


def unlabelled(rows: np.ndarray, n: int = N) -> saft.TextualInteractionNetwork:
    """A demo network in which nobody has ever known the labels of these rows."""
    return saft.read(saft.demo_network(n).hiding(rows).to_frame())


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory, tiny_settings) -> Path:
    """Trained on 300 interactions, 50 of them without a label."""
    folder = tmp_path_factory.mktemp("served") / "model"
    SaftClassifier(**tiny_settings).fit(unlabelled(np.arange(250, N))).save(folder)
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed on this machine")
    cluster = Cluster(programs)
    yield cluster
    cluster.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path) -> str:
    """Where an empty database is: the same tests run on both kinds."""
    if request.param == "sqlite":
        return str(tmp_path / "kept.sqlite")
    return request.getfixturevalue("postgres").new_database()


def serve(model: Path, where: str | Path, fingerprint: str = "model", **options) -> ReviewService:
    """The service of a model folder, without HTTP."""
    return ReviewService(LiveNetwork(saft.load(model)), where, fingerprint, **options)


class Server:
    """``saft serve`` in a process of its own."""

    def __init__(self, model: Path, database: Path | str, *options: str, token: str | None = None) -> None:
        self.database, self.port = database, free_port()
        # Exporting takes longer than all requests here; test_onnx_session.py does it.
        command = ["-m", "saft", "serve", str(model), "--port", str(self.port), "--no-onnx"]
        command += ["--database", str(database)]
        self.process = subprocess.Popen(
            [sys.executable, *command, *options],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.url = f"http://127.0.0.1:{self.port}"
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self.client = httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def wait(self, seconds: float = 90) -> "Server":
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {self.process.stdout.read()}")
            with contextlib.suppress(httpx.TransportError):
                if self.client.get("/ready").status_code == 200:
                    return self
            time.sleep(0.1)
        raise AssertionError("the server did not get ready")

    def stop(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.communicate(timeout=30)


@contextlib.contextmanager
def serving(model: Path, database: Path | str, *options: str, token: str | None = None) -> Iterator[Server]:
    server = Server(model, database, *options, token=token)
    try:
        yield server.wait()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server(model_folder, tmp_path_factory) -> Iterator[Server]:
    with serving(model_folder, tmp_path_factory.mktemp("store") / "kept.sqlite") as running:
        yield running
