"""The reloader looks at the folder, does what it is asked, and keeps the old model if the new one cannot be served."""

import asyncio
import json
import logging

import pytest

from saft.server import audit, reloading
from saft.server.database import Database
from saft.server.limits import Limits
from saft.server.reloading import Reloader
from saft.server.team import Caller
from saft.server.worker import Worker
from tests.server.test_worker import ChangingService


class Folder:
    """Stands in for the loader of a model folder."""

    def __init__(self, database) -> None:
        self.database, self.model, self.present, self.changes = database, "model", "old", 0
        self.broken = False

    def fingerprint(self):
        return self.present

    def is_changed(self):
        self.changes -= 1
        return self.changes >= 0

    def service(self, before=None):
        if self.broken:
            raise ValueError("it is broken")
        made = ChangingService(self.present)
        made.fingerprint, made.database = self.present, self.database
        return made.made()

    instead_of = service


@pytest.fixture
def folder(tmp_path):
    database = Database(tmp_path / "kept.sqlite")
    with database.opening():
        pass
    yield Folder(database)
    database.close()


def run(folder, work):
    async def main():
        worker = Worker(Limits())
        await worker.start(folder.service)
        reloader = Reloader(folder)
        watching = asyncio.create_task(reloader.watch(worker))
        try:
            return await work(worker, reloader)
        finally:
            watching.cancel()
            await worker.stop()

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(reloading, "WATCH_SECONDS", 0.01)


async def until_served(worker, name: str) -> None:
    async with asyncio.timeout(10):
        while worker.service.name != name:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("asked", [False, True])
def test_another_model_is_served_when_the_folder_changes_or_somebody_asks(folder, asked):
    async def work(worker, reloader):
        folder.present = "new"
        await asyncio.sleep(0.1)
        assert worker.service.name == "old"  # nobody has said anything yet
        if asked:
            reloader.ask()
        else:
            folder.changes = 1
        await until_served(worker, "new")

    run(folder, work)


def test_the_same_model_is_not_loaded_again(folder):
    async def work(worker, reloader):
        before = worker.service
        assert not await reloader.reload(worker)
        assert worker.service is before

    run(folder, work)


def test_a_model_that_cannot_be_loaded_is_reported_once_and_the_old_one_stays(folder, caplog):
    async def work(worker, reloader):
        folder.present, folder.broken, folder.changes = "new", True, 1
        await asyncio.sleep(0.3)
        return worker.service.name

    with caplog.at_level(logging.ERROR):
        assert run(folder, work) == "old"
    assert [record.getMessage() for record in caplog.records] == [
        "The new model cannot be served, the old one stays: it is broken"
    ]


def test_the_audit_log_says_who_had_another_model_served(folder):
    async def work(worker, reloader):
        folder.present = "new"
        assert await reloader.reload(worker, Caller("kim"))

    run(folder, work)
    with folder.database.reading() as connection:
        [entry] = audit.entries(connection)
    assert (entry["who"], entry["action"]) == ("kim", "model changed")
    assert json.dumps(entry["detail"]) == '{"fingerprint": "new"}'
