"""SIGKILL in the middle of a stream of additions: no acknowledged row is lost."""

import signal
import threading
import time

import httpx
import pytest

from tests.server.conftest import serving

KILLS = 20


def stream(url: str, acknowledged: list[tuple[str, str]], name: str) -> None:
    """Add one after the other until the server is gone."""
    number = 0
    with httpx.Client(base_url=url, timeout=10) as client:
        while True:
            text = f"{name} {number}"
            rows = [{"user": f"user {number % 5}", "item": f"item {number % 7}", "text": text}]
            try:
                response = client.post("/interactions", json={"interactions": rows})
            except httpx.TransportError:
                return
            if response.status_code == 201:
                acknowledged.append((response.json()["ids"][0], text))
            number += 1


def killed_once(model_folder, database, acknowledged, name, after) -> None:
    with serving(model_folder, database) as server:
        threads = [
            threading.Thread(target=stream, args=(server.url, acknowledged, f"{name} {thread}")) for thread in range(2)
        ]
        for thread in threads:
            thread.start()
        time.sleep(after)
        server.process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()


def texts_after_a_restart(model_folder, database, keys) -> list[str]:
    with serving(model_folder, database) as server:
        return [server.client.get(f"/interactions/{key}").json()["text"] for key in keys]


def test_a_kill_loses_nothing_that_was_acknowledged(model_folder, tmp_path):
    acknowledged: list[tuple[str, str]] = []
    killed_once(model_folder, tmp_path / "kept.sqlite", acknowledged, "once", 0.6)
    keys, texts = zip(*acknowledged, strict=True)
    assert texts_after_a_restart(model_folder, tmp_path / "kept.sqlite", keys) == list(texts)


@pytest.mark.long
def test_twenty_kills_lose_nothing_that_was_acknowledged(model_folder, tmp_path):
    acknowledged: list[tuple[str, str]] = []
    for kill in range(KILLS):
        killed_once(model_folder, tmp_path / "kept.sqlite", acknowledged, f"kill {kill}", 0.2 + 0.11 * (kill % 9))
    keys, texts = zip(*acknowledged, strict=True)
    assert texts_after_a_restart(model_folder, tmp_path / "kept.sqlite", keys) == list(texts)
