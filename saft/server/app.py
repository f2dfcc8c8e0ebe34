"""The HTTP interface: routes, errors, authorisation. Every route hands its work to the one worker."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

import saft
from saft.errors import InputError
from saft.server import schemas
from saft.server.limits import Limits
from saft.server.middleware import Gate, Metrics
from saft.server.service import Desk, UnknownKeyError, described
from saft.server.store import Filter
from saft.server.worker import BusyError, SlowError, Worker

PAGE = Path(__file__).parent / "page"
MOST_ON_A_PAGE = 200
_bearer = HTTPBearer(auto_error=False, description="The token that the server was started with.")
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": schemas.Problem, "description": "The request is not text in UTF-8."},
    401: {"model": schemas.Problem, "description": "The token is missing or wrong."},
    413: {"model": schemas.Problem, "description": "The request is too large."},
    422: {"model": schemas.Problem, "description": "The request makes no sense; the detail says why."},
    429: {"model": schemas.Problem, "description": "Too many requests are waiting."},
    503: {"model": schemas.Problem, "description": "The model is not loaded yet, or it took too long."},
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": schemas.Problem, "description": "No such interaction."}}


def create_app(
    load: Callable[[], Desk],
    limits: Limits | None = None,
    token: str | None = None,
    report: Path | None = None,
    failed: Callable[[Exception], None] = lambda error: None,
) -> FastAPI:
    """
    Args:
        load: makes the desk; called in the worker's thread once the server listens.
        failed: hears why that did not work.
        token: what clients have to send as a bearer token; None asks for nothing.
        report: the model's report page.
    """
    limits = limits or Limits()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.worker = None
        loading = asyncio.create_task(_load(app, load, limits, failed))
        yield
        loading.cancel()
        if app.state.worker is not None:
            await app.state.worker.stop()
            app.state.worker.desk.close()

    app = FastAPI(
        title="saft",
        version=saft.__version__,
        summary="Labels for interactions: this user did this with that item, in these words.",
        lifespan=lifespan,
    )
    app.state.metrics = Metrics(lambda: app.state.worker)
    app.add_middleware(Gate, most_bytes=limits.body_kb * 1024, metrics=app.state.metrics)
    _add_errors(app)
    _add_public_routes(app)
    guarded = [] if token is None else [Depends(_guard(token))]
    _add_predictions(app, limits, guarded)
    _add_interactions(app, limits, guarded)
    _add_model(app, report, guarded)
    return app


async def _load(app: FastAPI, load: Callable[[], Desk], limits: Limits, failed: Callable[[Exception], None]) -> None:
    worker = Worker(limits)
    try:
        await worker.start(load)
    except Exception as error:
        failed(error)
        return
    app.state.worker = worker


def _guard(token: str) -> Callable[..., Awaitable[None]]:
    async def check(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
        if given is None or not hmac.compare_digest(given.credentials.encode(), token.encode()):
            raise HTTPException(401, "This server wants a bearer token.", {"WWW-Authenticate": "Bearer"})

    return check


async def _worker(request: Request) -> Worker:
    worker: Worker | None = request.app.state.worker
    if worker is None:
        raise HTTPException(503, "The model is being loaded. Ask again in a moment.", {"Retry-After": "2"})
    return worker


At = Annotated[Worker, Depends(_worker)]


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


def _add_public_routes(app: FastAPI) -> None:
    @app.get("/health", tags=["operations"])
    async def health() -> schemas.Status:
        """The process is alive."""
        return schemas.Status(status="alive")

    @app.get("/ready", tags=["operations"], responses={503: _PROBLEMS[503]})
    async def ready(worker: At) -> schemas.Status:
        """The model is loaded and answers."""
        return schemas.Status(status="ready")

    def file(name: str, kind: str) -> Callable[[], Any]:
        async def send() -> FileResponse:
            policy = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"
            return FileResponse(PAGE / name, media_type=kind, headers={"Content-Security-Policy": policy})

        return send

    for path, name, kind in (
        ("/", "index.html", "text/html"),
        ("/page.css", "page.css", "text/css"),
        ("/page.js", "page.js", "text/javascript"),
    ):
        app.get(path, include_in_schema=False)(file(name, kind))


def _check(rows: list[Any], limits: Limits) -> None:
    if len(rows) > limits.rows:
        raise InputError(f"At most {limits.rows:,} interactions in one request; got {len(rows):,}.")
    for place, row in enumerate(rows):
        if len(row.text) > limits.text_length:
            raise InputError(
                f"interactions → {place} → text: at most {limits.text_length:,} characters; got {len(row.text):,}."
            )


def _add_predictions(app: FastAPI, limits: Limits, guarded: list[Any]) -> None:
    @app.post("/predict", tags=["predictions"], responses=_PROBLEMS, dependencies=guarded)
    async def predict(asked: schemas.PredictRequest, worker: At) -> schemas.Predictions:
        """Labels of interactions that need not be stored. Users and items may be new.

        Each is judged by itself: interactions of one request are not neighbours to each other.
        """
        _check(asked.interactions, limits)
        answers = await worker.predict([one.as_interaction() for one in asked.interactions])
        app.state.metrics.predicted(answers)
        return schemas.Predictions(predictions=[schemas.Prediction.of(one, worker.desk.classes) for one in answers])

    @app.post("/explain", tags=["predictions"], responses=_PROBLEMS, dependencies=guarded)
    async def explain_new(asked: schemas.Asked, worker: At) -> schemas.Explained:
        """Why an interaction that is not stored would be judged as it is."""
        _check([asked], limits)
        return await worker.do(lambda desk: schemas.Explained.of(desk.explain(asked.as_interaction()), desk))

    @app.get("/explain/{id}", tags=["predictions"], responses=_PROBLEMS | _UNKNOWN, dependencies=guarded)
    async def explain(id: schemas.Key, worker: At) -> schemas.Explained:  # noqa: A002
        """Which words, neighbours and features moved the prediction: each is taken away, and the model asked again."""
        return await worker.do(lambda desk: schemas.Explained.of(desk.explain(id), desk))


def _add_interactions(app: FastAPI, limits: Limits, guarded: list[Any]) -> None:
    @app.post("/interactions", tags=["interactions"], status_code=201, responses=_PROBLEMS, dependencies=guarded)
    async def add(given: schemas.AddRequest, worker: At) -> schemas.Ids:
        """Keep interactions. Once this is answered they are on disk, and neighbours to whatever is asked next."""
        _check(given.interactions, limits)
        rows = [one.as_interaction(one.label) for one in given.interactions]
        return schemas.Ids(ids=await worker.do(lambda desk: desk.add(rows)))

    @app.get("/interactions", tags=["interactions"], responses=_PROBLEMS, dependencies=guarded)
    async def page(
        worker: At,
        order: Literal["suspicious", "uncertain", "newest", "oldest"] = "suspicious",
        limit: Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)] = 50,
        after: Annotated[str | None, Query(description="`next` of the page before.", max_length=60)] = None,
        user: str | None = None,
        item: str | None = None,
        label: str | None = None,
        predicted: str | None = None,
        reviewed: bool | None = None,
        labelled: bool | None = None,
    ) -> schemas.Page:
        """Stored interactions, and rows of training without a label: the queue."""
        wanted = Filter(user, item, label, predicted, reviewed, labelled)

        def work(desk: Desk) -> schemas.Page:
            found, following = desk.page(wanted, order, limit, after)
            total = desk.store.count(wanted)
            return schemas.Page(interactions=[schemas.Kept.of(one) for one in found], next=following, total=total)

        return await worker.do(work)

    @app.get("/interactions/{id}", tags=["interactions"], responses=_PROBLEMS | _UNKNOWN, dependencies=guarded)
    async def one(id: schemas.Key, worker: At) -> schemas.Kept:  # noqa: A002
        """One interaction, stored or of training."""
        return await worker.do(lambda desk: schemas.Kept.of(desk.find(id)))

    @app.get("/neighbours/{id}", tags=["interactions"], responses=_PROBLEMS | _UNKNOWN, dependencies=guarded)
    async def neighbours(
        id: schemas.Key,  # noqa: A002
        worker: At,
        limit: Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)] = 20,
    ) -> schemas.Neighbours:
        """What else its user wrote, and what others wrote about its item."""

        def work(desk: Desk) -> schemas.Neighbours:
            found = {side: [schemas.Near.of(one) for one in rows] for side, rows in desk.neighbours(id, limit).items()}
            kept = schemas.Kept.of(desk.find(id))
            return schemas.Neighbours(interaction=kept, by_user=found["user"], by_item=found["item"])

        return await worker.do(work)

    @app.post("/labels", tags=["interactions"], responses=_PROBLEMS | _UNKNOWN, dependencies=guarded)
    async def label(given: schemas.LabelRequest, worker: At, later: BackgroundTasks) -> schemas.Kept:
        """A reviewer's verdict, seen by its neighbours from now on; null takes it back."""

        def work(desk: Desk) -> tuple[schemas.Kept, list[str]]:
            around = desk.decide(given.id, None if given.label is None else str(given.label), given.reviewer)
            return schemas.Kept.of(desk.find(given.id)), around

        kept, around = await worker.do(work)
        later.add_task(worker.do, lambda desk: desk.judge_again(around))
        return kept


def _add_model(app: FastAPI, report: Path | None, guarded: list[Any]) -> None:
    @app.get("/model", tags=["operations"], responses=_PROBLEMS, dependencies=guarded)
    async def model(worker: At) -> schemas.Model:
        """What is being served, and how good it was on its validation part."""

        def work(desk: Desk) -> schemas.Model:
            stored = len(desk.store)
            waiting, reviewed = desk.store.count(Filter(labelled=False)), desk.store.count(Filter(reviewed=True))
            facts = described(desk.live.classifier)
            return schemas.Model(suspicious=desk.suspicious, stored=stored, open=waiting, reviewed=reviewed, **facts)

        return await worker.do(work)

    @app.get("/report", include_in_schema=False, dependencies=guarded)
    async def report_page() -> Response:
        if report is None or not report.is_file():
            raise HTTPException(404, "This model has no report.")
        return FileResponse(report, media_type="text/html")

    @app.get(
        "/metrics",
        tags=["operations"],
        responses={401: _PROBLEMS[401]},
        response_class=PlainTextResponse,
        dependencies=guarded,
    )
    async def metrics() -> Response:
        """For Prometheus."""
        text, kind = app.state.metrics.text()
        return Response(text, media_type=kind)
