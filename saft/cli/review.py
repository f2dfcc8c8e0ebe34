"""Commands around the database of a server: ``saft export`` and ``saft reviewer``. They work while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from saft.cli.console import plain, say, show
from saft.cli.model import Out
from saft.cli.serve import require_extra
from saft.errors import InputError

if TYPE_CHECKING:
    from saft.server.database import Database

Where = Annotated[
    str, typer.Option("--database", help="The server's file, or postgresql://user@host/name.", show_default=False)
]
Name = Annotated[str, typer.Argument(help="The reviewer's name.", show_default=False)]

reviewer = typer.Typer(no_args_is_help=True, help="Reviewers of a server: who they are, and what they may do.")


def export(
    database: Annotated[
        str, typer.Argument(help="The server's file, or postgresql://user@host/name.", show_default=False)
    ],
    out: Out,
    what: Annotated[
        Literal["verdicts", "audit"], typer.Option(help="Interactions with their last verdict, or who did what when.")
    ] = "verdicts",
) -> None:
    """Write what a server has stored: interactions with their last verdict, its reviewer and time, as a table."""
    from saft.writing import refuse_other_endings, write_table

    refuse_other_endings(out)
    with opened(database) as found:
        from saft.server.exporting import audit_table, verdict_table

        table = verdict_table(found) if what == "verdicts" else audit_table(found)
    write_table(table, out)
    judged = f", {table['verdict'].count():,} of them judged" if what == "verdicts" else ""
    show(plain(f"{len(table):,} rows{judged}\nTable: {out}"))


@reviewer.command("add")
def add(
    name: Name,
    database: Where,
    role: Annotated[str, typer.Option(help="read, review or administer; each may do what those before it may.")] = (
        "review"
    ),
) -> None:
    """Let somebody review under their own name. Prints their token, which is shown this once."""
    with opened(database, create=True) as found:
        from saft.server import team

        token = team.add(found, name, role)
    say(plain(f"{name} signs in with this token (it is not stored, so it cannot be shown again):"))
    show(plain(token))


@reviewer.command("list")
def members(database: Where) -> None:
    """Names and roles."""
    with opened(database) as found:
        from saft.server import team

        for name, role in team.members(found):
            show(plain(f"{name}: {role}"))


@reviewer.command("remove")
def remove(name: Name, database: Where) -> None:
    """Refuse somebody's token from now on; their verdicts stay."""
    with opened(database) as found:
        from saft.server import team

        team.remove(found, name)
    show(plain(f"{name} was removed."))


@contextmanager
def opened(where: str, create: bool = False) -> Iterator[Database]:
    """The database, in the present format."""
    require_extra()
    from saft.server.database import Database
    from saft.server.tables import FORMAT

    database = Database(where)
    found = database.check()
    if not found and not create:
        raise InputError(f"There is no database of a server in {database.name}.")
    try:
        if found != FORMAT:
            database.serve_alone()
            with database.opening():
                pass
        if database.copy is not None:
            say(plain(f"The database has a new format now; as it was before, it is in {database.copy}."))
        yield database
    finally:
        database.close()
