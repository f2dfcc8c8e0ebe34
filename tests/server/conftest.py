"""A small trained model, and servers that really run."""

import contextlib
import os
import socket
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

N = 300


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory, tiny_settings) -> Path:
    """Trained on 300 interactions, 50 of them without a label."""
    folder = tmp_path_factory.mktemp("served") / "model"
    SaftClassifier(**tiny_settings).fit(saft.demo_network(N).hiding(np.arange(250, N))).save(folder)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """``saft serve`` in a process of its own."""

    def __init__(self, model: Path, database: Path, *options: str, token: str | None = None) -> None:
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
def serving(model: Path, database: Path, *options: str, token: str | None = None) -> Iterator[Server]:
    server = Server(model, database, *options, token=token)
    try:
        yield server.wait()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server(model_folder, tmp_path_factory) -> Iterator[Server]:
    with serving(model_folder, tmp_path_factory.mktemp("store") / "kept.sqlite") as running:
        yield running
