"""One thread, questions gathered, room that ends, and nothing accepted that is not finished."""

import asyncio
import threading
import time

import pytest

from saft.online.live import Interaction, Prediction
from saft.server.limits import Limits
from saft.server.worker import BusyError, SlowError, Worker

ROW = Interaction("u", "i", "t")


class ReviewService:
    """Remembers who was asked together, and in which thread."""

    def __init__(self, seconds: float = 0.02, fails: bool = False) -> None:
        self.seconds, self.fails = seconds, fails
        self.asked: list[int] = []
        self.threads: set[int] = set()

    def made(self):
        self.threads.add(threading.get_ident())
        return self

    def predict(self, rows):
        self.asked.append(len(rows))
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        if self.fails:
            raise ValueError("broken")
        return [Prediction(row.text, None, True, True) for row in rows]


def run(service, limits, work):
    async def main():
        worker = Worker(limits)
        await worker.start(service.made)
        try:
            return await work(worker)
        finally:
            await worker.stop()

    return asyncio.run(main())


def asks(number):
    return Interaction("u", "i", str(number))


def test_questions_that_come_together_are_answered_together_each_with_its_own():
    service = ReviewService()

    async def work(worker):
        return await asyncio.gather(*(worker.predict([asks(number), asks(-number)]) for number in range(20)))

    answers = run(service, Limits(gather_ms=20), work)
    assert [[one.label for one in pair] for pair in answers] == [[str(n), str(-n)] for n in range(20)]
    assert len(service.asked) <= 3
    assert len(service.threads) == 1


def test_no_more_are_answered_together_than_the_limit():
    service = ReviewService()

    async def work(worker):
        await asyncio.gather(*(worker.predict([ROW]) for _ in range(30)))

    run(service, Limits(gather_ms=10, batch_size=8), work)
    assert max(service.asked) <= 8
    assert sum(service.asked) == 30


def test_who_comes_when_there_is_no_room_is_turned_away():
    async def work(worker):
        return await asyncio.gather(*(worker.predict([ROW]) for _ in range(6)), return_exceptions=True)

    answers = run(ReviewService(0.1), Limits(waiting=4), work)
    assert sum(isinstance(answer, BusyError) for answer in answers) == 2
    assert sum(isinstance(answer, list) for answer in answers) == 4


def test_what_takes_too_long_is_given_up_by_the_asker_and_finished_by_the_worker():
    service, done = ReviewService(), []

    async def work(worker):
        with pytest.raises(SlowError):
            await worker.do(lambda _: (time.sleep(0.2), done.append(1)))

    run(service, Limits(seconds=0.05), work)
    assert done == [1]


def test_a_failure_is_told_to_everybody_who_asked_and_to_nobody_else():
    service = ReviewService(fails=True)

    async def work(worker):
        failed = await asyncio.gather(*(worker.predict([ROW]) for _ in range(3)), return_exceptions=True)
        service.fails = False
        return failed, await worker.predict([ROW])

    failed, answered = run(service, Limits(), work)
    assert all(isinstance(error, ValueError) for error in failed)
    assert answered[0].label == "t"
