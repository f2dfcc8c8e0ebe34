"""SecurityMiddleware: who may ask, from where, and what browsers may do with the answer; decided before a body is read.

- Where tokens are needed, everything but the page and the state of the process needs one; guessing is slowed down per
  address.
- Where none is needed, the server answers only under names that are its own: another site's name that leads here (DNS
  rebinding) is refused. An address in numbers cannot be taken over like that, so these are always answered.
- What changes something has to come from a page of this server, or from no page at all.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders

PAGE = Path(__file__).parent / "page"
PUBLIC = frozenset({"/", "/health", "/ready", *(f"/{file.name}" for file in PAGE.iterdir())})
READING = frozenset({"GET", "HEAD", "OPTIONS"})
CLOSED = "default-src 'none'; frame-ancestors 'none'"
_DOCUMENTS = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
)
POLICIES = {
    "/docs": f"{_DOCUMENTS}; frame-ancestors 'none'",
    "/redoc": f"{_DOCUMENTS}; worker-src blob:; frame-ancestors 'none'",
    # It was written by the training and is shown beside the queue: it may look as it likes, and do nothing.
    "/report": "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'",
}
GUESSES, SECONDS_PER_GUESS, MOST_ADDRESSES = 10.0, 2.0, 10_000


def security_headers(path: str) -> dict[str, str]:
    """What every answer carries, unless it has its own."""
    return {
        "Content-Security-Policy": POLICIES.get(path, CLOSED),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
    }


class Guesses:
    """How many wrong tokens an address may still send: some at once, then one every few seconds."""

    def __init__(self) -> None:
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # address → (guesses left, at this time)

    def left(self, address: str) -> float:
        left, at = self._left.get(address, (GUESSES, 0.0))
        return min(GUESSES, left + (time.monotonic() - at) / SECONDS_PER_GUESS)

    def count(self, address: str) -> None:
        self._left[address] = self.left(address) - 1, time.monotonic()
        self._left.move_to_end(address)
        while len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)


class SecurityMiddleware:
    """
    Args:
        is_known: whether a token lets its sender in, or None if that cannot be said yet; the empty one does where none
            is needed.
        hosts: names that the server answers under without tokens, beside localhost and addresses; None means any.
    """

    def __init__(
        self,
        app: Any,
        is_known: Callable[[str], bool | None] = lambda token: True,
        hosts: Collection[str] | None = None,
    ) -> None:
        self.app, self.is_known, self.guesses = app, is_known, Guesses()
        self.hosts = None if hosts is None else {"localhost", *(host.lower() for host in hosts)}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def secured(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in security_headers(scope["path"]).items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        await (refusal or self.app)(scope, receive, secured)

    def _refusal(self, scope: dict[str, Any], headers: Headers) -> JSONResponse | None:
        if "transfer-encoding" in headers and "content-length" in headers:
            return _refused(400, "A request has either a Content-Length or a Transfer-Encoding.")
        is_open = self.is_known("")
        if is_open is not False and self.hosts is not None and not self._is_ours(headers.get("host", "")):
            return _refused(400, "This server has another name. Start it with --allowed-host to answer under this one.")
        origin = headers.get("origin")
        is_from_elsewhere = origin is not None and not self._is_ours_too(origin, headers.get("host", ""))
        if scope["method"] not in READING and is_from_elsewhere:
            return _refused(403, "Only a page of this server may change something here.")
        if not is_open and scope["path"] not in PUBLIC:
            wrong = self._wrong_token((scope.get("client") or ("",))[0], headers.get("authorization", ""))
            if wrong is not None:
                return wrong
        return None

    def _wrong_token(self, address: str, given: str) -> JSONResponse | None:
        """The answer to a token that is missing or wrong; None if it is right."""
        if self.guesses.left(address) < 1:
            wait = {"Retry-After": str(int(SECONDS_PER_GUESS) + 1)}
            return _refused(429, "Too many wrong tokens came from this address. Wait a moment.", wait)
        kind, _, token = given.partition(" ")
        known = self.is_known(token.strip() if kind.lower() == "bearer" else "")
        if known:
            return None
        if known is None:
            return _refused(503, "The model is being loaded. Ask again in a moment.", {"Retry-After": "2"})
        if given:
            self.guesses.count(address)
        return _refused(401, "This server wants a bearer token.", {"WWW-Authenticate": "Bearer"})

    def _is_ours(self, host: str) -> bool:
        name = _name(f"//{host}")
        return name in (self.hosts or ()) or _is_address(name)

    def _is_ours_too(self, origin: str, host: str) -> bool:
        """Whether a page of this origin was served by this server; a proxy may have changed the name of the host."""
        is_same = origin.partition("//")[2].lower() == host.lower()
        return is_same or _name(origin) in (self.hosts or set()) - {"localhost"}


def _name(url: str) -> str:
    """Of the host, in lower case; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _refused(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """The body may not have been read, so the connection cannot be used again."""
    return JSONResponse({"detail": detail}, status, {"Connection": "close", **(headers or {})})
