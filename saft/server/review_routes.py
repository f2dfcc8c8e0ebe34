"""The REST routes of the review: what is stored, the queue, verdicts and claims."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, HTTPException, Query, Request

from saft.online.live import Interaction
from saft.server import review_schemas as schemas
from saft.server.access import AWorker, Reads, Reviewer
from saft.server.incoming import uploaded
from saft.server.queue import Filter
from saft.server.reviews import Judged
from saft.server.routes import CLAIMED, PROBLEMS, UNKNOWN, TheLimits, check_sizes
from saft.server.schemas import AddRequest, Key
from saft.server.service import ReviewService
from saft.server.store import Entry
from saft.server.worker import Worker

MOST_ON_A_PAGE = 200
UPLOAD = "/interactions/upload"
PREPARED_AT_ONCE = 256  # interactions of a file; requests that came meanwhile are answered in between
_ENDINGS = "csv|tsv|tab|txt|jsonl|ndjson|json|parquet|pq"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FILE = {"requestBody": {"content": dict.fromkeys(("application/octet-stream", "text/csv"), _BINARY)}}

router = APIRouter(tags=["interactions"])


@router.post("/interactions", status_code=201, responses=PROBLEMS)
async def add(given: AddRequest, worker: AWorker, limits: TheLimits, by: Reviewer) -> schemas.Ids:
    """Store interactions. On response they are on disk, and neighbours of everything predicted afterwards."""
    check_sizes(given.interactions, limits)
    rows = [one.as_interaction(one.label) for one in given.interactions]
    return schemas.Ids(ids=await worker.do(lambda service: service.add(rows, by)))


@router.post(UPLOAD, status_code=201, responses=PROBLEMS, openapi_extra=_FILE)
async def upload(
    request: Request,
    name: Annotated[str, Query(pattern=rf"^[\w .()+-]{{0,100}}\.({_ENDINGS})(\.gz|\.zst)?$", examples=["new.csv"])],
    worker: AWorker,
    limits: TheLimits,
    by: Reviewer,
) -> schemas.Uploaded:
    """Store the interactions of a CSV, TSV, JSON lines or Parquet file: all of them, or none if one is wrong.

    The ending of the name decides the format. Interactions that are known already are left out, so that a file can be
    sent again.
    """
    content = await request.body()
    rows, notes = await worker.do(
        lambda service: uploaded(content, name, service.live.classifier, limits.text_length), patiently=True
    )
    new = await worker.do(lambda service: service.mirror.unknown(rows), patiently=True)
    entries, services = await _prepared(worker, new)

    def keep(service: ReviewService) -> list[str]:
        # What another model said, before it was replaced, is not kept as said by this one.
        said = entries if services <= {service} else service.prepared(new)
        return service.keep(said, by, source=name)

    ids = await worker.do(keep, patiently=True)
    return schemas.Uploaded(ids=ids, known=len(rows) - len(new), notes=notes)


def _signed(service: ReviewService, rows: Sequence[Interaction]) -> tuple[ReviewService, list[Entry]]:
    return service, service.prepared(rows)


async def _prepared(worker: Worker, new: Sequence[Interaction]) -> tuple[list[Entry], set[ReviewService]]:
    """Interactions with predictions, some at a time, and the services that made these."""
    entries, services = [], set()
    for first in range(0, len(new), PREPARED_AT_ONCE):
        service, made = await worker.do(partial(_signed, rows=new[first : first + PREPARED_AT_ONCE]))
        entries += made
        services.add(service)
    return entries, services


@router.get(UPLOAD, include_in_schema=False)
async def not_to_be_read() -> None:
    """Otherwise its last part would be taken for an id."""
    raise HTTPException(405, headers={"Allow": "POST"})


@router.get("/interactions", responses=PROBLEMS)
async def page(
    worker: AWorker,
    by: Reads,
    order: schemas.Order = "suspicious",
    limit: Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)] = 50,
    after: Annotated[str | None, Query(description="`next` of the page before.", max_length=60)] = None,
    user: Annotated[schemas.Part | None, Query(description="A part of it, in upper or lower case.")] = None,
    item: schemas.Part | None = None,
    text: schemas.Part | None = None,
    label: schemas.Part | None = None,
    predicted: schemas.Part | None = None,
    reviewed: bool | None = None,
    labelled: Annotated[bool | None, Query(description="false: those that wait for a verdict.")] = None,
    disputed: Annotated[bool | None, Query(description="true: those on which reviewers disagree.")] = None,
) -> schemas.Page:
    """Stored interactions, and rows of training whose label nobody knows: the queue."""
    wanted = Filter(
        user, item, text, label=label, predicted=predicted, reviewed=reviewed, labelled=labelled, disputed=disputed
    )

    def work(service: ReviewService) -> schemas.Page:
        found, following = service.page(wanted, order, limit, after, by)
        items = [schemas.ReviewItem.of(one, service) for one in found]
        return schemas.Page(interactions=items, next=following, total=service.count(wanted, by))

    return await worker.do(work)


@router.get("/interactions/{id}", responses=PROBLEMS | UNKNOWN)
async def one(id: Key, worker: AWorker, by: Reads) -> schemas.ReviewItem:  # noqa: A002
    """One interaction, stored or from the training table."""
    return await worker.do(lambda service: schemas.ReviewItem.of(service.find(id, by), service))


@router.get("/interactions/{id}/history", responses=PROBLEMS | UNKNOWN)
async def history(id: Key, worker: AWorker, by: Reads) -> schemas.History:  # noqa: A002
    """All verdicts on an interaction, with reviewers, times and notes."""
    found = await worker.do(lambda service: service.reviews.history(id, by))
    return schemas.History(verdicts=[schemas.HistoryEntry.of(verdict) for verdict in found])


@router.get("/neighbours/{id}", responses=PROBLEMS | UNKNOWN)
async def neighbours(
    id: Key,  # noqa: A002
    worker: AWorker,
    by: Reads,
    limit: Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)] = 20,
) -> schemas.Neighbours:
    """What else its user wrote, and what others wrote about its item."""

    def work(service: ReviewService) -> schemas.Neighbours:
        found = service.neighbours(id, limit, by)
        by_user, by_item = ([schemas.ReviewItem.of(near, service) for near in found[side]] for side in ("user", "item"))
        here = service.find(id, by)
        opened = {
            "open_by_user": service.count(Filter(of_user=here.interaction.user, labelled=False), by),
            "open_by_item": service.count(Filter(of_item=here.interaction.item, labelled=False), by),
        }
        item = schemas.ReviewItem.of(here, service)
        return schemas.Neighbours(interaction=item, by_user=by_user, by_item=by_item, **opened)

    return await worker.do(work)


@router.post("/labels", responses=PROBLEMS | UNKNOWN | CLAIMED)
async def label(
    given: schemas.LabelRequest, worker: AWorker, by: Reviewer, later: BackgroundTasks
) -> schemas.ReviewItem:
    """A reviewer's verdict, visible to its neighbours from now on; null takes back the last one."""
    caller = by.signing(given.reviewer)

    def work(service: ReviewService) -> tuple[schemas.ReviewItem, Judged]:
        if given.label is None:
            judged = service.reviews.take_back(given.id, caller)
        else:
            judged = service.reviews.judge([given.id], str(given.label), caller, given.note)
        return schemas.ReviewItem.of(service.find(given.id, caller), service), judged

    item, judged = await worker.do(work)
    _predict_again(later, worker, judged)
    return item


@router.post("/labels/bulk", responses=PROBLEMS | UNKNOWN | CLAIMED)
async def label_several(
    given: schemas.BulkRequest, worker: AWorker, by: Reviewer, later: BackgroundTasks
) -> schemas.Decided:
    """The same verdict on several interactions, in one step: all of it is stored, or nothing."""
    caller = by.signing(given.reviewer)

    def work(service: ReviewService) -> Judged:
        if given.ids is not None:
            return service.reviews.judge(given.ids, str(given.label), caller, given.note)
        wanted = Filter(of_user=given.user, of_item=given.item)
        return service.reviews.judge_open(wanted, str(given.label), caller, given.note)

    judged = await worker.do(work)
    _predict_again(later, worker, judged)
    return schemas.Decided.of(judged)


@router.post("/labels/undo", responses=PROBLEMS | UNKNOWN)
async def undo(given: schemas.UndoRequest, worker: AWorker, by: Reviewer, later: BackgroundTasks) -> schemas.Decided:
    """Take back all verdicts of one request to `/labels/bulk`."""
    caller = by.signing(given.reviewer)
    judged = await worker.do(lambda service: service.reviews.take_back_batch(given.batch, caller))
    _predict_again(later, worker, judged)
    return schemas.Decided.of(judged)


@router.post("/claims", responses=PROBLEMS)
async def claim(given: schemas.ClaimRequest, worker: AWorker, limits: TheLimits, by: Reviewer) -> schemas.Claimed:
    """The next open interactions, for this reviewer alone, for some minutes; first those that are theirs already."""
    caller, minutes = by.signing(given.reviewer), limits.claim_minutes

    def work(service: ReviewService) -> schemas.Claimed:
        found = service.reviews.claim(given.filter(), given.order, given.count, given.held, minutes, caller)
        items = [schemas.ReviewItem.of(one, service) for one in found]
        return schemas.Claimed(interactions=items, minutes=minutes)

    return await worker.do(work)


@router.delete("/claims/{id}", status_code=204, responses=PROBLEMS | UNKNOWN)
async def release(
    id: Key,  # noqa: A002
    worker: AWorker,
    by: Reviewer,
    reviewer: schemas.Name | None = None,
) -> None:
    """Leave an interaction to others."""
    caller = by.signing(reviewer)
    await worker.do(lambda service: service.reviews.release(id, caller))


def _predict_again(later: BackgroundTasks, worker: Worker, judged: Judged) -> None:
    later.add_task(worker.do, lambda service: service.predict_again(judged.around))
