"""The tables of the store in their present format, for SQLite and PostgreSQL alike.

What an interaction is and what reviewers said of it stands apart from what one model says of it (``served``): another
model adds rows there, and nothing else changes.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
)

FORMAT = 2

metadata = MetaData()
_Number = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only what is called INTEGER


def _serial() -> Column[int]:
    return Column("serial", _Number, primary_key=True, autoincrement=True)


facts = Table("facts", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

interactions = Table(
    "interactions",
    metadata,
    _serial(),
    Column("digest", Text, nullable=False),
    Column("occurrence", Integer, nullable=False),  # 1 for the second interaction with the same digest, and so on
    Column("draw", Float(53), nullable=False),  # in [0, 1), decides whether it gets a second opinion
    Column("user", Text, nullable=False),
    Column("item", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("time", Text),
    Column("attributes", Text, nullable=False),
    Column("given", Text),  # label that it came in with
    Column("came", Boolean, nullable=False),  # it came in while serving; False for a row of a table of training
    Column("label", Text),  # the last verdict, else the given label
    Column("reviewed", Boolean, nullable=False, default=False),
    Column("opinions", Integer, nullable=False, default=0),  # reviewers whose verdict stands
    Column("disputed", Boolean, nullable=False, default=False),  # no class has more than half of them
    Column("at", Float(53)),
    UniqueConstraint("digest", "occurrence"),
    Index("interactions_by_user", "user"),
    Index("interactions_by_item", "item"),
    Index("interactions_by_reviewed", "reviewed"),
    Index("interactions_by_disputed", "disputed"),
    sqlite_autoincrement=True,
)

models = Table(
    "models",
    metadata,
    Column("model", _Number, primary_key=True, autoincrement=True),
    Column("fingerprint", Text, nullable=False, unique=True),
    Column("suspicious", Text),  # the class whose probability is the suspicion
    Column("complete", Boolean, nullable=False, default=False),  # a start with it was finished
    Column("opened", Float(53)),
)

served = Table(
    "served",
    metadata,
    Column("model", _Number, ForeignKey("models.model"), primary_key=True),
    Column("interaction", _Number, ForeignKey("interactions.serial"), primary_key=True),
    Column("number", Integer),  # its row in the model's table of training, if it is one
    Column("known", Boolean, nullable=False, default=False),  # that table has its label, shown to the model or not
    Column("waiting", Boolean, nullable=False),  # for a verdict, or for a second one
    Column("predicted", Text, nullable=False),
    Column("probabilities", Text, nullable=False),
    Column("certainty", Float(53), nullable=False),
    Column("suspicion", Float(53), nullable=False),
    Column("state", LargeBinary, nullable=False),  # its message state, in half precision
    UniqueConstraint("model", "number"),
)
for _name in ("suspicion", "certainty"):
    _column = served.c[_name].desc() if _name == "suspicion" else served.c[_name]
    Index(f"served_by_{_name}", served.c.model, _column, served.c.interaction)
    Index(f"waiting_by_{_name}", served.c.model, served.c.waiting, _column, served.c.interaction)

# Only ever added to: a verdict that is taken back stays, and a row that undoes it follows.
verdicts = Table(
    "verdicts",
    metadata,
    _serial(),
    Column("interaction", _Number, ForeignKey("interactions.serial"), nullable=False),
    Column("label", Text),
    Column("reviewer", Text),
    Column("note", Text),
    Column("batch", Text),  # shared by verdicts of one request
    Column("at", Float(53), nullable=False),
    Column("undoes", _Number, ForeignKey("verdicts.serial")),
    Index("verdicts_by_interaction", "interaction"),
    Index("verdicts_by_batch", "batch"),
    Index("verdicts_by_reviewer", "reviewer"),
    sqlite_autoincrement=True,
)

claims = Table(
    "claims",
    metadata,
    Column("interaction", _Number, ForeignKey("interactions.serial"), primary_key=True),
    Column("reviewer", Text, nullable=False),
    Column("until", Float(53), nullable=False),
    Index("claims_by_reviewer", "reviewer"),
)

reviewers = Table(
    "reviewers",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("token_hash", Text, nullable=False, unique=True),
    Column("added", Float(53), nullable=False),
    Column("removed", Float(53)),  # the name stays: verdicts are signed with it
)

audit = Table(
    "audit",
    metadata,
    _serial(),
    Column("at", Float(53), nullable=False),
    Column("who", Text),
    Column("action", Text, nullable=False),
    Column("detail", Text, nullable=False),
    sqlite_autoincrement=True,
)


def _ddl(statement: str) -> DDL:
    return DDL(statement)  # type: ignore[no-untyped-call]


def _only_added_to(table: Table) -> None:
    """Let the database itself refuse to change or remove rows of this table."""
    name = table.name
    for change in ("UPDATE", "DELETE"):
        refusal = f"CREATE TRIGGER {name}_no_{change.lower()} BEFORE {change} ON {name} "
        sqlite = f"{refusal} BEGIN SELECT RAISE(ABORT, '{name} is only ever added to'); END"
        event.listen(table, "after_create", _ddl(sqlite).execute_if(dialect="sqlite"))
        postgres = f"{refusal} FOR EACH STATEMENT EXECUTE FUNCTION saft_only_added_to()"
        event.listen(table, "after_create", _ddl(postgres).execute_if(dialect="postgresql"))


_REFUSE = _ddl(
    "CREATE OR REPLACE FUNCTION saft_only_added_to() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || '' is only ever added to''; END'"
)
event.listen(metadata, "before_create", _REFUSE.execute_if(dialect="postgresql"))
_only_added_to(verdicts)
_only_added_to(audit)
