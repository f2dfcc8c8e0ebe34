"""Connections: not more than so many at once, none that is silent for long, and a log that cannot be flooded."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from saft.server.limits import Limits

LOGGERS = ("uvicorn.error", "asyncio")
LINES_PER_SECOND, BURST = 2.0, 50.0


def guarded_protocol(limits: Limits) -> type[H11Protocol]:
    """uvicorn's protocol with these limits."""
    return type("GuardedProtocol", (_Guarded,), {"most": limits.connections, "seconds": limits.header_seconds})


class _Guarded(H11Protocol):
    """Closes a connection whose request has not begun after some seconds: a half-sent one would hold it for ever."""

    most: int
    seconds: float
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._deadline = self.loop.call_later(self.seconds, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.seconds, self.transport.close)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._stop()  # uvicorn closes what is idle between requests

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class RateLimit(logging.Filter):
    """Lets some lines through at once, then a few per second; the next one says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._left, self._at, self._omitted = BURST, time.monotonic(), 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        self._left, self._at = min(BURST, self._left + (now - self._at) * LINES_PER_SECOND), now
        if self._left < 1:
            self._omitted += 1
            return False
        self._left -= 1
        if self._omitted:
            record.msg, record.args = f"{record.getMessage()} ({self._omitted:,} lines before it left out)", ()
            self._omitted = 0
        return True


def limit_logs() -> None:
    """One limit for all that a client can cause to be logged."""
    limit: Any = RateLimit()
    for name in LOGGERS:
        logging.getLogger(name).addFilter(limit)
