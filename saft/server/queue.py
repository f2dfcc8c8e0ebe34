"""The queue: which interactions are asked for, in which order, and where the next page begins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Select, and_, func, not_, or_, select

from saft.errors import InputError
from saft.server import ledger
from saft.server.tables import interactions, served
from saft.writing import as_json

ORDERS = {  # name → (column, whether it descends); ties go by arrival
    "suspicious": (served.c.suspicion, True),
    "uncertain": (served.c.certainty, False),
    "newest": (served.c.interaction, True),
    "oldest": (served.c.interaction, False),
}


@dataclass(frozen=True)
class Filter:
    user: str | None = None  # a part of it, in upper or lower case
    item: str | None = None
    text: str | None = None
    of_user: str | None = None  # exactly this one
    of_item: str | None = None
    label: str | None = None  # given or decided
    predicted: str | None = None
    reviewed: bool | None = None
    labelled: bool | None = None  # False: those that wait for a verdict
    disputed: bool | None = None
    # Who asks, "" without a name, if some interactions are judged by two: what this reviewer has judged does not wait
    # for them any more, and what another one said of the rest is not told.
    viewer: str | None = None


def conditions(wanted: Filter) -> list[Any]:
    parts = {name: part for name in ("user", "item", "text") if (part := getattr(wanted, name))}
    found = [_contains(interactions.c[name], part) for name, part in parts.items()]
    exact = {"user": wanted.of_user, "item": wanted.of_item, "label": wanted.label}
    found += [interactions.c[name] == whole for name, whole in exact.items() if whole is not None]
    if wanted.labelled is not None:
        found.append(served.c.waiting if not wanted.labelled else interactions.c.label.is_not(None))
    if wanted.predicted is not None:
        found.append(served.c.predicted == wanted.predicted)
    for name in ("reviewed", "disputed"):
        if (flag := getattr(wanted, name)) is not None:
            # As a set of numbers: they are few, and the queue is gone through in its order.
            flagged = select(interactions.c.serial).where(interactions.c[name].is_(flag))
            found.append(served.c.interaction.in_(flagged))
    return found + _told_to(wanted)


def _contains(column: Any, part: str) -> Any:
    """Upper or lower case does not matter. For letters of ASCII through a function that SQLite has and is quick."""
    if part.isascii():
        return func.upper(column).contains(part.upper(), autoescape=True)
    return func.lower(column).contains(part.lower(), autoescape=True)


def says_nothing_of_interactions(wanted: Filter) -> bool:
    """Whether the conditions can be checked on what the model says alone."""
    waits = None if wanted.labelled is False else wanted.labelled
    rest = replace(wanted, labelled=waits, predicted=None, reviewed=None, disputed=None, viewer=None)
    return rest == Filter() and (wanted.viewer is None or wanted.labelled is False)


def _told_to(wanted: Filter) -> list[Any]:
    if wanted.viewer is None:
        return []
    mine = ledger.judged_by(wanted.viewer)
    if wanted.labelled is False:
        return [served.c.interaction.not_in(mine)]
    tells = (wanted.label, wanted.reviewed, wanted.labelled, wanted.disputed)
    hidden = and_(served.c.waiting, interactions.c.opinions == 1, served.c.interaction.not_in(mine))
    return [not_(hidden)] if any(one is not None for one in tells) else []


def ordered(query: Select[Any], order: str, after: str | None) -> Select[Any]:
    """In this order, from behind the cursor on."""
    column, descends = ORDERS[order]
    serial = served.c.interaction
    if after is not None:
        value, last = _read(after)
        if column is serial:
            query = query.where(serial < last if descends else serial > last)
        else:
            beyond = column < value if descends else column > value
            query = query.where(or_(beyond, and_(column == value, serial > last)))
    first = column.desc() if descends else column
    return query.order_by(first) if column is serial else query.order_by(first, serial)


def cursor_of(row: Any, order: str) -> str:
    """Where the page behind this row begins."""
    name = ORDERS[order][0].name
    return f"{as_json(row.certainty if name == 'certainty' else row.suspicion)}:{row.serial}"


def _read(after: str) -> tuple[float, int]:
    value, _, serial = after.partition(":")
    try:
        if not abs(int(serial)) < 2**63:
            raise ValueError("no number of an interaction")
        return float(value), int(serial)
    except ValueError as error:
        raise InputError("`after` has to be what an earlier answer gave as `next`.") from error
