"""Migrations: what brings a store of an earlier format to the next one. Each runs inside of one transaction.

A migration names tables and columns as they were then, so that it stays right when they change again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, insert

from saft.online.live import Interaction
from saft.server.audit import record
from saft.server.identity import digest_of, draw_of
from saft.server.ledger import refresh, standing
from saft.server.tables import facts, interactions, metadata, models, verdicts

Row = Any


def _one_to_two(connection: Connection) -> None:
    """Verdicts belonged to row numbers of one model; they now belong to interactions."""
    connection.exec_driver_sql("ALTER TABLE interactions RENAME TO old_interactions")
    connection.exec_driver_sql("ALTER TABLE verdicts RENAME TO old_verdicts")
    connection.exec_driver_sql("ALTER TABLE facts RENAME TO old_facts")
    metadata.create_all(connection)
    columns = "serial, number, user, item, text, time, attributes, given, label, reviewed"
    rows = connection.exec_driver_sql(f"SELECT {columns} FROM old_interactions ORDER BY serial").all()  # noqa: S608
    _move_interactions(connection, rows)
    _move_predictions(connection)
    _move_verdicts(connection, rows)
    _keep_counting(connection)
    for table in ("old_verdicts", "old_interactions", "old_facts"):
        connection.exec_driver_sql(f"DROP TABLE {table}")
    connection.execute(insert(facts).values(name="format", value="2"))
    record(connection, None, "migration", format=2, interactions=len(rows))


def _move_interactions(connection: Connection, rows: Sequence[Row]) -> None:
    seen: dict[str, int] = {}
    # Rows of the training first: a row that came in while serving and equals one of them came after it.
    for row in sorted(rows, key=lambda row: (row.number is None, row.number or 0, row.serial)):
        digest = digest_of(Interaction(row.user, row.item, row.text, time=row.time))
        seen[digest] = seen.get(digest, -1) + 1
        connection.execute(
            insert(interactions).values(
                serial=row.serial, digest=digest, occurrence=seen[digest], draw=draw_of(digest), user=row.user,
                item=row.item, text=row.text, time=row.time, attributes=row.attributes, given=row.given,
                label=row.given, came=row.number is None,
            )
        )  # fmt: skip


def _move_predictions(connection: Connection) -> None:
    fingerprint = connection.exec_driver_sql("SELECT value FROM old_facts WHERE name = 'model'").scalar()
    if fingerprint is None:  # no start was ever completed
        return
    connection.execute(insert(models).values(fingerprint=fingerprint, complete=True))
    connection.exec_driver_sql(
        "INSERT INTO served SELECT model, serial, number, number IS NOT NULL AND given IS NOT NULL, given IS NULL, "
        "predicted, probabilities, certainty, suspicion, state FROM old_interactions, models"
    )


def _keep_counting(connection: Connection) -> None:
    """Numbers that were given out once are not given to other interactions."""
    for table in ("interactions", "verdicts"):
        given_out = f"SELECT seq FROM sqlite_sequence WHERE name = 'old_{table}'"  # noqa: S608 (our own names)
        connection.exec_driver_sql(f"DELETE FROM sqlite_sequence WHERE name = '{table}'")  # noqa: S608
        most = f"SELECT max((SELECT coalesce(max(serial), 0) FROM {table}), coalesce(({given_out}), 0))"  # noqa: S608
        connection.exec_driver_sql(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('{table}', ({most}))")  # noqa: S608


def _move_verdicts(connection: Connection, rows: Sequence[Row]) -> None:
    """Replay the log; a null took everything back. What was said of rows that are gone goes to the audit log."""
    of_key = {f"n{row.serial}" if row.number is None else f"t{row.number}": row for row in rows}
    log: dict[str, list[Row]] = {}
    for entry in connection.exec_driver_sql("SELECT * FROM old_verdicts ORDER BY serial").all():
        log.setdefault(entry.interaction, []).append(entry)
    ours = _of_this_model(connection, of_key, log)
    for entry in sorted((one for entries in ours.values() for one in entries), key=lambda one: one.serial):
        serial = of_key[entry.interaction].serial
        signed = {"interaction": serial, "reviewer": entry.reviewer, "at": entry.at}
        if entry.label is not None:
            connection.execute(insert(verdicts).values(label=entry.label, **signed))
            continue
        for verdict in reversed(standing(connection, serial)):
            connection.execute(insert(verdicts).values(undoes=verdict.serial, **signed))
    refresh(connection, [of_key[key].serial for key in ours])
    for key, entries in log.items():
        for entry in entries[: len(entries) - len(ours.get(key, []))]:
            detail = {"key": key, "label": entry.label, "at": entry.at}
            record(connection, entry.reviewer, "verdict of an earlier model", **detail)


def _of_this_model(connection: Connection, of_key: dict[str, Row], log: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Key → the entries that are about the row that is there now.

    With another model, format 1 deleted the rows of training and gave their keys to other rows. If rows are missing,
    that has happened, and only a last entry that agrees with its row is surely about it.
    """
    given_out = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'old_interactions'").scalar()
    complete = len(of_key) == (given_out or 0)
    found = {}
    for key, entries in log.items():
        row = of_key.get(key)
        if row is None:
            continue
        if complete or row.number is None:
            found[key] = entries
        elif row.reviewed and row.label == entries[-1].label:
            found[key] = entries[-1:]
    return found


MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: _one_to_two}  # the format that it starts from
