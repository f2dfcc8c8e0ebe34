"""Worker: one thread that owns the service. Predictions requested within a few milliseconds are made together.

An encoder reads ten short texts in little more time than one, so gathering pays as soon as there are several clients.
All other work is done in the order of arrival. Work that was accepted is finished, also when the server stops.

The service is created in that thread as well: torch keeps a thread pool for every thread that ever ran a computation,
and the idle threads of one pool slow down the others, which doubles the time of a prediction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from saft.online.live import Interaction, Prediction
from saft.server.limits import Limits
from saft.server.service import ReviewService


class BusyError(Exception):
    """Too many requests are waiting."""


class SlowError(Exception):
    """A request took longer than it may."""


@dataclass
class _Question:
    interactions: Sequence[Interaction]
    predictions: asyncio.Future[list[Prediction]]


class Worker:
    service: ReviewService

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="saft")
        self._questions: asyncio.Queue[_Question] = asyncio.Queue()
        self._waiting = 0
        self._gatherer: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        return self._waiting

    async def start(self, load: Callable[[], ReviewService]) -> None:
        """Load the service in the worker's thread; returns once it is loaded."""
        self.service = await asyncio.get_running_loop().run_in_executor(self._thread, load)
        self._gatherer = asyncio.create_task(self._gather())

    async def stop(self) -> None:
        """Finish all work that was accepted, then stop."""
        while self._waiting:
            await asyncio.sleep(0.01)
        if self._gatherer is not None:
            self._gatherer.cancel()
        self._thread.shutdown(wait=True)

    async def predict(self, interactions: Sequence[Interaction]) -> list[Prediction]:
        """Predictions, computed together with those of other requests in the same few milliseconds."""
        self._make_sure_there_is_room()
        question = _Question(interactions, asyncio.get_running_loop().create_future())
        self._questions.put_nowait(question)
        return await self._finished(question.predictions, self.limits.seconds)

    async def do(self, work: Callable[[ReviewService], Any], patiently: bool = False) -> Any:
        """Run any other work on the service, in the order of arrival; ``patiently``: however long it takes."""
        self._make_sure_there_is_room()
        running = asyncio.get_running_loop().run_in_executor(self._thread, work, self.service)
        return await self._finished(running, None if patiently else self.limits.seconds)

    async def aside(self, work: Callable[[ReviewService], Any]) -> Any:
        """Run work that no request waits for."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self.service)

    async def change(self, load: Callable[[ReviewService], ReviewService]) -> None:
        """Go over to another service, which is loaded beside the present one, in a thread of its own.

        What came before is finished by the service before, which is closed then. If loading fails, it goes on.
        """
        loop, before, finishing = asyncio.get_running_loop(), self.service, self._thread
        following = ThreadPoolExecutor(1, thread_name_prefix="saft")
        try:
            service = await loop.run_in_executor(following, load, before)
        except BaseException:
            following.shutdown(wait=False)
            raise
        self.service, self._thread = service, following
        await loop.run_in_executor(None, finishing.shutdown)  # returns when its last work is done
        before.close()
        await self.aside(lambda service: service.refresh())  # what the last requests wrote

    def _make_sure_there_is_room(self) -> None:
        if self._waiting >= self.limits.waiting:
            raise BusyError

    async def _finished(self, work: asyncio.Future[Any], seconds: float | None) -> Any:
        self._waiting += 1
        work.add_done_callback(self._done)
        try:
            # Shielded: accepted work is finished even if the client has disconnected or the time is up.
            return await asyncio.wait_for(asyncio.shield(work), seconds)
        except TimeoutError as error:
            raise SlowError from error

    def _done(self, work: asyncio.Future[Any]) -> None:
        self._waiting -= 1
        if not work.cancelled():
            work.exception()  # retrieved here, because the client may have disconnected

    async def _gather(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            questions = [await self._questions.get()]
            if self._waiting > 1:  # a single request is not delayed
                await asyncio.sleep(self.limits.gather_ms / 1000)
            while not self._questions.empty() and _rows(questions) < self.limits.batch_size:
                questions.append(self._questions.get_nowait())
            rows = [one for question in questions for one in question.interactions]
            try:
                predictions = await loop.run_in_executor(self._thread, self.service.predict, rows)
            except Exception as error:  # it fails every request of the batch
                for question in questions:
                    _settle(question.predictions, error=error)
                continue
            for question in questions:
                _settle(question.predictions, predictions[: len(question.interactions)])
                predictions = predictions[len(question.interactions) :]


def _rows(questions: list[_Question]) -> int:
    return sum(len(question.interactions) for question in questions)


def _settle(future: asyncio.Future[Any], result: Any = None, error: Exception | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
