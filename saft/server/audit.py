"""The audit log: who did what, and when. Rows are only added, in the transaction of what they tell of."""

from __future__ import annotations

import json
import time
from typing import Any

from sqlalchemy import Connection, insert, select

from saft.server.tables import audit
from saft.writing import as_json


def record(connection: Connection, who: str | None, action: str, **detail: Any) -> None:
    written = as_json({name: value for name, value in detail.items() if value is not None})
    connection.execute(insert(audit).values(at=time.time(), who=who, action=action, detail=written))


def entries(connection: Connection, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
    """Those behind this number, in order."""
    rows = connection.execute(select(audit).where(audit.c.serial > after).order_by(audit.c.serial).limit(limit))
    return [
        {"number": row.serial, "at": row.at, "who": row.who, "action": row.action, "detail": json.loads(row.detail)}
        for row in rows
    ]
