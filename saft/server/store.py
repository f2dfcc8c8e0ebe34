"""Store: interactions and verdicts that came in while serving, in one SQLite file. What was acknowledged is on disk.

Every write is a transaction in write-ahead mode, synced before it returns: a crash of the process or of the machine
loses nothing that was acknowledged. To be used from one thread.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from saft.errors import InputError
from saft.online.live import Interaction

FORMAT = 1
ORDERS = {  # name → (column, direction); ties go by arrival
    "suspicious": ("suspicion", "DESC"),
    "uncertain": ("certainty", "ASC"),
    "newest": ("serial", "DESC"),
    "oldest": ("serial", "ASC"),
}
_TABLES = """
CREATE TABLE interactions (
    serial INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER UNIQUE,          -- row in the table of training, NULL if it came in while serving
    user TEXT NOT NULL, item TEXT NOT NULL, text TEXT NOT NULL, time TEXT, attributes TEXT NOT NULL,
    given TEXT,                     -- label that it came in with
    label TEXT,                     -- the reviewer's verdict, else the given label
    reviewed INTEGER NOT NULL DEFAULT 0,
    predicted TEXT NOT NULL, probabilities TEXT NOT NULL, certainty REAL NOT NULL, suspicion REAL NOT NULL,
    state BLOB NOT NULL             -- its message state, in half precision
);
CREATE INDEX by_user ON interactions (user);
CREATE INDEX by_item ON interactions (item);
CREATE INDEX by_suspicion ON interactions (suspicion DESC, serial);
CREATE INDEX by_certainty ON interactions (certainty, serial);
CREATE TABLE verdicts (
    serial INTEGER PRIMARY KEY AUTOINCREMENT,
    interaction TEXT NOT NULL, label TEXT, reviewer TEXT, at REAL NOT NULL
);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO facts VALUES ('format', '1');
"""


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


@dataclass(frozen=True)
class Filter:
    user: str | None = None
    item: str | None = None
    label: str | None = None  # given or decided
    predicted: str | None = None
    reviewed: bool | None = None
    labelled: bool | None = None


class Store:
    """
    Args:
        path: the file; created if it does not exist.
        model: fingerprint of the model that serves. Message states and rows of training belong to one model; with
            another they are dropped, and interactions and verdicts on them are kept.
    """

    def __init__(self, path: Path, model: str) -> None:
        self.path = path
        try:
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=5000;")
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path} cannot be used to keep interactions: {error}.") from error
        self._model, self.same_model = model, self._fact("model") == model
        if not self.same_model:
            with self._transaction():
                self._database.execute("DELETE FROM interactions WHERE number IS NOT NULL")

    def mark_current(self) -> None:
        """Record that all states are this model's. Called last, so that an interrupted start is repeated in full."""
        with self._transaction():
            self._database.execute("INSERT OR REPLACE INTO facts VALUES ('model', ?)", (self._model,))

    def close(self) -> None:
        self._database.close()

    def __len__(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM interactions").fetchone()[0])

    def add(
        self,
        interactions: Sequence[Interaction],
        predictions: Sequence[StoredPrediction],
        states: np.ndarray,
        numbers: Sequence[int | None],
    ) -> list[str]:
        """Store interactions, all of them or none; returns their keys, in order."""
        keys = []
        with self._transaction():
            for one, prediction, state, number in zip(interactions, predictions, states, numbers, strict=True):
                cursor = self._database.execute(
                    "INSERT INTO interactions (number, user, item, text, time, attributes, given, label, predicted, "
                    "probabilities, certainty, suspicion, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        number, one.user, one.item, one.text, one.time, json.dumps(one.attributes),
                        *[None if one.label is None else str(one.label)] * 2, *_columns(prediction), state.tobytes(),
                    ),
                )  # fmt: skip
                keys.append(f"n{cursor.lastrowid}" if number is None else f"t{number}")
        return keys

    def update_prediction(self, key: str, prediction: StoredPrediction) -> None:
        """Replace the stored prediction of an interaction."""
        with self._transaction():
            where, value = _where(key)
            self._database.execute(
                f"UPDATE interactions SET predicted=?, probabilities=?, certainty=?, suspicion=? WHERE {where}",  # noqa: S608
                (*_columns(prediction), value),
            )

    def add_verdict(self, key: str, label: str | None, reviewer: str | None) -> None:
        """A verdict; None restores the label that the interaction came in with. All are kept, the last one counts."""
        with self._transaction():
            where, value = _where(key)
            self._database.execute(
                f"UPDATE interactions SET label=COALESCE(?, given), reviewed=? WHERE {where}",  # noqa: S608
                (label, label is not None, value),
            )
            self._database.execute(
                "INSERT INTO verdicts (interaction, label, reviewer, at) VALUES (?, ?, ?, ?)",
                (key, label, reviewer, time.time()),
            )

    def find(self, key: str) -> StoredInteraction | None:
        where, value = _where(key)
        row = self._database.execute(f"{_SELECT} WHERE {where}", (value,)).fetchone()
        return None if row is None else _stored(row)

    def page(
        self, wanted: Filter, order: str, limit: int, after: str | None
    ) -> tuple[list[StoredInteraction], str | None]:
        """Up to ``limit`` interactions, and the cursor of the next page (None on the last one)."""
        column, direction = ORDERS[order]
        conditions, values = _conditions(wanted)
        if after is not None:
            beyond = "<" if direction == "DESC" else ">"
            value, serial = _cursor(after)
            if column == "serial":
                conditions.append(f"serial {beyond} ?")
                values.append(serial)
            else:
                conditions.append(f"({column} {beyond} ? OR ({column} = ? AND serial > ?))")
                values += [value, value, serial]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        # Only names of columns are put into the query; values from a request are always parameters.
        query = f"{_SELECT} {where} ORDER BY {column} {direction}, serial LIMIT ?"
        rows = self._database.execute(query, (*values, limit + 1)).fetchall()
        following = None
        if len(rows) > limit:
            last = rows[limit - 1]
            following = f"{json.dumps(last['certainty' if column == 'certainty' else 'suspicion'])}:{last['serial']}"
        return [_stored(row) for row in rows[:limit]], following

    def count(self, wanted: Filter) -> int:
        conditions, values = _conditions(wanted)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT count(*) FROM interactions {where}"  # noqa: S608
        return int(self._database.execute(query, values).fetchone()[0])

    def added(self, at_once: int = 1000) -> Iterator[list[tuple[int, Interaction, bytes]]]:
        """(serial, interaction, state) of all that came in, in order, in portions."""
        cursor = self._database.execute("SELECT * FROM interactions WHERE number IS NULL ORDER BY serial")
        while rows := cursor.fetchmany(at_once):
            yield [(row["serial"], _stored(row).interaction, row["state"]) for row in rows]

    def decided(self) -> list[tuple[int, str]]:
        """(number, label) of rows of training that a reviewer has decided."""
        rows = self._database.execute("SELECT number, label FROM interactions WHERE number IS NOT NULL AND reviewed")
        return [(row["number"], row["label"]) for row in rows]

    def update_states(self, serials: Sequence[int], states: np.ndarray) -> None:
        """Replace message states by those of another model."""
        with self._transaction():
            self._database.executemany(
                "UPDATE interactions SET state=? WHERE serial=?",
                [(state.tobytes(), serial) for serial, state in zip(serials, states, strict=True)],
            )

    def verdicts(self) -> int:
        return int(self._database.execute("SELECT count(*) FROM verdicts").fetchone()[0])

    def _prepare(self) -> None:
        self._database.row_factory = sqlite3.Row
        there = self._database.execute("SELECT name FROM sqlite_master WHERE name='facts'").fetchone()
        if there is None:
            self._database.executescript(f"BEGIN; {_TABLES} COMMIT;")
        if int(self._fact("format") or 0) > FORMAT:
            raise InputError(f"{self.path} was written by a newer saft. Update saft, or move the file away.")

    def _fact(self, name: str) -> str | None:
        row = self._database.execute("SELECT value FROM facts WHERE name=?", (name,)).fetchone()
        return None if row is None else str(row["value"])

    def _transaction(self) -> _Transaction:
        return _Transaction(self._database)


class _Transaction:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, failed: object, *_: object) -> None:
        self._database.execute("ROLLBACK" if failed else "COMMIT")


_SELECT = "SELECT * FROM interactions"


def _where(key: str) -> tuple[str, int]:
    return ("number = ?" if key[0] == "t" else "serial = ? AND number IS NULL"), int(key[1:])


def _conditions(wanted: Filter) -> tuple[list[str], list[Any]]:
    conditions, values = [], []
    for column in ("user", "item", "label", "predicted"):
        if getattr(wanted, column) is not None:
            conditions.append(f"{column} = ?")
            values.append(getattr(wanted, column))
    if wanted.reviewed is not None:
        conditions.append("reviewed" if wanted.reviewed else "NOT reviewed")
    if wanted.labelled is not None:
        conditions.append("label IS NOT NULL" if wanted.labelled else "label IS NULL")
    return conditions, values


def _cursor(after: str) -> tuple[float, int]:
    value, _, serial = after.partition(":")
    try:
        return float(value), int(serial)
    except ValueError as error:
        raise InputError("`after` has to be what an earlier answer gave as `next`.") from error


def _columns(prediction: StoredPrediction) -> tuple[str, str, float, float]:
    return prediction.label, json.dumps(prediction.probabilities), prediction.certainty, prediction.suspicion


def _stored(row: sqlite3.Row) -> StoredInteraction:
    interaction = Interaction(
        row["user"], row["item"], row["text"], row["label"], row["time"], json.loads(row["attributes"])
    )
    prediction = StoredPrediction(
        row["predicted"], json.loads(row["probabilities"]), row["certainty"], row["suspicion"]
    )
    key = f"n{row['serial']}" if row["number"] is None else f"t{row['number']}"
    return StoredInteraction(key, interaction, bool(row["reviewed"]), prediction)
