"""The team: reviewers with names, roles and tokens. Only a token's hash is stored.

Where nobody was ever added, everybody who can reach the server may do everything, or has to know its one token.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import insert, select, update

from saft.errors import InputError
from saft.server import audit
from saft.server.database import Database
from saft.server.tables import reviewers

ROLES = ("read", "review", "administer")  # each may do what those before it may
LONGEST_NAME = 200


class NotAllowedError(InputError):
    """This caller may not do that."""


@dataclass(frozen=True)
class Caller:
    """Who asks. Without a team that is anybody, with the name that they give, or none."""

    name: str | None = None
    role: str = "administer"

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def signing(self, name: str | None) -> Caller:
        """The same under this name, unless it has one: a reviewer cannot sign for another."""
        return self if self.name is not None or not name else replace(self, name=name)

    @property
    def viewer(self) -> str:
        """As verdicts and claims are compared with it."""
        return self.name or ""


@dataclass(frozen=True)
class Team:
    exists: bool = False  # it stays so when all are removed: nobody is let in by that
    callers: dict[str, Caller] = field(default_factory=dict)  # by the hash of their token

    def caller(self, token: str) -> Caller | None:
        return self.callers.get(_hash(token))


def load(database: Database) -> Team:
    with database.reading() as connection:
        rows = connection.execute(select(reviewers)).all()
    return Team(bool(rows), {row.token_hash: Caller(row.name, row.role) for row in rows if row.removed is None})


def add(database: Database, name: str, role: str) -> str:
    """Add a reviewer, or one who was removed again; returns the token, which is stored nowhere."""
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(f"A reviewer needs a name of 1 to {LONGEST_NAME} printable characters.")
    if role not in ROLES:
        raise InputError(f"There is no role {role!r}. The roles are {', '.join(ROLES)}.")
    token = secrets.token_urlsafe(32)
    values: dict[str, Any] = {"role": role, "token_hash": _hash(token), "added": time.time(), "removed": None}
    with database.writing() as connection:
        known = connection.execute(select(reviewers).where(reviewers.c.name == name)).first()
        if known is not None and known.removed is None:
            raise InputError(
                f"There is a reviewer {name!r} already. Remove them first to give them a new token or role."
            )
        if known is None:
            connection.execute(insert(reviewers).values(name=name, **values))
        else:
            connection.execute(update(reviewers).where(reviewers.c.name == name).values(**values))
        audit.record(connection, None, "reviewer added", name=name, role=role)
    return token


def remove(database: Database, name: str) -> None:
    """From now on their token is refused; their verdicts stay."""
    with database.writing() as connection:
        there = (reviewers.c.name == name) & reviewers.c.removed.is_(None)
        if not connection.execute(update(reviewers).where(there).values(removed=time.time())).rowcount:
            names = connection.scalars(select(reviewers.c.name).where(reviewers.c.removed.is_(None))).all()
            raise InputError(f"There is no reviewer {name!r}. There are: {', '.join(sorted(names)) or 'none'}.")
        audit.record(connection, None, "reviewer removed", name=name)


def members(database: Database) -> list[tuple[str, str]]:
    """Names and roles, by name."""
    with database.reading() as connection:
        rows = connection.execute(select(reviewers).where(reviewers.c.removed.is_(None)).order_by(reviewers.c.name))
        return [(row.name, row.role) for row in rows]


def _hash(token: str) -> str:
    """Tokens are long and random, so a plain hash cannot be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()
