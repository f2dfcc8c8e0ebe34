"""What a store knows and a model's table does not: interactions that came in, and the last word on each of them."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from sqlalchemy import or_, select

from saft.classifier.estimator import SaftClassifier
from saft.classifier.parts import SCHEMA
from saft.classifier.retraining import Grown, grow
from saft.data.network import TextualInteractionNetwork
from saft.data.reading import read
from saft.data.times import times_as_text
from saft.errors import InputWarning
from saft.online.live import Interaction
from saft.server import ledger
from saft.server.database import Database
from saft.server.exporting import iso
from saft.server.identity import canonical_time, digest_of
from saft.server.tables import interactions, verdicts


def grown_by(champion: SaftClassifier, parts: pl.DataFrame | None, database: Database) -> Grown:
    """The model's network with everything that is in the store: see :func:`saft.classifier.retraining.grow`."""
    with database.reading() as connection:
        last = {verdict.interaction: verdict for verdict in ledger.standing_of_all(connection)}
        ever = select(verdicts.c.interaction)
        wanted = or_(interactions.c.came, interactions.c.serial.in_(ever))
        stored = connection.execute(select(interactions).where(wanted).order_by(interactions.c.serial)).all()
    network = champion.network_
    known = _places(network, {row.user for row in stored})
    new: list[Any] = []
    numbers, said = [], []
    for row in stored:
        number = known.get((row.digest, row.occurrence))
        if number is None:
            if not (row.came or row.reviewed):
                continue  # it only waited in the table of another model
            number = len(network) + len(new)
            new.append(row)
        elif not (row.reviewed or _was_judged(parts, number)):
            continue  # its table of training knows its label better
        numbers.append(number)
        said.append(_last_word(row, last.get(row.serial)))
    schema = {name: SCHEMA[name] for name in ("label", "reviewer", "decided")}
    return grow(
        champion, parts, _as_network(new, network), pl.DataFrame(said, schema=schema), np.array(numbers, np.int64)
    )


def _places(network: TextualInteractionNetwork, users: set[str]) -> dict[tuple[str, int], int]:
    """(digest, occurrence) → row of training, for interactions of these users."""
    wanted = network.user_ids.cast(pl.String).is_in(list(users)).to_numpy()
    rows = np.flatnonzero(wanted[network.users])
    some = network.take(rows)
    columns = (
        some.user_ids.cast(pl.String).gather(pl.Series(some.users)),
        some.item_ids.cast(pl.String).gather(pl.Series(some.items)),
        some.texts,
        [None] * len(some),
        times_as_text(some.times, len(some)),
    )
    seen: Counter[str] = Counter()
    places = {}
    for number, values in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
        digest = digest_of(Interaction(*values))
        places[digest, seen[digest]] = number
        seen[digest] += 1
    return places


def _was_judged(parts: pl.DataFrame | None, number: int) -> bool:
    """Whether the label that the model was trained with is of a reviewer, who may have taken it back since."""
    return parts is not None and parts["decided"][number] is not None


def _last_word(row: Any, verdict: Any) -> dict[str, str | None]:
    signed = (None, None) if verdict is None else (verdict.reviewer, iso(verdict.at))
    return {"label": row.label, "reviewer": signed[0], "decided": signed[1]}


def _as_network(rows: Sequence[Any], known: TextualInteractionNetwork) -> TextualInteractionNetwork:
    """Interactions that came in, without labels; with what is known of their users and items."""
    if not rows:
        return known.take(np.empty(0, np.int64))
    table: dict[str, list[str | None]] = {
        name: [getattr(row, name) for row in rows] for name in ("user", "item", "text")
    }
    names = {"user": "user", "item": "item", "text": "text"}
    times = [canonical_time(row.time) for row in rows]
    if any(times):
        table["time"], names["time"] = times, "time"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # of what came in one by one: nothing that its senders could mend
        network = read(pl.DataFrame(table, schema_overrides=dict.fromkeys(table, pl.String)), labelled=False, **names)
    return replace(
        network,
        user_attributes=_attributes(rows, "user", network.user_ids, known.user_attributes),
        item_attributes=_attributes(rows, "item", network.item_ids, known.item_attributes),
    )


def _attributes(rows: Sequence[Any], side: str, ids: pl.Series, known: pl.DataFrame | None) -> pl.DataFrame | None:
    if known is None:
        return None
    told: dict[str, dict[str, Any]] = {}
    for row in rows:
        told.setdefault(getattr(row, side), {}).update(json.loads(row.attributes).get(side) or {})
    of_each = [told.get(str(one), {}) for one in ids]
    columns = {
        name: [None if (value := of.get(name)) is None else str(value) for of in of_each] for name in known.columns
    }
    return pl.DataFrame(columns, schema=dict.fromkeys(known.columns, pl.String))
