"""The REST routes. Each checks its request and hands the work to the worker, which owns the model and the store.

To add one: a function under ``guarded`` (or ``public``, if it needs no token), its request and response in ``schemas``,
and what it does in ``service``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, BackgroundTasks, Depends, HTTPException, Query, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse

from saft.errors import InputError
from saft.server import schemas
from saft.server.limits import Limits
from saft.server.middleware import Metrics
from saft.server.service import ReviewService, model_facts
from saft.server.store import Filter
from saft.server.worker import Worker

PAGE = Path(__file__).parent / "page"
MOST_ON_A_PAGE = 200
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": schemas.Problem, "description": "The request is not text in UTF-8."},
    401: {"model": schemas.Problem, "description": "The token is missing or wrong."},
    413: {"model": schemas.Problem, "description": "The request is too large."},
    422: {"model": schemas.Problem, "description": "The request makes no sense; the detail says why."},
    429: {"model": schemas.Problem, "description": "Too many requests are waiting."},
    503: {"model": schemas.Problem, "description": "The model is not loaded yet, or it took too long."},
}
UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": schemas.Problem, "description": "No such interaction."}}

public = APIRouter()
guarded = APIRouter()


async def _worker(request: Request) -> Worker:
    worker: Worker | None = request.app.state.worker
    if worker is None:
        raise HTTPException(503, "The model is being loaded. Ask again in a moment.", {"Retry-After": "2"})
    return worker


async def _limits(request: Request) -> Limits:
    limits: Limits = request.app.state.limits
    return limits


async def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


AWorker = Annotated[Worker, Depends(_worker)]
TheLimits = Annotated[Limits, Depends(_limits)]
TheMetrics = Annotated[Metrics, Depends(_metrics)]


@public.get("/health", tags=["operations"])
async def health() -> schemas.Status:
    """The process is alive."""
    return schemas.Status(status="alive")


@public.get("/ready", tags=["operations"], responses={503: PROBLEMS[503]})
async def ready(worker: AWorker) -> schemas.Status:
    """The model is loaded."""
    return schemas.Status(status="ready")


def _page_file(name: str, kind: str) -> Callable[[], Any]:
    async def send() -> FileResponse:
        policy = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"
        return FileResponse(PAGE / name, media_type=kind, headers={"Content-Security-Policy": policy})

    return send


for _path, _name, _kind in (
    ("/", "index.html", "text/html"),
    ("/page.css", "page.css", "text/css"),
    ("/page.js", "page.js", "text/javascript"),
):
    public.get(_path, include_in_schema=False)(_page_file(_name, _kind))


@guarded.post("/predict", tags=["predictions"], responses=PROBLEMS)
async def predict(
    given: schemas.PredictRequest, worker: AWorker, limits: TheLimits, metrics: TheMetrics
) -> schemas.Predictions:
    """Labels of interactions that need not be stored. Users and items may be new.

    Each is predicted by itself: interactions of one request are not neighbours of each other.
    """
    _check(given.interactions, limits)
    found = await worker.predict([one.as_interaction() for one in given.interactions])
    metrics.count_predictions(found)
    return schemas.Predictions(predictions=[schemas.Prediction.of(one, worker.service.classes) for one in found])


@guarded.post("/explain", tags=["predictions"], responses=PROBLEMS)
async def explain_new(given: schemas.InteractionIn, worker: AWorker, limits: TheLimits) -> schemas.Explained:
    """Why an interaction that is not stored would be predicted as it is."""
    _check([given], limits)
    return await worker.do(lambda service: schemas.Explained.of(service.explain(given.as_interaction()), service))


@guarded.get("/explain/{id}", tags=["predictions"], responses=PROBLEMS | UNKNOWN)
async def explain(id: schemas.Key, worker: AWorker) -> schemas.Explained:  # noqa: A002
    """Which words, neighbours and features moved the prediction: each is removed, and the prediction made again."""
    return await worker.do(lambda service: schemas.Explained.of(service.explain(id), service))


@guarded.post("/interactions", tags=["interactions"], status_code=201, responses=PROBLEMS)
async def add(given: schemas.AddRequest, worker: AWorker, limits: TheLimits) -> schemas.Ids:
    """Store interactions. On response they are on disk, and neighbours of everything predicted afterwards."""
    _check(given.interactions, limits)
    rows = [one.as_interaction(one.label) for one in given.interactions]
    return schemas.Ids(ids=await worker.do(lambda service: service.add(rows)))


@guarded.get("/interactions", tags=["interactions"], responses=PROBLEMS)
async def page(
    worker: AWorker,
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

    def work(service: ReviewService) -> schemas.Page:
        found, following = service.page(wanted, order, limit, after)
        total = service.store.count(wanted)
        return schemas.Page(interactions=[schemas.ReviewItem.of(one) for one in found], next=following, total=total)

    return await worker.do(work)


@guarded.get("/interactions/{id}", tags=["interactions"], responses=PROBLEMS | UNKNOWN)
async def one(id: schemas.Key, worker: AWorker) -> schemas.ReviewItem:  # noqa: A002
    """One interaction, stored or from the training table."""
    return await worker.do(lambda service: schemas.ReviewItem.of(service.find(id)))


@guarded.get("/neighbours/{id}", tags=["interactions"], responses=PROBLEMS | UNKNOWN)
async def neighbours(
    id: schemas.Key,  # noqa: A002
    worker: AWorker,
    limit: Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)] = 20,
) -> schemas.Neighbours:
    """What else its user wrote, and what others wrote about its item."""

    def work(service: ReviewService) -> schemas.Neighbours:
        found = service.neighbours(id, limit)
        by_user, by_item = ([schemas.ReviewItem.of(near) for near in found[side]] for side in ("user", "item"))
        item = schemas.ReviewItem.of(service.find(id))
        return schemas.Neighbours(interaction=item, by_user=by_user, by_item=by_item)

    return await worker.do(work)


@guarded.post("/labels", tags=["interactions"], responses=PROBLEMS | UNKNOWN)
async def label(given: schemas.LabelRequest, worker: AWorker, later: BackgroundTasks) -> schemas.ReviewItem:
    """A reviewer's verdict, visible to its neighbours from now on; null takes it back."""

    def work(service: ReviewService) -> tuple[schemas.ReviewItem, list[str]]:
        around = service.add_verdict(given.id, None if given.label is None else str(given.label), given.reviewer)
        return schemas.ReviewItem.of(service.find(given.id)), around

    item, around = await worker.do(work)
    later.add_task(worker.do, lambda service: service.predict_again(around))
    return item


@guarded.get("/model", tags=["operations"], responses=PROBLEMS)
async def model(worker: AWorker) -> schemas.Model:
    """The model that is served, and its scores on the validation rows."""

    def work(service: ReviewService) -> schemas.Model:
        store = service.store
        waiting, reviewed = store.count(Filter(labelled=False)), store.count(Filter(reviewed=True))
        facts = model_facts(service.live.classifier)
        return schemas.Model(suspicious=service.suspicious, stored=len(store), open=waiting, reviewed=reviewed, **facts)

    return await worker.do(work)


@guarded.get("/report", include_in_schema=False)
async def report_page(request: Request) -> Response:
    report: Path | None = request.app.state.report
    if report is None or not report.is_file():
        raise HTTPException(404, "This model has no report.")
    return FileResponse(report, media_type="text/html")


@guarded.get("/metrics", tags=["operations"], responses={401: PROBLEMS[401]}, response_class=PlainTextResponse)
async def metrics_page(metrics: TheMetrics) -> Response:
    """Figures for Prometheus."""
    text, kind = metrics.text()
    return Response(text, media_type=kind)


def _check(rows: list[Any], limits: Limits) -> None:
    if len(rows) > limits.rows:
        raise InputError(f"At most {limits.rows:,} interactions in one request; got {len(rows):,}.")
    for place, row in enumerate(rows):
        if len(row.text) > limits.text_length:
            raise InputError(
                f"interactions → {place} → text: at most {limits.text_length:,} characters; got {len(row.text):,}."
            )
