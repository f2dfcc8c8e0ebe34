"""The ledger of verdicts: a stack per interaction, kept as a log. Taking back removes the top and forgets nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, insert, not_, or_, select, update

from saft.server.tables import facts, interactions, served, verdicts

AT_ONCE = 500  # parameters of one query are limited
SECOND_OPINION = "second_opinion"  # name of the fact: the share of interactions that two reviewers judge


@dataclass(frozen=True)
class Verdict:
    """One entry of an interaction's history."""

    serial: int
    label: str
    reviewer: str | None
    note: str | None
    at: float
    taken_back: float | None = None
    taken_back_by: str | None = None


def judge(
    connection: Connection,
    serials: Sequence[int],
    label: str,
    reviewer: str | None,
    note: str | None = None,
    batch: str | None = None,
) -> None:
    """The same verdict on each of these."""
    signed = {"label": label, "reviewer": reviewer, "note": note, "batch": batch, "at": time.time()}
    connection.execute(insert(verdicts), [{"interaction": serial, **signed} for serial in serials])
    refresh(connection, serials)


def take_back(connection: Connection, taken: Sequence[Any], by: str | None) -> None:
    """Undo these standing verdicts."""
    signed = {"reviewer": by, "at": time.time()}
    rows = [{"interaction": verdict.interaction, "undoes": verdict.serial, **signed} for verdict in taken]
    connection.execute(insert(verdicts), rows)
    refresh(connection, [verdict.interaction for verdict in taken])


def standing(connection: Connection, serial: int) -> list[Any]:
    """The verdicts on an interaction that were not taken back, the last one on top."""
    query = _standing().where(verdicts.c.interaction == serial).order_by(verdicts.c.serial)
    return list(connection.execute(query))


def standing_of_batch(connection: Connection, batch: str) -> list[Any]:
    return list(connection.execute(_standing().where(verdicts.c.batch == batch).order_by(verdicts.c.serial)))


def standing_of_all(connection: Connection) -> list[Any]:
    """All verdicts that stand, in order."""
    return list(connection.execute(_standing().order_by(verdicts.c.serial)))


def judged_by(reviewer: str) -> Select[tuple[int]]:
    """Serial numbers of the interactions on which a verdict of this reviewer stands ("" is one without a name)."""
    theirs = verdicts.c.reviewer == reviewer if reviewer else verdicts.c.reviewer.is_(None)
    return _standing().where(theirs).with_only_columns(verdicts.c.interaction)


def history(connection: Connection, serial: int) -> list[Verdict]:
    """All verdicts on an interaction, also those that were taken back, the first one first."""
    query = select(verdicts).where(verdicts.c.interaction == serial).order_by(verdicts.c.serial)
    rows = connection.execute(query).all()
    undone = {row.undoes: row for row in rows if row.undoes is not None}
    found = []
    for row in rows:
        if row.undoes is None:
            back = undone.get(row.serial)
            ended = (None, None) if back is None else (back.at, back.reviewer)
            found.append(Verdict(row.serial, row.label, row.reviewer, row.note, row.at, *ended))
    return found


def refresh(connection: Connection, serials: Iterable[int]) -> None:
    """Write what follows from the stacks: the label that counts, the number of opinions, and who has to wait."""
    serials = sorted(set(serials))
    for serial in serials:
        stack = standing(connection, serial)
        opinions = {verdict.reviewer: verdict.label for verdict in stack}  # each reviewer's last one
        decided = {
            "label": stack[-1].label if stack else interactions.c.given,
            "reviewed": bool(stack),
            "opinions": len(opinions),
            "disputed": is_disputed(opinions.values()),
        }
        connection.execute(update(interactions).where(interactions.c.serial == serial).values(**decided))
    for some in portions(serials):
        refresh_waiting(connection, served.c.interaction.in_(some))


def refresh_waiting(connection: Connection, which: Any) -> None:
    """An interaction waits while it has no label, and a share of them until two reviewers have judged."""
    needs_second = and_(
        interactions.c.opinions == 1, interactions.c.given.is_(None), interactions.c.draw < share(connection)
    )
    needs_one = select(or_(interactions.c.label.is_(None), needs_second))
    waits = needs_one.where(interactions.c.serial == served.c.interaction).scalar_subquery()
    connection.execute(update(served).where(which).values(waiting=and_(not_(served.c.known), waits)))


def share(connection: Connection) -> float:
    """The share of interactions that are to be judged by two reviewers."""
    return float(connection.scalar(select(facts.c.value).where(facts.c.name == SECOND_OPINION)) or 0)


def is_disputed(labels: Iterable[str]) -> bool:
    """Whether no class has more than half of the opinions."""
    counts = Counter(labels)
    return bool(counts) and 2 * max(counts.values()) <= counts.total()


def _standing() -> Select[Any]:
    undoing = verdicts.alias("undoing")
    undone = select(undoing.c.serial).where(
        undoing.c.interaction == verdicts.c.interaction, undoing.c.undoes == verdicts.c.serial
    )
    return select(verdicts).where(verdicts.c.undoes.is_(None), ~undone.exists())


def portions(values: Iterable[Any]) -> Iterable[list[Any]]:
    """So many at once as a query may have parameters."""
    rest = list(values)
    return (rest[first : first + AT_ONCE] for first in range(0, len(rest), AT_ONCE))
