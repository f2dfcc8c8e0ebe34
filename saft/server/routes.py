"""The REST routes around the model. Each checks its request and hands the work to the worker, which owns the model and
the store.

To add one: a function whose argument ``by`` says which role it needs (without it, it is open to everybody), its request
and response in ``schemas``, and what it does in ``service``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse

from saft.errors import InputError
from saft.server import schemas
from saft.server.access import Administrator, AWorker, Reads
from saft.server.limits import Limits
from saft.server.middleware import Metrics
from saft.server.queue import Filter
from saft.server.reloading import Reloader
from saft.server.security import PAGE
from saft.server.service import ReviewService, model_facts

KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": schemas.Problem, "description": "The request is not text in UTF-8."},
    401: {"model": schemas.Problem, "description": "The token is missing or wrong."},
    403: {"model": schemas.Problem, "description": "The role of this token is not enough."},
    413: {"model": schemas.Problem, "description": "The request is too large."},
    422: {"model": schemas.Problem, "description": "The request makes no sense; the detail says why."},
    429: {"model": schemas.Problem, "description": "Too many requests are waiting."},
    503: {"model": schemas.Problem, "description": "The model is not loaded yet, or it took too long."},
}
CLAIMED: dict[int | str, dict[str, Any]] = {
    409: {"model": schemas.Problem, "description": "Somebody else is reviewing it."}
}
UNKNOWN: dict[int | str, dict[str, Any]] = {404: {"model": schemas.Problem, "description": "No such interaction."}}

router = APIRouter()


async def _limits(request: Request) -> Limits:
    limits: Limits = request.app.state.limits
    return limits


async def _metrics(request: Request) -> Metrics:
    metrics: Metrics = request.app.state.metrics
    return metrics


TheLimits = Annotated[Limits, Depends(_limits)]
TheMetrics = Annotated[Metrics, Depends(_metrics)]


@router.get("/health", tags=["operations"])
async def health() -> schemas.Status:
    """The process is alive."""
    return schemas.Status(status="alive")


@router.get("/ready", tags=["operations"], responses={503: PROBLEMS[503]})
async def ready(worker: AWorker) -> schemas.Status:
    """The model is loaded."""
    return schemas.Status(status="ready")


def _page_file(file: Path) -> Callable[[], Any]:
    # A page of one version with modules of another one would break, so browsers have to ask whether they changed.
    headers = {
        "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'",
        "Cache-Control": "no-cache",
    }

    async def send() -> FileResponse:
        return FileResponse(file, media_type=KINDS[file.suffix], headers=headers)

    return send


for _file in sorted(PAGE.iterdir()):
    _path = "/" if _file.name == "index.html" else f"/{_file.name}"
    router.get(_path, include_in_schema=False)(_page_file(_file))


@router.post("/predict", tags=["predictions"], responses=PROBLEMS)
async def predict(
    given: schemas.PredictRequest, worker: AWorker, limits: TheLimits, metrics: TheMetrics, by: Reads
) -> schemas.Predictions:
    """Labels of interactions that need not be stored. Users and items may be new.

    Each is predicted by itself: interactions of one request are not neighbours of each other.
    """
    check_sizes(given.interactions, limits)
    found = await worker.predict([one.as_interaction() for one in given.interactions])
    metrics.count_predictions(found)
    return schemas.Predictions(predictions=[schemas.Prediction.of(one) for one in found])


@router.post("/explain", tags=["predictions"], responses=PROBLEMS)
async def explain_new(given: schemas.InteractionIn, worker: AWorker, limits: TheLimits, by: Reads) -> schemas.Explained:
    """Why an interaction that is not stored would be predicted as it is."""
    check_sizes([given], limits)
    return await worker.do(lambda service: schemas.Explained.of(service.explain(given.as_interaction(), by), service))


@router.get("/explain/{id}", tags=["predictions"], responses=PROBLEMS | UNKNOWN)
async def explain(id: schemas.Key, worker: AWorker, by: Reads) -> schemas.Explained:  # noqa: A002
    """Which words, neighbours and features moved the prediction: each is removed, and the prediction made again."""
    return await worker.do(lambda service: schemas.Explained.of(service.explain(id, by), service))


@router.get("/model", tags=["operations"], responses=PROBLEMS)
async def model(worker: AWorker, by: Reads) -> schemas.Model:
    """The model that is served, and its scores on the validation rows."""

    def work(service: ReviewService) -> schemas.Model:
        waits, decided, disputed = Filter(labelled=False), Filter(reviewed=True), Filter(disputed=True)
        return schemas.Model(
            suspicious=service.suspicious, stored=len(service.store), open=service.count(waits, by),
            reviewed=service.count(decided, by), disputed=service.count(disputed, by),
            second_opinion=service.reviews.share, **model_facts(service.live.classifier),
        )  # fmt: skip

    return await worker.do(work)


@router.post("/model/reload", tags=["operations"], responses=PROBLEMS)
async def reload(request: Request, worker: AWorker, by: Administrator) -> schemas.Reloaded:
    """Serve the model that is in the folder now. Requests that are under way are finished by the one before.

    A server looks at its folder every second as well; this tells whether the model could be loaded.
    """
    reloader: Reloader | None = request.app.state.reloader
    if reloader is None:
        raise InputError("This server was not started with a model folder: start it again with the new model.")
    return schemas.Reloaded(changed=await reloader.reload(worker, by))


@router.get("/report", include_in_schema=False)
async def report_page(request: Request, by: Reads) -> Response:
    report: Path | None = request.app.state.report
    if report is None or not report.is_file():
        raise HTTPException(404, "This model has no report.")
    return FileResponse(report, media_type="text/html")


@router.get(
    "/metrics",
    tags=["operations"],
    responses={status: PROBLEMS[status] for status in (401, 403, 503)},
    response_class=PlainTextResponse,
)
async def metrics_page(metrics: TheMetrics, by: Reads) -> Response:
    """Figures for Prometheus."""
    text, kind = metrics.text()
    return Response(text, media_type=kind)


def check_sizes(rows: list[Any], limits: Limits) -> None:
    if len(rows) > limits.rows:
        raise InputError(f"At most {limits.rows:,} interactions in one request; got {len(rows):,}.")
    for place, row in enumerate(rows):
        if len(row.text) > limits.text_length:
            raise InputError(
                f"interactions → {place} → text: at most {limits.text_length:,} characters; got {len(row.text):,}."
            )
