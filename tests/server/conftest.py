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
from tests.server.browsing import CHROMIUM, PICTURES, TABLE, claimed, wait_until
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


@pytest.fixture(scope="module")
def running(model_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "new.csv").write_text(TABLE, encoding="utf-8")
    with serving(model_folder, folder / "kept.sqlite", "--queue", str(folder / "new.csv")) as server:
        yield server


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="driving a browser needs playwright")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the page of a server under a name; whatever the browser complains about fails the test."""
    contexts, names, problems = [], {}, []

    def open_page(server, name: str | None = "kim", wait: str = "#panel .legend", **options):
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        contexts.append((context, server))
        names[context] = name
        if name is not None:
            context.add_init_script(f"if (origin !== 'null') localStorage.setItem('name', {name!r})")
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(server.url)
        page.wait_for_selector(wait)
        return page

    open_page.problems = problems
    yield open_page
    for context, server in contexts:
        [page] = context.pages
        page.screenshot(path=Path(PICTURES or tmp_path) / "last.png")
        page.goto("about:blank")  # who leaves the page leaves what was claimed, so the next test begins with nothing
        wait_until(lambda name=names[context], of=server: not claimed(of, name))
        context.close()
    assert problems == []


@pytest.fixture
def page(opened, running):
    return opened(running)
