"""Worker: one thread that owns the desk. Predictions that arrive within a few milliseconds are made together.

An encoder answers ten short texts in little more time than one, so gathering pays as soon as several clients ask. All
else is done in the order of arrival. What was accepted is finished, also when the server is told to stop.

The desk is made in that thread as well: torch keeps helpers for every thread that ever computed, and those of one
thread wait for work at the expense of another's, which doubles the time of an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from saft.online.live import Answer, Interaction
from saft.server.limits import Limits
from saft.server.service import Desk


class BusyError(Exception):
    """Too many requests are waiting."""


class SlowError(Exception):
    """A request took longer than it may."""


@dataclass
class _Question:
    interactions: Sequence[Interaction]
    answers: asyncio.Future[list[Answer]]


class Worker:
    desk: Desk

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="saft")
        self._questions: asyncio.Queue[_Question] = asyncio.Queue()
        self._waiting = 0
        self._gatherer: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return self._waiting

    async def start(self, load: Callable[[], Desk]) -> None:
        """Ready once the desk is there."""
        self.desk = await asyncio.get_running_loop().run_in_executor(self._thread, load)
        self._gatherer = asyncio.create_task(self._gather())

    async def stop(self) -> None:
        """Once everything that was accepted is done."""
        while self._waiting:
            await asyncio.sleep(0.01)
        if self._gatherer is not None:
            self._gatherer.cancel()
        self._thread.shutdown(wait=True)

    async def predict(self, interactions: Sequence[Interaction]) -> list[Answer]:
        """Together with whatever else is asked in these milliseconds."""
        self._make_sure_there_is_room()
        question = _Question(interactions, asyncio.get_running_loop().create_future())
        self._questions.put_nowait(question)
        return await self._finished(question.answers)

    async def do(self, work: Callable[[Desk], Any]) -> Any:
        """Anything else, in turn."""
        self._make_sure_there_is_room()
        return await self._finished(asyncio.get_running_loop().run_in_executor(self._thread, work, self.desk))

    def _make_sure_there_is_room(self) -> None:
        if self._waiting >= self.limits.waiting:
            raise BusyError

    async def _finished(self, work: asyncio.Future[Any]) -> Any:
        self._waiting += 1
        work.add_done_callback(self._done)
        try:
            # Shielded: whoever asked may have gone, but what was begun is finished.
            return await asyncio.wait_for(asyncio.shield(work), self.limits.seconds)
        except TimeoutError as error:
            raise SlowError from error

    def _done(self, work: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not work.cancelled():
            work.exception()  # seen, also where nobody waits for it any more

    async def _gather(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            questions = [await self._questions.get()]
            if self._waiting > 1:  # alone, there is nobody to wait for
                await asyncio.sleep(self.limits.gather_ms / 1000)
            while not self._questions.empty() and _rows(questions) < self.limits.together:
                questions.append(self._questions.get_nowait())
            rows = [one for question in questions for one in question.interactions]
            try:
                answers = await loop.run_in_executor(self._thread, self.desk.predict, rows)
            except Exception as error:  # whatever went wrong is the answer to all of them
                for question in questions:
                    _settle(question.answers, error=error)
                continue
            for question in questions:
                _settle(question.answers, answers[: len(question.interactions)])
                answers = answers[len(question.interactions) :]


def _rows(questions: list[_Question]) -> int:
    return sum(len(question.interactions) for question in questions)


def _settle(future: asyncio.Future[Any], result: Any = None, error: Exception | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
