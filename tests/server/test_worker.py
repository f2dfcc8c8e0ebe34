"""The worker: one thread, gathered requests, a bounded queue, and accepted work that is always finished."""

import asyncio
import threading
import time

import pytest

from saft.online.live import Interaction, Prediction
from saft.server.limits import Limits
from saft.server.worker import BusyError, SlowError, Worker

ROW = Interaction("u", "i", "t")


class RecordingService:
    """A stand-in that records the rows of each call, and its thread."""

    def __init__(self, seconds: float = 0.02, fails: bool = False) -> None:
        self.seconds, self.fails = seconds, fails
        self.n_rows: list[int] = []
        self.threads: set[int] = set()

    def made(self):
        self.threads.add(threading.get_ident())
        return self

    def predict(self, rows):
        self.n_rows.append(len(rows))
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        if self.fails:
            raise ValueError("broken")
        return [Prediction(one.text, None, True, True) for one in rows]


def run(service, limits, work):
    async def main():
        worker = Worker(limits)
        await worker.start(service.made)
        try:
            return await work(worker)
        finally:
            await worker.stop()

    return asyncio.run(main())


def row(number):
    return Interaction("u", "i", str(number))


def test_requests_that_come_together_are_predicted_together_and_get_their_own_rows():
    service = RecordingService()

    async def work(worker):
        return await asyncio.gather(*(worker.predict([row(number), row(-number)]) for number in range(20)))

    results = run(service, Limits(gather_ms=20), work)
    assert [[one.label for one in pair] for pair in results] == [[str(n), str(-n)] for n in range(20)]
    assert len(service.n_rows) <= 3
    assert len(service.threads) == 1


def test_no_more_rows_are_predicted_together_than_the_limit():
    service = RecordingService()

    async def work(worker):
        await asyncio.gather(*(worker.predict([ROW]) for _ in range(30)))

    run(service, Limits(gather_ms=10, batch_size=8), work)
    assert max(service.n_rows) <= 8
    assert sum(service.n_rows) == 30


def test_requests_beyond_the_length_of_the_queue_are_refused():
    async def work(worker):
        return await asyncio.gather(*(worker.predict([ROW]) for _ in range(6)), return_exceptions=True)

    results = run(RecordingService(0.1), Limits(waiting=4), work)
    assert sum(isinstance(result, BusyError) for result in results) == 2
    assert sum(isinstance(result, list) for result in results) == 4


def test_work_that_takes_too_long_is_given_up_by_the_caller_and_finished_by_the_worker():
    service, done = RecordingService(), []

    async def work(worker):
        with pytest.raises(SlowError):
            await worker.do(lambda _: (time.sleep(0.2), done.append(1)))

    run(service, Limits(seconds=0.05), work)
    assert done == [1]


def test_a_failure_is_raised_in_all_requests_of_its_batch_and_in_no_other():
    service = RecordingService(fails=True)

    async def work(worker):
        failed = await asyncio.gather(*(worker.predict([ROW]) for _ in range(3)), return_exceptions=True)
        service.fails = False
        return failed, await worker.predict([ROW])

    failed, predicted = run(service, Limits(), work)
    assert all(isinstance(error, ValueError) for error in failed)
    assert predicted[0].label == "t"


class ChangingService(RecordingService):
    """Says by which service a row was predicted, and what became of it."""

    def __init__(self, name: str, seconds: float = 0.02) -> None:
        super().__init__(seconds)
        self.name, self.closed, self.refreshed = name, False, False

    def predict(self, rows):
        assert not self.closed
        return [Prediction(self.name, one.label, True, True) for one in super().predict(rows)]

    def refresh(self):
        self.refreshed = True

    def close(self):
        self.closed = True


def test_requests_before_a_change_are_finished_by_the_old_service_and_later_ones_by_the_new_one():
    old, new = ChangingService("old", 0.05), ChangingService("new")

    async def work(worker):
        under_way = [asyncio.create_task(worker.predict([row(number)])) for number in range(3)]
        loading = asyncio.create_task(worker.change(lambda before: time.sleep(0.3) or new.made()))
        meanwhile = [await worker.predict([row(number)]) for number in range(3)]
        await loading
        later = await worker.predict([ROW])
        return [*(await asyncio.gather(*under_way)), *meanwhile], later

    before, after = run(old, Limits(), work)
    assert [one.label for [one] in before] == ["old"] * 6
    assert [one.label for one in after] == ["new"]
    assert old.closed
    assert new.refreshed
    assert not new.closed
    assert not old.threads & new.threads


def test_if_the_new_service_cannot_be_loaded_the_old_one_goes_on():
    old = ChangingService("old")

    def broken(before):
        raise ValueError("broken")

    async def work(worker):
        with pytest.raises(ValueError, match="broken"):
            await worker.change(broken)
        return await worker.predict([ROW])

    [found] = run(old, Limits(), work)
    assert found.label == "old"
    assert not old.closed
