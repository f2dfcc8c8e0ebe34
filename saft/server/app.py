"""The ASGI application: routes, middleware, errors, authorisation, and the lifetime of the worker."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from fastapi_offline import FastAPIOffline

import saft
from saft.errors import InputError, did_you_mean
from saft.server import routes
from saft.server.limits import Limits
from saft.server.middleware import LimitsMiddleware, Metrics
from saft.server.security import SecurityMiddleware, security_headers
from saft.server.service import ReviewService, UnknownKeyError
from saft.server.worker import BusyError, SlowError, Worker

_bearer = HTTPBearer(auto_error=False, description="The token that the server was started with.")


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
        if app.state.worker is not None:
            await app.state.worker.stop()
            app.state.worker.service.close()

    app: FastAPI = FastAPIOffline(
        title="saft",
        version=saft.__version__,
        summary="Labels for interactions: this user did this with that item, in these words.",
        lifespan=lifespan,
    )
    app.state.worker, app.state.limits, app.state.report = None, limits, report
    app.state.metrics = Metrics(lambda: app.state.worker)
    app.add_middleware(SecurityMiddleware, token=token, hosts=hosts)
    app.add_middleware(LimitsMiddleware, limits=limits, metrics=app.state.metrics)
    _add_errors(app)
    app.include_router(routes.public)
    documented = [] if token is None else [Depends(_bearer)]  # SecurityMiddleware has checked it
    app.include_router(routes.guarded, dependencies=[Depends(_is_plain), *documented])
    return app


async def _load(
    app: FastAPI, load: Callable[[], ReviewService], limits: Limits, on_load_error: Callable[[Exception], None]
) -> None:
    worker = Worker(limits)
    try:
        await worker.start(load)
    except Exception as error:
        on_load_error(error)
        return
    app.state.worker = worker


async def _is_plain(request: Request) -> None:
    """A body says that it is JSON: what a browser sends to other sites without asking there says something else.

    And parameters are known ones: a misspelt filter would filter nothing.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and kind != "application/json":
        raise HTTPException(422, "The body has to be JSON, and the request to say so: Content-Type: application/json.")
    known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise HTTPException(422, f"There is no parameter {name[:100]!r} here.{did_you_mean(name, known)}")


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

    @app.exception_handler(UnknownKeyError)
    async def _unknown(request: Request, error: UnknownKeyError) -> JSONResponse:
        return answer(404, str(error))

    @app.exception_handler(InputError)
    async def _refused(request: Request, error: InputError) -> JSONResponse:
        return answer(422, str(error))

    @app.exception_handler(BusyError)
    async def _busy(request: Request, error: BusyError) -> JSONResponse:
        return answer(429, "Too many requests are waiting. Ask again in a moment.", {"Retry-After": "1"})

    @app.exception_handler(SlowError)
    async def _slow(request: Request, error: SlowError) -> JSONResponse:
        return answer(503, "This took longer than the server allows.", {"Retry-After": "5"})
