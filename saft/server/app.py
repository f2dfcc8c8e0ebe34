"""The ASGI application: routes, middleware, errors, authorisation, and the lifetime of the worker."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

import saft
from saft.errors import InputError
from saft.server import routes
from saft.server.limits import Limits
from saft.server.middleware import LimitsMiddleware, Metrics
from saft.server.service import ReviewService, UnknownKeyError
from saft.server.worker import BusyError, SlowError, Worker

_bearer = HTTPBearer(auto_error=False, description="The token that the server was started with.")


def create_app(
    load: Callable[[], ReviewService],
    limits: Limits | None = None,
    token: str | None = None,
    report: Path | None = None,
    on_load_error: Callable[[Exception], None] = lambda error: None,
) -> FastAPI:
    """
    Args:
        load: creates the service; called in the worker's thread once the server listens.
        token: bearer token that clients have to send; None means that no token is needed.
        report: the model's report page.
        on_load_error: called with the exception if ``load`` fails.
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

    app = FastAPI(
        title="saft",
        version=saft.__version__,
        summary="Labels for interactions: this user did this with that item, in these words.",
        lifespan=lifespan,
    )
    app.state.worker, app.state.limits, app.state.report = None, limits, report
    app.state.metrics = Metrics(lambda: app.state.worker)
    app.add_middleware(LimitsMiddleware, most_bytes=limits.body_kb * 1024, metrics=app.state.metrics)
    _add_errors(app)
    app.include_router(routes.public)
    app.include_router(routes.guarded, dependencies=[] if token is None else [Depends(_guard(token))])
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


def _guard(token: str) -> Callable[..., Awaitable[None]]:
    async def check(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
        if given is None or not hmac.compare_digest(given.credentials.encode(), token.encode()):
            raise HTTPException(401, "This server wants a bearer token.", {"WWW-Authenticate": "Bearer"})

    return check


def _add_errors(app: FastAPI) -> None:
    def answer(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"detail": detail}, status, headers)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = " → ".join(str(part) for part in first["loc"] if part != "body")
        more = f" ({len(error.errors()) - 1} more problems)" if len(error.errors()) > 1 else ""
        return answer(422, f"{where or 'body'}: {first['msg']}{more}")

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
