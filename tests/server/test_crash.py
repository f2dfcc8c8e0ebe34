"""SIGKILL in the middle of additions, of verdicts and of a migration: nothing that was acknowledged is lost."""

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import numpy as np
import pytest

from saft.online.live import Interaction
from saft.server import ledger
from saft.server.database import Database
from tests.server.conftest import serving
from tests.server.format_1 import Format1

KILLS = 20
CLASSES = ("genuine", "spam", "suspicious")
OLD_ROWS = 3000


@dataclass
class Acknowledged:
    texts: list[tuple[str, str]] = field(default_factory=list)  # (id, text)
    verdicts: dict[str, list[str]] = field(default_factory=dict)  # id → labels, in order


def until_killed(url: str, request: Callable[[httpx.Client, int], None]) -> None:
    """One request after the other until the server is gone."""
    number = 0
    with httpx.Client(base_url=url, timeout=10) as client:
        while True:
            try:
                request(client, number)
            except httpx.TransportError:
                return
            number += 1


def adding(acknowledged: Acknowledged, name: str) -> Callable[[httpx.Client, int], None]:
    def add(client: httpx.Client, number: int) -> None:
        text = f"{name} {number}"
        rows = [{"user": f"user {number % 5}", "item": f"item {number % 7}", "text": text}]
        response = client.post("/interactions", json={"interactions": rows})
        if response.status_code == 201:
            acknowledged.texts.append((response.json()["ids"][0], text))

    return add


def judging(acknowledged: Acknowledged, first: int) -> Callable[[httpx.Client, int], None]:
    """Verdicts on ten rows of training of its own, in turns."""

    def judge(client: httpx.Client, number: int) -> None:
        key, label = f"t{first + number % 10}", CLASSES[number % 3]
        if client.post("/labels", json={"id": key, "label": label}).status_code == 200:
            acknowledged.verdicts.setdefault(key, []).append(label)

    return judge


def killed_once(model_folder, database, acknowledged: Acknowledged, name: str, after: float) -> None:
    work = [adding(acknowledged, f"{name} {thread}") for thread in range(2)]
    work += [judging(acknowledged, first) for first in (250, 260)]
    with serving(model_folder, database) as server:
        threads = [threading.Thread(target=until_killed, args=(server.url, request)) for request in work]
        for thread in threads:
            thread.start()
        time.sleep(after)
        server.process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()


def check_all_is_there(model_folder, database, acknowledged: Acknowledged) -> None:
    assert acknowledged.texts
    assert acknowledged.verdicts
    with serving(model_folder, database) as server:
        for key, text in acknowledged.texts:
            assert server.client.get(f"/interactions/{key}").json()["text"] == text
        for key, labels in acknowledged.verdicts.items():
            told = [one["label"] for one in server.client.get(f"/interactions/{key}/history").json()["verdicts"]]
            remaining = iter(told)  # what was stored, but not acknowledged any more, may be between
            assert all(label in remaining for label in labels), (key, labels, told)
            assert server.client.get(f"/interactions/{key}").json()["label"] == told[-1]


def test_a_kill_loses_nothing_that_was_acknowledged(model_folder, tmp_path):
    acknowledged = Acknowledged()
    killed_once(model_folder, tmp_path / "kept.sqlite", acknowledged, "once", 0.8)
    check_all_is_there(model_folder, tmp_path / "kept.sqlite", acknowledged)


@pytest.mark.long
def test_twenty_kills_lose_nothing_that_was_acknowledged(model_folder, where):
    acknowledged = Acknowledged()
    for kill in range(KILLS):
        killed_once(model_folder, where, acknowledged, f"kill {kill}", 0.2 + 0.11 * (kill % 9))
    check_all_is_there(model_folder, where, acknowledged)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A database of the first format that takes a while to be migrated, and its verdicts."""
    path = tmp_path_factory.mktemp("old") / "kept.sqlite"
    made = Format1(path, "model", list(CLASSES))
    made.database.execute("BEGIN")
    for number in range(OLD_ROWS):
        made.add(Interaction(f"user {number % 50}", f"item {number % 70}", f"text {number}"), number)
        made.judge(f"t{number}", CLASSES[number % 3], "kim")
    made.database.execute("COMMIT")
    made.close()
    return path


MIGRATE = """
import sys
from saft.server.database import Database
database = Database(sys.argv[1])
print("begins", flush=True)
with database.opening():
    pass
print("done", flush=True)
database.close()
"""


def migrating(path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", MIGRATE, str(path)], stdout=subprocess.PIPE, text=True)


def seconds_of_a_migration(old, folder) -> float:
    folder.mkdir()
    shutil.copy(old, folder / "kept.sqlite")
    with migrating(folder / "kept.sqlite") as process:
        process.stdout.readline()
        began = time.monotonic()
        process.stdout.readline()
        return time.monotonic() - began


def kill_migration(old, folder, after: float) -> bool:
    """Whether it was killed before it was through. Afterwards the file is whole, and the next start completes it."""
    folder.mkdir()
    path = folder / "kept.sqlite"
    shutil.copy(old, path)
    with migrating(path) as process:
        process.stdout.readline()
        time.sleep(after)
        process.kill()
        killed = "done" not in process.stdout.read()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        [(found,)] = connection.execute("SELECT value FROM facts WHERE name='format'")
    connection.close()
    assert found in ("1", "2")
    database = Database(path)
    with database.opening(), database.reading() as connection:
        verdicts = ledger.standing_of_all(connection)
    database.close()
    assert [(one.interaction, one.label) for one in verdicts] == [
        (number + 1, CLASSES[number % 3]) for number in range(OLD_ROWS)
    ]
    for copy in folder.glob("kept.format-1-*"):  # each that is there is a whole one
        with sqlite3.connect(copy) as connection:
            assert connection.execute("SELECT count(*) FROM verdicts").fetchone() == (OLD_ROWS,)
        connection.close()
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(KILLS, marks=pytest.mark.long)])
def test_a_migration_that_is_killed_is_completed_by_the_next_start(old, tmp_path, kills):
    whole, moments = seconds_of_a_migration(old, tmp_path / "whole"), np.random.default_rng(0)
    killed = [kill_migration(old, tmp_path / str(kill), moments.uniform(0, whole)) for kill in range(kills)]
    assert any(killed)
