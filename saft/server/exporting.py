"""What is in a store as a table: verdicts with all that they are about, or the audit log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import polars as pl
from sqlalchemy import or_, select

from saft.server import audit, ledger
from saft.server.database import Database
from saft.server.tables import interactions
from saft.writing import as_json

VERDICTS = {
    "id": pl.String, "user": pl.String, "item": pl.String, "text": pl.String, "time": pl.String, "label": pl.String,
    "given": pl.String, "verdict": pl.String, "reviewer": pl.String, "decided": pl.String, "note": pl.String,
    "opinions": pl.Int64, "disputed": pl.Boolean, "attributes": pl.String, "digest": pl.String,
}  # fmt: skip
AUDIT = {"number": pl.Int64, "at": pl.String, "who": pl.String, "action": pl.String, "detail": pl.String}


def verdict_table(database: Database) -> pl.DataFrame:
    """All interactions that came in or were judged, in order: the last verdict with reviewer and time, the given label,
    and ``label``, which is the verdict if there is one. Columns are named as ``saft.read`` expects them."""
    wanted = or_(interactions.c.came, interactions.c.reviewed)
    with database.reading() as connection:
        last = {verdict.interaction: verdict for verdict in ledger.standing_of_all(connection)}
        rows = connection.execute(select(interactions).where(wanted).order_by(interactions.c.serial)).all()
    return _table(VERDICTS, (_said_of(row) | _decided(last.get(row.serial)) for row in rows))


def audit_table(database: Database) -> pl.DataFrame:
    with database.reading() as connection:
        found = audit.entries(connection)
    lines = ({**one, "at": iso(one["at"]), "detail": as_json(one["detail"])} for one in found)
    return _table(AUDIT, lines)


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _said_of(row: Any) -> dict[str, Any]:
    kept = ("user", "item", "text", "time", "label", "given", "opinions", "disputed", "digest")
    attributes = row.attributes if any(json.loads(row.attributes).values()) else None
    return {"id": f"n{row.serial}", "attributes": attributes} | {name: getattr(row, name) for name in kept}


def _decided(verdict: Any) -> dict[str, Any]:
    if verdict is None:
        return dict.fromkeys(("verdict", "reviewer", "decided", "note"))
    return {
        "verdict": verdict.label,
        "reviewer": verdict.reviewer,
        "decided": iso(verdict.at),
        "note": verdict.note,
    }


def _table(schema: dict[str, Any], rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=schema)
