"""The ASGI application: routes, middleware, errors, authorisation, and the lifetime of the worker."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi_offline import FastAPIOffline
from sqlalchemy.exc import OperationalError

import saft
from saft.errors import InputError
from saft.server import review_routes, routes, team_routes
from saft.server.access import is_known, says_what_it_is
from saft.server.claims import ClaimedError
from saft.server.limits import Limits
from saft.server.loading import ServiceLoader
from saft.server.middleware import LimitsMiddleware, Metrics
from saft.server.mirror import UnknownKeyError
from saft.server.reloading import Reloader
from saft.server.security import SecurityMiddleware, security_headers
from saft.server.service import ReviewService
from saft.server.team import NotAllowedError
from saft.server.worker import BusyError, SlowError, Worker

ROUTERS = (routes.router, review_routes.router, team_routes.router)
REFRESH_SECONDS = 0.5  # so often a server looks for what others have written
UNUSABLE = "The database cannot be used: %s"
_log = logging.getLogger(__name__)


def create_app(
    load: Callable[[], ReviewService],
    limits: Limits | None = None,
    token: str | None = None,
    report: Path | None = None,
    on_load_error: Callable[[Exception], None] = lambda error: None,
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """
    Args:
        load: creates the service; called in the worker's thread once the server listens.
        token: bearer token that clients have to send; None means that no token is needed.
        report: the model's report page.
        on_load_error: called with the exception if ``load`` fails.
        hosts: names that the server answers under, see :class:`~saft.server.security.SecurityMiddleware`.
    """
    limits = limits or Limits()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loading = asyncio.create_task(_load(app, load, limits, on_load_error))
        yield
        loading.cancel()
        with suppress(asyncio.CancelledError):
            await loading
        if app.state.worker is not None:
            await app.state.worker.stop()
            app.state.worker.service.close()

    app: FastAPI = FastAPIOffline(
        title="saft",
        version=saft.__version__,
        summary="Labels for interactions: this user did this with that item, in these words.",
        lifespan=lifespan,
    )
    app.state.worker, app.state.limits, app.state.report, app.state.token = None, limits, report, token
    app.state.reloader = Reloader(load) if isinstance(load, ServiceLoader) else None
    app.state.metrics = Metrics(lambda: app.state.worker)
    app.add_middleware(SecurityMiddleware, is_known=partial(is_known, app.state), hosts=hosts)
    app.add_middleware(
        LimitsMiddleware, limits=limits, metrics=app.state.metrics,
        paths={review_routes.UPLOAD: limits.upload_kb * 1024},
    )  # fmt: skip
    _add_errors(app)
    app.openapi = partial(_described, app)  # type: ignore[method-assign]
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(says_what_it_is)])
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, in which tokens are named if they are asked for."""
    described = FastAPI.openapi(app)
    worker: Worker | None = app.state.worker
    if app.state.token is not None or (worker is not None and worker.service.team.exists):
        return described
    paths = {
        path: {
            method: {name: said for name, said in about.items() if name != "security"} for method, about in ways.items()
        }
        for path, ways in described["paths"].items()
    }
    return described | {"paths": paths}


async def _load(
    app: FastAPI, load: Callable[[], ReviewService], limits: Limits, on_load_error: Callable[[Exception], None]
) -> None:
    """Load the service, then keep it up to date with what others write to its database."""
    worker = Worker(limits)
    try:
        await worker.start(load)
    except Exception as error:
        on_load_error(error)
        return
    app.state.worker = worker
    async with asyncio.TaskGroup() as tasks:
        if app.state.reloader is not None:
            tasks.create_task(app.state.reloader.watch(worker))
        tasks.create_task(_keep_up(worker))


async def _keep_up(worker: Worker) -> None:
    """Again and again take over what others have written to the database."""
    usable = True
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        try:
            await worker.aside(lambda service: service.refresh())
            usable = True
        except OperationalError as error:  # requests that need the database fail meanwhile, and say so
            if usable:
                _log.error(UNUSABLE, error.orig)
            usable = False
        except Exception:
            _log.exception("What others have stored could not be taken over")


def _place(loc: tuple[Any, ...]) -> str:
    """Where in a request something is wrong, without the names that checks have inside of the server."""
    inside = re.compile(
        r"body|query|path|(function|constrained|lax|nullable|literal)-?.*|str|bool|int|float|.*[\[(<].*"
    )
    return " → ".join(str(part) for part in loc if not inside.fullmatch(str(part)))


def _add_errors(app: FastAPI) -> None:
    def answer(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"detail": detail}, status, headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = _place(first["loc"])
        more = f" ({len(error.errors()) - 1} more problems)" if len(error.errors()) > 1 else ""
        return answer(422, f"{where or 'body'}: {first['msg']}{more}")

    @app.exception_handler(Exception)
    async def _failed(request: Request, error: Exception) -> JSONResponse:
        # Answered outside of the middleware, so the headers are given here.
        headers = security_headers(request.url.path)
        return answer(500, "Something went wrong in the server. Its log says what.", headers)

    def refusing(status: int) -> Callable[[Request, Exception], Awaitable[JSONResponse]]:
        async def refuse(request: Request, error: Exception) -> JSONResponse:
            return answer(status, str(error))

        return refuse

    for kind, status in ((UnknownKeyError, 404), (ClaimedError, 409), (NotAllowedError, 403), (InputError, 422)):
        app.add_exception_handler(kind, refusing(status))

    @app.exception_handler(OperationalError)
    async def _unusable(request: Request, error: OperationalError) -> JSONResponse:
        _log.error(UNUSABLE, error.orig)
        return answer(503, "The database cannot be used at the moment. Ask again soon.", {"Retry-After": "5"})

    @app.exception_handler(BusyError)
    async def _busy(request: Request, error: BusyError) -> JSONResponse:
        return answer(429, "Too many requests are waiting. Ask again in a moment.", {"Retry-After": "1"})

    @app.exception_handler(SlowError)
    async def _slow(request: Request, error: SlowError) -> JSONResponse:
        return answer(503, "This took longer than the server allows.", {"Retry-After": "5"})
