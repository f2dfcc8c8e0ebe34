"""The REST routes around a team: who I am, how far reviewers are and agree, and what can be taken out of the store."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from fastapi import APIRouter, Query, Response

from saft.server import audit, ledger, progress
from saft.server import review_schemas as schemas
from saft.server.access import Administrator, AWorker, Reads
from saft.server.agreement import agreement
from saft.server.exporting import audit_table, iso, verdict_table
from saft.server.queue import Filter
from saft.server.routes import PROBLEMS
from saft.server.service import ReviewService
from saft.writing import write_table

KINDS = {"csv": "text/csv", "jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind: {} for kind in KINDS.values()}, "description": "The file."}
}
Format = Literal["csv", "jsonl", "parquet"]

router = APIRouter(tags=["team"])


@router.get("/me", responses=PROBLEMS)
async def me(worker: AWorker, by: Reads) -> schemas.Me:
    """Under which name verdicts are stored, and what may be done."""
    return schemas.Me(name=by.name, role=by.role, team=worker.service.team.exists)


@router.get("/agreement", responses=PROBLEMS)
async def how_far_they_agree(worker: AWorker, by: Reads) -> schemas.Agreement:
    """How far reviewers agree on interactions that several of them have judged."""

    def work(service: ReviewService) -> schemas.Agreement:
        disputed = service.store.count(Filter(disputed=True))
        with service.database.reading() as connection:
            return schemas.Agreement.of(agreement(ledger.standing_of_all(connection), disputed))

    return await worker.do(work)


@router.get("/progress", responses=PROBLEMS)
async def how_far_it_is(worker: AWorker, by: Reads) -> schemas.Progress:
    """Verdicts per day and per reviewer, and the model's scores on what was judged."""

    def work(service: ReviewService) -> schemas.Progress:
        with service.database.reading() as connection:
            standing = ledger.standing_of_all(connection)
            pairs = progress.judged_and_predicted(connection, service.store.model)
        return schemas.Progress.of(standing, progress.model_progress(pairs, service.classes))

    return await worker.do(work)


@router.get("/export", responses=PROBLEMS | _FILE, response_class=Response)
async def export(
    worker: AWorker,
    by: Administrator,
    format: Format = "csv",  # noqa: A002
    what: Literal["verdicts", "audit"] = "verdicts",
) -> Response:
    """Interactions with their last verdict, or the audit log, as a file."""
    table = {"verdicts": verdict_table, "audit": audit_table}[what]
    content = await worker.do(lambda service: _file(table(service.database), format), patiently=True)
    named = {"Content-Disposition": f'attachment; filename="{what}.{format}"'}
    return Response(content, media_type=KINDS[format], headers=named)


@router.get("/audit", responses=PROBLEMS)
async def audit_log(
    worker: AWorker,
    by: Administrator,
    after: Annotated[int, Query(ge=0, lt=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> schemas.Audit:
    """Who did what, and when."""

    def work(service: ReviewService) -> schemas.Audit:
        with service.database.reading() as connection:
            found = audit.entries(connection, after, limit + 1)
        entries = [schemas.AuditEntry(**one | {"at": iso(one["at"])}) for one in found[:limit]]
        return schemas.Audit(entries=entries, next=entries[-1].number if len(found) > limit else None)

    return await worker.do(work)


def _file(table: pl.DataFrame, format: str) -> bytes:  # noqa: A002
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{format}"
        write_table(table, path)
        return path.read_bytes()
