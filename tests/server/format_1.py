"""Databases as the first format had them, written with the SQL of that time."""

import json
import sqlite3
from pathlib import Path

import numpy as np

TABLES = """
CREATE TABLE interactions (
    serial INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER UNIQUE,
    user TEXT NOT NULL, item TEXT NOT NULL, text TEXT NOT NULL, time TEXT, attributes TEXT NOT NULL,
    given TEXT, label TEXT, reviewed INTEGER NOT NULL DEFAULT 0,
    predicted TEXT NOT NULL, probabilities TEXT NOT NULL, certainty REAL NOT NULL, suspicion REAL NOT NULL,
    state BLOB NOT NULL
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


class Format1:
    def __init__(self, path: Path, model: str, classes: list[str]) -> None:
        self.database, self.classes = sqlite3.connect(path, isolation_level=None), classes
        self.database.executescript(f"PRAGMA journal_mode=WAL; BEGIN; {TABLES} COMMIT;")
        self.open_with(model)

    def open_with(self, model: str) -> None:
        """Another model deleted the rows of training."""
        self.database.execute("DELETE FROM interactions WHERE number IS NOT NULL")
        self.database.execute("INSERT OR REPLACE INTO facts VALUES ('model', ?)", (model,))

    def add(self, interaction, number: int | None = None, state: np.ndarray | None = None) -> str:
        share = 1 / len(self.classes)
        cursor = self.database.execute(
            "INSERT INTO interactions (number, user, item, text, time, attributes, given, label, predicted, "
            "probabilities, certainty, suspicion, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number, interaction.user, interaction.item, interaction.text, interaction.time,
                json.dumps(interaction.attributes), interaction.label, interaction.label, self.classes[0],
                json.dumps(dict.fromkeys(self.classes, share)), share, share,
                b"" if state is None else state.tobytes(),
            ),
        )  # fmt: skip
        return f"n{cursor.lastrowid}" if number is None else f"t{number}"

    def judge(self, key: str, label: str | None, reviewer: str | None = None, at: float = 1.7e9) -> None:
        where = "number = ?" if key[0] == "t" else "serial = ? AND number IS NULL"
        self.database.execute(
            f"UPDATE interactions SET label=COALESCE(?, given), reviewed=? WHERE {where}",  # noqa: S608
            (label, label is not None, int(key[1:])),
        )
        self.database.execute(
            "INSERT INTO verdicts (interaction, label, reviewer, at) VALUES (?, ?, ?, ?)", (key, label, reviewer, at)
        )

    def close(self) -> None:
        self.database.close()
