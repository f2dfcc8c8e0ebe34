"""Access: who a request comes from, and whether they may do what the route does."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from saft.server.team import Caller
from saft.server.worker import Worker

_bearer = HTTPBearer(auto_error=False, description="The server's token, or that of a reviewer.")
_Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


async def worker_of(request: Request) -> Worker:
    worker: Worker | None = request.app.state.worker
    if worker is None:
        raise HTTPException(503, "The model is being loaded. Ask again in a moment.", {"Retry-After": "2"})
    return worker


def needs(role: str) -> Callable[..., Awaitable[Caller]]:
    """A dependency of a route that only callers with this role, or one above it, may use."""

    async def check(request: Request, given: _Given) -> Caller:
        caller = await _caller(request, "" if given is None else given.credentials)
        if not caller.may(role):
            raise HTTPException(403, f"This needs the role {role!r}; {caller.name} has the role {caller.role!r}.")
        return caller

    return check


async def _caller(request: Request, given: str) -> Caller:
    token: str | None = request.app.state.token
    if token is not None and hmac.compare_digest(given.encode(), token.encode()):
        return Caller()
    team = (await worker_of(request)).service.team
    if not team.exists and token is None:
        return Caller()
    caller = team.caller(given)
    if caller is None:
        raise HTTPException(401, "This server wants a bearer token.", {"WWW-Authenticate": "Bearer"})
    return caller


Reads = Annotated[Caller, Depends(needs("read"))]
Reviewer = Annotated[Caller, Depends(needs("review"))]
Administrator = Annotated[Caller, Depends(needs("administer"))]
AWorker = Annotated[Worker, Depends(worker_of)]
