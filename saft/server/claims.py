"""Claims: for some minutes an open interaction is one reviewer's, so that two people do not get the same one."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlalchemy import Connection, and_, delete, insert, select, update

from saft.errors import InputError
from saft.server import ledger
from saft.server.queue import Filter
from saft.server.store import Store, StoredInteraction
from saft.server.tables import claims, interactions


class ClaimedError(InputError):
    """Somebody else is reviewing it."""

    def __init__(self, name: str, until: float) -> None:
        minutes = max(1, round((until - time.time()) / 60))
        super().__init__(f"{name or 'Somebody else'} is reviewing it, for at most {minutes} more minutes.")


def claim(
    store: Store,
    connection: Connection,
    wanted: Filter,
    order: str,
    count: int,
    held: Collection[int],
    name: str,
    minutes: float,
) -> list[StoredInteraction]:
    """Up to ``count`` interactions besides those ``held``, for this reviewer alone: first those that are theirs
    already (a page that was opened anew has forgotten them), then free ones."""
    connection.execute(delete(claims).where(claims.c.until <= time.time()))
    others = and_(interactions.c.serial.not_in(held), interactions.c.serial.not_in(ledger.judged_by(name)))
    found, _ = store.page(wanted, order, count, None, claims.c.reviewer == name, others)
    if len(found) < count:
        free, _ = store.page(wanted, order, count - len(found), None, claims.c.interaction.is_(None), others)
        rows = [{"interaction": one.serial, "reviewer": name, "until": 0.0} for one in free]
        if rows:
            connection.execute(insert(claims), rows)
        found += free
    kept = [*held, *(one.serial for one in found)]
    mine = update(claims).where(claims.c.reviewer == name, claims.c.interaction.in_(kept))
    connection.execute(mine.values(until=time.time() + 60 * minutes))
    return [replace(one, claimed_by=name) for one in found]


def release(connection: Connection, serials: Iterable[int]) -> None:
    for some in ledger.portions(serials):
        connection.execute(delete(claims).where(claims.c.interaction.in_(some)))


def held_by_others(connection: Connection, serials: Iterable[int], name: str) -> dict[int, tuple[str, float]]:
    """Serial number → (who, until when) of those that are claimed by somebody else."""
    found = {}
    for some in ledger.portions(serials):
        others = select(claims).where(claims.c.until > time.time(), claims.c.reviewer != name)
        for row in connection.execute(others.where(claims.c.interaction.in_(some))):
            found[row.interaction] = (row.reviewer, row.until)
    return found
