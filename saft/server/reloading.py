"""Reloader: goes over to another model when there is one, without dropping a request.

The new model is loaded beside the old one, in a thread of its own, and takes over what is stored in small transactions.
Requests that came before it is ready are finished by the old one, all others by the new one.
"""

from __future__ import annotations

import asyncio
import logging

from saft.server import audit
from saft.server.loading import ServiceLoader
from saft.server.service import ANYBODY, ReviewService
from saft.server.team import Caller
from saft.server.worker import Worker

WATCH_SECONDS = 1.0  # so often the folder is looked at
_log = logging.getLogger(__name__)


class Reloader:
    def __init__(self, load: ServiceLoader) -> None:
        self.load = load
        self._asked = False
        self._one_at_a_time = asyncio.Lock()

    def ask(self) -> None:
        """Have the folder read soon, whether it seems to have changed or not; for handlers of signals."""
        self._asked = True

    async def watch(self, worker: Worker) -> None:
        """Look at the folder again and again; a model that cannot be loaded is reported once, and the old one stays."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if self.load.is_changed() or self._asked:
                self._asked = False
                try:
                    await self.reload(worker)
                except Exception as error:
                    _log.error("The new model cannot be served, the old one stays: %s", error)

    async def reload(self, worker: Worker, by: Caller = ANYBODY) -> bool:
        """Serve the model that is in the folder; returns whether it is another one than before."""
        async with self._one_at_a_time:
            if self.load.fingerprint() in (None, worker.service.fingerprint):
                return False
            await worker.change(self.load.instead_of)

            def record(service: ReviewService) -> None:
                with service.database.writing() as connection:
                    audit.record(connection, by.name, "model changed", fingerprint=service.fingerprint)

            await worker.aside(record)
            _log.warning("The new model in %s is served.", self.load.model)
            return True
