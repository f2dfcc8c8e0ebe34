"""Access: who a request comes from, whether they may do what the route does, and whether it says what it is."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from saft.errors import did_you_mean
from saft.server.security import PUBLIC
from saft.server.team import Caller, Team
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
    state = request.app.state
    if _is_of_the_server(state, given):
        return Caller()
    caller = _caller_of(state.token, (await worker_of(request)).service.team, given)
    if caller is None:
        raise HTTPException(401, "This server wants a bearer token.", {"WWW-Authenticate": "Bearer"})
    return caller


def is_known(state: Any, given: str) -> bool | None:
    """As :class:`~saft.server.security.SecurityMiddleware` asks, before the body of a request is read.

    None while the model is being loaded: who the reviewers are is not known yet.
    """
    if _is_of_the_server(state, given):
        return True
    if state.worker is None:
        return None if given or state.token is None else False
    return _caller_of(state.token, state.worker.service.team, given) is not None


def _is_of_the_server(state: Any, given: str) -> bool:
    return state.token is not None and hmac.compare_digest(given.encode(), state.token.encode())


def _caller_of(token: str | None, team: Team, given: str) -> Caller | None:
    """Who sends what is not the server's token; None if nobody whom it knows."""
    return Caller() if token is None and not team.exists else team.caller(given)


async def says_what_it_is(request: Request) -> None:
    """A body names its kind, and that is one which no page can send to another site without asking.

    Parameters are known ones: a misspelt filter would filter nothing.
    """
    route = request.scope["route"]
    if request.url.path in PUBLIC or not route.include_in_schema:
        return
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    described = (route.openapi_extra or {}).get("requestBody", {}).get("content", {})
    wanted = [*described] or (["application/json"] if route.body_field else [])
    if wanted and kind not in wanted:
        raise HTTPException(422, f"The request has to say what its body is: Content-Type: {' or '.join(wanted)}.")
    known = [parameter.alias for parameter in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise HTTPException(422, f"There is no parameter {name[:100]!r} here.{did_you_mean(name, known)}")


Reads = Annotated[Caller, Depends(needs("read"))]
Reviewer = Annotated[Caller, Depends(needs("review"))]
Administrator = Annotated[Caller, Depends(needs("administer"))]
AWorker = Annotated[Worker, Depends(worker_of)]
