"""A server under load: latency and throughput at 1, 8 and 32 clients, with 10⁴ and 10⁶ interactions around.

Latency is given in forward passes of the bare encoder on the same text, throughput at 32 clients as a multiple of one
client's. What neighbours pass on is left at zero instead of reading a million texts: an answer takes as long.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import httpx
import numpy as np

import saft
from benchmarks.measuring import Figure

SIZES = (10_000, 1_000_000)
CLIENTS = (1, 8, 32)
SECONDS = 10.0
TEXT = "Second one I own. The puzzle broke on the first day, and the seller asked to change the name on the parcel."


def figures() -> list[Figure]:
    found: list[Figure] = []
    forward = bare_forward()
    for size in SIZES:
        with serving(size) as url:
            rows = _rows(size)
            asyncio.run(_load(url, rows, 4, 2.0))  # warm
            measured = {clients: asyncio.run(_load(url, rows, clients, SECONDS)) for clients in CLIENTS}
        for clients, seconds in measured.items():
            where = f"serving, {size:,} interactions, {clients} client{'s' * (clients > 1)}"
            target = "<= 5" if clients == 1 else ""
            for share in (50, 95, 99):
                value = float(np.percentile(seconds, share)) / forward
                found.append(Figure(f"{where}: p{share} in forward passes", value, "×", target if share == 95 else ""))
            found.append(Figure(f"{where}: throughput", len(seconds) / SECONDS, "requests/s"))
        more = len(measured[32]) / len(measured[1])
        found.append(Figure(f"serving, {size:,} interactions: 32 clients against one", more, "×", ">= 3"))
    return found


def bare_forward(repeats: int = 50) -> float:
    """Seconds of the encoder alone on the text, tokens given."""
    import torch

    from saft.model.language import LanguageModel
    from saft.tokens import load_tokenizer

    language = LanguageModel.load("minilm").train(False)
    tokens = torch.tensor(load_tokenizer("minilm")([TEXT])["input_ids"])
    seconds = []
    with torch.inference_mode():
        for _ in range(repeats):
            began = time.perf_counter()
            language(tokens, torch.ones_like(tokens))
            seconds.append(time.perf_counter() - began)
    return median(seconds)


@contextlib.contextmanager
def serving(size: int) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.serving", str(size), str(port), folder]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                _wait(f"http://127.0.0.1:{port}", server)
                yield f"http://127.0.0.1:{port}"
            finally:
                server.terminate()


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/ready").status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError("the server did not start")


def _rows(size: int) -> list[dict[str, str]]:
    """Questions about known users and items, half of them about new ones."""
    network, rng = saft.demo_network(size), np.random.default_rng(0)
    asked = rng.integers(0, size, 500)
    return [
        {
            "user": str(network.user_ids[int(network.users[row])]) if row % 2 else f"new {row}",
            "item": str(network.item_ids[int(network.items[row])]),
            "text": TEXT,
        }
        for row in asked.tolist()
    ]


async def _load(url: str, rows: list[dict[str, str]], clients: int, seconds: float) -> list[float]:
    """Seconds of every request that these clients got answered, each asking one after the other."""
    ends, taken = time.perf_counter() + seconds, []

    async def client(number: int, http: httpx.AsyncClient) -> None:
        at = number
        while (began := time.perf_counter()) < ends:
            answer = await http.post("/predict", json={"interactions": [rows[at % len(rows)]]})
            answer.raise_for_status()
            taken.append(time.perf_counter() - began)
            at += clients

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as http:
        await asyncio.gather(*(client(number, http) for number in range(clients)))
    return taken


def _serve(size: int, port: int, folder: Path) -> None:
    import uvicorn

    from saft.serving.app import create_app

    uvicorn.run(create_app(lambda: _desk(size, folder)), port=port, log_level="warning")


def _desk(size: int, folder: Path):  # type: ignore[no-untyped-def]
    """Of an untrained model that knows this many interactions."""
    from saft import SaftClassifier
    from saft.assembly import Assembly
    from saft.serving.desk import Desk

    classifier = SaftClassifier()
    classifier.assembly_ = Assembly.fresh(classifier.settings, saft.demo_network(size))
    classifier.temperature_ = 1.0
    return Desk(classifier, folder / "kept.sqlite", "benchmark")


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
