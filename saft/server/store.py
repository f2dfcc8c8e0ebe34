"""Store: interactions, predictions of the model that serves, and verdicts. What was acknowledged is on disk.

An interaction is what it is (:mod:`saft.server.identity`), whichever model serves: its verdicts stay with it. What one
model says of it, its message state and its row in that model's table of training, is kept for that model.
To be used from one thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Select, and_, delete, func, insert, select, update

from saft.online.live import Interaction
from saft.server import ledger
from saft.server.database import Database
from saft.server.identity import digest_of, draw_of
from saft.server.queue import Filter, conditions, cursor_of, ordered, says_nothing_of_interactions
from saft.server.tables import claims, interactions, models, served, verdicts
from saft.writing import as_json

MODELS_KEPT = 2  # this one and the one before, which another server may still be serving


@dataclass(frozen=True)
class StoredPrediction:
    """The model's last prediction of a stored interaction."""

    label: str
    probabilities: dict[str, float]
    certainty: float
    suspicion: float


@dataclass(frozen=True)
class StoredInteraction:
    key: str
    interaction: Interaction
    reviewed: bool = False
    prediction: StoredPrediction | None = None  # None for interactions of training that were never predicted
    serial: int = 0  # 0 if it is not in the store
    number: int | None = None  # in the model's table of training
    came: bool = False  # while serving
    opinions: int = 0
    disputed: bool = False
    waiting: bool = False
    claimed_by: str | None = None
    state: bytes | None = None  # None if this model has not said anything of it yet
    occurrence: int = 0


@dataclass(frozen=True)
class Entry:
    """What is to be stored about an interaction."""

    interaction: Interaction
    prediction: StoredPrediction
    state: np.ndarray
    number: int | None = None  # its row in the table of training
    occurrence: int = 0  # among interactions with the same digest, as far as the network knows
    known: bool = False  # the table of training has its label


class Store:
    """
    Args:
        database: with tables of the present format.
        fingerprint: of the model that serves.
        suspicious: the class whose probability is the suspicion.
    """

    def __init__(self, database: Database, fingerprint: str, suspicious: str | None = None) -> None:
        self.database = database
        with database.writing() as connection:
            row = connection.execute(select(models).where(models.c.fingerprint == fingerprint)).first()
            if row is None:
                made = connection.execute(insert(models).values(fingerprint=fingerprint, suspicious=suspicious))
                self.model, self.same_model = int(made.inserted_primary_key[0]), False  # type: ignore[index]
            else:
                self.model, self.same_model = int(row.model), bool(row.complete)
                if suspicious is not None and row.suspicious != suspicious:
                    self._suspect(connection, suspicious)

    def mark_current(self) -> None:
        """A start with this model is complete. Called last, so that an interrupted one is repeated in full."""
        with self.database.writing() as connection:
            opened = update(models).where(models.c.model == self.model)
            connection.execute(opened.values(complete=True, opened=time.time()))
            latest = models.c.opened.desc().nulls_last()
            known = connection.scalars(select(models.c.model).order_by(latest, models.c.model.desc())).all()
            outdated = known[MODELS_KEPT:]
            connection.execute(delete(served).where(served.c.model.in_(outdated)))
            connection.execute(delete(models).where(models.c.model.in_(outdated)))

    def __len__(self) -> int:
        """Interactions that this model says something of."""
        with self.database.reading() as connection:
            return int(connection.scalar(select(func.count()).where(self._ours)) or 0)

    def add(self, entries: Sequence[Entry]) -> list[str]:
        """Store interactions, all of them or none; returns their keys, in order."""
        if not entries:
            return []
        with self.database.writing() as connection:
            serials = self._insert(connection, entries)
            waiting = [entry.interaction.label is None and not entry.known for entry in entries]
            connection.execute(insert(served), list(map(self._said, serials, entries, waiting)))
        pairs = zip(serials, entries, strict=True)
        return [f"n{serial}" if entry.number is None else f"t{entry.number}" for serial, entry in pairs]

    def _insert(self, connection: Connection, entries: Sequence[Entry]) -> list[int]:
        digests = [digest_of(entry.interaction) for entry in entries]
        taken: dict[str, set[int]] = {digest: set() for digest in digests}
        for some in ledger.portions(taken):
            query = select(interactions.c.digest, interactions.c.occurrence)
            for row in connection.execute(query.where(interactions.c.digest.in_(some))):
                taken[row.digest].add(row.occurrence)
        rows = []
        for entry, digest in zip(entries, digests, strict=True):
            place = entry.occurrence
            if entry.number is None or place in taken[digest]:  # a row of training has a place of its own
                place = max([place, *(one + 1 for one in taken[digest])])
            taken[digest].add(place)
            rows.append(_row(entry, digest, place))
        made = insert(interactions).returning(interactions.c.serial, sort_by_parameter_order=True)
        return [int(serial) for serial in connection.scalars(made, rows)]

    def say(self, said: Sequence[tuple[int, Entry]]) -> None:
        """What this model says of interactions, by serial number, that are stored already."""
        if not said:
            return
        with self.database.writing() as connection:
            connection.execute(insert(served), [self._said(serial, entry, False) for serial, entry in said])
            for some in ledger.portions(serial for serial, _ in said):
                ledger.refresh_waiting(connection, and_(self._ours, served.c.interaction.in_(some)))

    def _said(self, serial: int, entry: Entry, waiting: bool) -> dict[str, Any]:
        return {
            "model": self.model, "interaction": serial, "number": entry.number, "known": entry.known,
            "waiting": waiting, "state": entry.state.tobytes(), **_columns(entry.prediction),
        }  # fmt: skip

    def update_prediction(self, key: str, prediction: StoredPrediction) -> None:
        """Replace the stored prediction of an interaction."""
        with self.database.writing() as connection:
            found = select(interactions.c.serial).select_from(_JOINED).where(self._is(key), self._ours)
            connection.execute(
                update(served).where(self._ours, served.c.interaction.in_(found)).values(**_columns(prediction))
            )

    def find(self, key: str) -> StoredInteraction | None:
        with self.database.reading() as connection:
            row = connection.execute(self._rows().where(self._is(key))).first()
        return None if row is None else _stored(row)

    def page(
        self, wanted: Filter, order: str, limit: int, after: str | None, *also: Any
    ) -> tuple[list[StoredInteraction], str | None]:
        """Up to ``limit`` interactions, and the cursor of the next page (None on the last one)."""
        query = ordered(self._rows(outer=False).where(*conditions(wanted), *also), order, after).limit(limit + 1)
        with self.database.reading() as connection:
            rows = connection.execute(query).all()
        following = cursor_of(rows[limit - 1], order) if len(rows) > limit else None
        return [_stored(row) for row in rows[:limit]], following

    def count(self, wanted: Filter) -> int:
        tables = served if says_nothing_of_interactions(wanted) else _JOINED
        query = select(func.count()).select_from(tables).where(self._ours, *conditions(wanted))
        with self.database.reading() as connection:
            return int(connection.scalar(query) or 0)

    def since(self, serial: int, limit: int) -> list[StoredInteraction]:
        """Interactions after this serial number, in order, with their states if this model knows them."""
        query = self._rows(state=True).where(interactions.c.serial > serial)
        with self.database.reading() as connection:
            return [_stored(row) for row in connection.execute(query.order_by(interactions.c.serial).limit(limit))]

    def judged_between(self, first: int, last: int) -> list[StoredInteraction]:
        """Interactions with verdicts, or verdicts taken back, after the first of these numbers, up to the last one."""
        changed = select(verdicts.c.interaction).where(verdicts.c.serial > first, verdicts.c.serial <= last)
        query = self._rows(state=True).where(interactions.c.serial.in_(changed)).order_by(interactions.c.serial)
        with self.database.reading() as connection:
            return [_stored(row) for row in connection.execute(query)]

    def last_verdict(self) -> int:
        with self.database.reading() as connection:
            return int(connection.scalar(select(func.max(verdicts.c.serial))) or 0)

    def last_serial(self) -> int:
        with self.database.reading() as connection:
            return int(connection.scalar(select(func.max(interactions.c.serial))) or 0)

    def _suspect(self, connection: Connection, suspicious: str) -> None:
        """Sort the queue by another class."""
        query = select(served.c.interaction, served.c.probabilities).where(self._ours)
        for row in connection.execute(query).all():
            one = update(served).where(self._ours, served.c.interaction == row.interaction)
            connection.execute(one.values(suspicion=json.loads(row.probabilities)[suspicious]))
        connection.execute(update(models).where(models.c.model == self.model).values(suspicious=suspicious))

    def _rows(self, outer: bool = True, state: bool = False) -> Select[Any]:
        """Interactions with what this model says of them; without ``outer`` only those of which it says something."""
        ours = and_(served.c.interaction == interactions.c.serial, served.c.model == self.model)
        claimed = and_(claims.c.interaction == interactions.c.serial, claims.c.until > time.time())
        tables = interactions.join(served, ours, isouter=outer).join(claims, claimed, isouter=True)
        if not outer:
            tables = served.join(interactions, ours).join(claims, claimed, isouter=True)
        said = [column for column in served.c if column.name not in ("interaction", "state")]
        states = [served.c.state] if state else []
        return select(interactions, *said, claims.c.reviewer.label("claimed_by"), *states).select_from(tables)

    @property
    def _ours(self) -> Any:
        return served.c.model == self.model

    def _is(self, key: str) -> Any:
        column = served.c.number if key[0] == "t" else interactions.c.serial
        return column == int(key[1:])


_JOINED = served.join(interactions, served.c.interaction == interactions.c.serial)


def _row(entry: Entry, digest: str, occurrence: int) -> dict[str, Any]:
    one = entry.interaction
    label = None if one.label is None else str(one.label)
    return {
        "digest": digest, "occurrence": occurrence, "draw": draw_of(digest), "user": one.user, "item": one.item,
        "text": one.text, "time": one.time, "attributes": as_json(one.attributes), "given": label, "label": label,
        "came": entry.number is None, "reviewed": False, "opinions": 0, "disputed": False, "at": time.time(),
    }  # fmt: skip


def _columns(prediction: StoredPrediction) -> dict[str, Any]:
    return {
        "predicted": prediction.label,
        "probabilities": as_json(prediction.probabilities),
        "certainty": prediction.certainty,
        "suspicion": prediction.suspicion,
    }


def _stored(row: Any) -> StoredInteraction:
    interaction = Interaction(row.user, row.item, row.text, row.label, row.time, json.loads(row.attributes))
    prediction = None
    if row.predicted is not None:
        prediction = StoredPrediction(row.predicted, json.loads(row.probabilities), row.certainty, row.suspicion)
    return StoredInteraction(
        key=f"t{row.number}" if row.number is not None and not row.came else f"n{row.serial}",
        interaction=interaction, reviewed=row.reviewed, prediction=prediction, serial=row.serial, number=row.number,
        came=row.came, opinions=row.opinions, disputed=row.disputed, waiting=bool(row.waiting),
        claimed_by=row.claimed_by, state=getattr(row, "state", None), occurrence=row.occurrence,
    )  # fmt: skip
