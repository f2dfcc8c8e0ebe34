"""Database: one SQLite file or one PostgreSQL database; its transactions, its format, and who may serve from it.

Written with SQLAlchemy Core: one text of every query for both, parameters always bound, and a pool that reconnects.
PostgreSQL is reached through psycopg. Its licence is the LGPL, which asks nothing of a program that uses it unchanged;
it is an extra, not shipped with saft.

Write transactions follow each other, also those of several processes (SQLite has one writer at a time, PostgreSQL is
given a lock): serial numbers are in the order of the commits, so whoever reads on from the last one misses nothing.
"""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, create_engine, event, inspect, select, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool

from saft.errors import InputError, install_command
from saft.server.migrations import MIGRATIONS
from saft.server.tables import FORMAT, facts, interactions, metadata
from saft.writing import replacing

_WRITING, _OPENING = 7238101, 7238102  # PostgreSQL's advisory locks have numbers


class Database:
    """
    Args:
        where: a file, or ``postgresql://user@host/name``. Nothing is opened yet.
    """

    def __init__(self, where: str | Path) -> None:
        self.where, self.url = where, _url(where)
        self.file = Path(self.url.database or "") if self.is_sqlite else None
        self.name = self.url.render_as_string(hide_password=True) if self.file is None else str(self.file)
        if self.file is not None and not self.file.parent.is_dir():
            raise InputError(f"There is no folder {self.file.parent} to keep interactions in.")
        self.copy: Path | None = None  # of the file as it was before its format was changed
        self._engine = self._new_engine()
        self._open: Connection | None = None  # the write transaction that is under way
        # The lock of a process that died is free.
        self._lock = None if self.file is None else FileLock(f"{self.file}.lock", timeout=0, thread_local=False)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    def close(self) -> None:
        self._engine.dispose()
        if self._lock is not None:
            self._lock.release(force=True)  # however often it was asked for

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection; inside of :meth:`writing`, that of the transaction."""
        if self._open is not None:
            yield self._open
            return
        with self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction, on disk when the block ends without an error; one inside another is part of it."""
        if self._open is not None:
            yield self._open
            return
        with self._engine.execution_options(writes=True).begin() as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITING})
            self._open = connection
            try:
                yield connection
            finally:
                self._open = None

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around all that a start writes, with the tables in their present format. In a file it is all or nothing.

        In PostgreSQL others go on working meanwhile: a second start waits, and rows of an unfinished one are completed
        by the next.
        """
        found = self.check()
        with self._told_in_a_sentence():
            if self.file is not None:
                with closing(sqlite3.connect(self.file)) as connection:
                    connection.execute("PRAGMA journal_mode=WAL")  # stays with the file; not within a transaction
                if 0 < found < FORMAT:
                    self.copy = _copied(self.file, found)
                with self.writing() as writing:
                    _upgrade(writing, found)
                    yield
                return
            with self._engine.connect() as connection:
                connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _OPENING})
                connection.commit()  # the lock is the session's; no transaction stays open meanwhile
                try:
                    with self.writing() as writing:
                        _upgrade(writing, self.check())  # another start may have just done it
                    yield
                finally:
                    connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _OPENING})

    def serve_alone(self) -> None:
        """Refuse a second server on one file. PostgreSQL may have several."""
        if self._lock is None:
            return
        try:
            self._lock.acquire()
        except Timeout as error:
            raise InputError(
                f"Another server uses {self.file}. Stop it, choose another --database, or give both of them a "
                "PostgreSQL database (postgresql://…)."
            ) from error
        except OSError as error:
            raise InputError(f"{self.file} cannot be used to keep interactions: {error.strerror or error}.") from error

    def take_lock_of(self, other: Database) -> None:
        """Serve alone from now on instead of ``other``, which this process has opened on the same file."""
        self._lock, other._lock = other._lock, None

    def check(self) -> int:
        """The format of what is there, 0 if nothing is; an error if it cannot be used. Nothing is written."""
        if self.file is not None and not self.file.exists():
            return 0
        try:
            return self._checked()
        except InputError:
            self.close()
            raise

    def _checked(self) -> int:
        with self._told_in_a_sentence(), self.reading() as connection:
            there = set(inspect(connection).get_table_names())
            if facts.name not in there:
                if interactions.name in there:
                    raise InputError(f"{self.name} holds tables of another program. Choose a database of its own.")
                return 0
            found = int(connection.scalar(select(facts.c.value).where(facts.c.name == "format")) or 0)
        if found > FORMAT:
            raise InputError(f"{self.name} was written by a newer saft. Update saft, or choose another database.")
        return found

    def fact(self, name: str) -> str | None:
        with self.reading() as connection:
            return connection.scalar(select(facts.c.value).where(facts.c.name == name))

    def set_fact(self, name: str, value: str) -> None:
        with self.writing() as connection:
            connection.execute(facts.delete().where(facts.c.name == name))
            connection.execute(facts.insert().values(name=name, value=value))

    @contextmanager
    def _told_in_a_sentence(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            reason = str(error.orig).strip().splitlines()[0].rstrip(".")
            raise InputError(f"{self.name} cannot be used to keep interactions: {reason}.") from error

    def _new_engine(self) -> Engine:
        if not self.is_sqlite:
            return create_engine(self.url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        engine = create_engine(self.url, poolclass=QueuePool, connect_args={"check_same_thread": False})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine


def _upgrade(connection: Connection, found: int) -> None:
    """Create the tables, or bring those of an earlier format to the present one, step by step."""
    if not found:
        metadata.create_all(connection)
        connection.execute(facts.insert().values(name="format", value=str(FORMAT)))
    for step in range(found, FORMAT) if found else ():
        MIGRATIONS[step](connection)


def _copied(file: Path, found: int) -> Path:
    """A copy of the file, with a name that says of which format and until when."""
    until = time.strftime("%Y%m%d-%H%M%S")
    copy = file.with_name(f"{file.stem}.format-{found}-until-{until}{file.suffix}")
    with (
        replacing(copy) as temporary,
        closing(sqlite3.connect(file)) as source,
        closing(sqlite3.connect(temporary)) as target,
    ):
        source.backup(target)
    shutil.copymode(file, copy)
    return copy


def _url(where: str | Path) -> URL:
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(where))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError) as error:
        raise InputError(f"{where} is not a database: {error}.") from error
    if url.drivername not in ("postgresql", "postgres"):
        raise InputError(f"--database is a file or postgresql://…; {url.drivername}:// is not known.")
    if importlib.util.find_spec("psycopg") is None:
        raise InputError(f"PostgreSQL needs one more package. Install it with: {install_command('postgres')}")
    return url.set(drivername="postgresql+psycopg")


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # SQLAlchemy is to begin transactions, not Python's module
    # Synced at every commit: what was acknowledged survives a crash of the machine.
    for pragma in ("busy_timeout=5000", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}").close()
    # SQLite's own knows A to Z only.
    connection.create_function("lower", 1, lambda value: value and value.lower(), deterministic=True)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
