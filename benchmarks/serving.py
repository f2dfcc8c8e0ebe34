"""A server under load: latency and throughput at 1, 8 and 32 clients, on networks of 10⁴ and 10⁶ interactions.

Latency is given in forward passes of the bare encoder on the same text, throughput at 32 clients as a multiple of one
client's. The neighbours' message states stay zero instead of encoding a million texts: a prediction takes as long.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
import polars as pl

import saft
from benchmarks.competitors import encoder_called
from benchmarks.measuring import Figure
from saft import SaftClassifier
from saft.online.live import Interaction, LiveNetwork

SIZES = (10_000, 1_000_000)
CLIENTS = (1, 8, 32)
ROUNDS, SECONDS = 5, 5.0
REQUEST_HEAD = "POST /predict HTTP/1.1\r\nHost: saft\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
TEXT = "Second one I own. The puzzle broke on the first day, and the seller asked to change the name on the parcel."


def figures() -> Iterator[Figure]:
    for messages, trained in (("content", 0), ("lga", 1)):
        yield _busy_item({"messages": messages, "trained_layers": trained})
    for size in SIZES:
        yield from _under_load(size)


def _busy_item(settings: dict[str, Any], busy: int = 100_000, quiet: int = 10, repeats: int = 50) -> Figure:
    """A prediction for an item with many interactions against one with few, in turns, by an encoder of two layers."""
    network = saft.demo_network(busy + quiet)
    items = pl.Series("item", ["quiet"] * quiet + ["busy"] * busy)
    network = saft.read(network.hiding(np.arange(2_000, len(network))).to_frame().with_columns(items))
    taken: dict[str, list[float]] = {"busy": [], "quiet": []}
    with encoder_called("tiny") as (encoder, _):
        settings = {"encoder": encoder, "epochs": 1, "valid_share": 0.0, **settings}
        live = LiveNetwork(SaftClassifier(**settings).fit(network))
        for _ in range(repeats):
            for item, seconds in taken.items():
                began = time.perf_counter()
                live.predict([Interaction("somebody new", item, TEXT)])
                seconds.append(time.perf_counter() - began)
    ratio = median(taken["busy"]) / median(taken["quiet"])
    name = f"serving, {settings['messages']}: a prediction with {busy:,} neighbours against one with {quiet}"
    return Figure(name, ratio, "×", "<= 1.5")


def _under_load(size: int) -> list[Figure]:
    """Rounds of 1, 8 and 32 clients, so that a slow minute of the machine hits all of them."""
    rows, forwards, rounds = _rows(size), [], []
    with serving(size) as url:
        asyncio.run(_load(url, rows, 4, 2.0))  # warm
        for _ in range(ROUNDS):
            forwards.append(bare_forward())
            rounds.append({clients: asyncio.run(_load(url, rows, clients, SECONDS)) for clients in CLIENTS})
    found = []
    for clients in CLIENTS:
        where = f"serving, {size:,} interactions, {clients} client{'s' * (clients > 1)}"
        taken = np.concatenate([one[clients] for one in rounds])
        for share in (50, 95, 99):
            value = float(np.percentile(taken, share)) / median(forwards)
            target = "<= 5" if clients == 1 and share == 95 else ""
            found.append(Figure(f"{where}: p{share} in forward passes", value, "×", target))
        found.append(Figure(f"{where}: throughput", len(taken) / (ROUNDS * SECONDS), "requests/s"))
    more = median(len(one[32]) / len(one[1]) for one in rounds)
    return [*found, Figure(f"serving, {size:,} interactions: 32 clients against one", more, "×", ">= 3")]


def bare_forward(repeats: int = 50) -> float:
    """Seconds of the encoder alone on the text, tokens given."""
    import torch

    from saft.features.tokens import load_tokenizer
    from saft.model.encoder import TextEncoder

    encoder = TextEncoder.load("minilm").train(False)
    tokens = torch.tensor(load_tokenizer("minilm")([TEXT])["input_ids"])
    seconds = []
    with torch.inference_mode():
        for _ in range(repeats):
            began = time.perf_counter()
            encoder(tokens, torch.ones_like(tokens))
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
    """Interactions to predict: all items are known, about half of the users are new."""
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
    """Seconds of every completed request; each client sends its requests one after the other.

    HTTP is written and parsed here: a client library takes longer than the server does, on the same cores.
    """
    ends, taken, port = time.perf_counter() + seconds, [], httpx.URL(url).port

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        at = number
        while (began := time.perf_counter()) < ends:
            body = json.dumps({"interactions": [rows[at % len(rows)]]}).encode()
            writer.write(REQUEST_HEAD.format(len(body)).encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(": ") for line in head.decode().lower().splitlines()[1:-1])
            response = await reader.readexactly(int(fields["content-length"]))
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(response.decode())
            taken.append(time.perf_counter() - began)
            at += clients
        writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return taken


def _serve(size: int, port: int, folder: Path) -> None:
    import uvicorn

    from saft.server.app import create_app
    from saft.server.onnx_session import is_installed, use_onnx

    def load() -> Any:
        service = _service(size, folder)
        if is_installed():
            use_onnx(service.live, folder / "model.onnx")
        return service

    uvicorn.run(create_app(load), port=port, log_level="warning")


def _service(size: int, folder: Path) -> Any:
    """The service of an untrained model on a network of this many interactions."""
    from saft.classifier.assembly import Assembly
    from saft.server.service import ReviewService

    classifier = SaftClassifier()
    classifier.assembly_ = Assembly.fresh(classifier.settings, saft.demo_network(size))
    classifier.temperature_ = 1.0
    return ReviewService(LiveNetwork(classifier), folder / "kept.sqlite", "benchmark")


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
