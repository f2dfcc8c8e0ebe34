"""The card of a network: where it comes from, how it is made from the original files, and what has to come out.

A card is a file ``NAME.toml`` beside this one. Its texts are for people, and for the messages that say which files to
put where; its other values control :mod:`experiments.datasets.building`.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from saft.errors import InputError, did_you_mean

FOLDER = Path(__file__).parent
ROLES = ("user", "item", "text", "label", "time")
LAYOUTS = ("amazon", "goodreads", "google_local", "rent_the_runway", "table")


@dataclass(frozen=True)
class Counts:
    """What has to come out, or, if not ``exact``, what the paper printed about a filter that it did not publish."""

    users: int
    items: int
    interactions: int
    classes: int
    exact: bool = True

    def __str__(self) -> str:
        return (
            f"{self.users:,} users, {self.items:,} items, {self.interactions:,} interactions and {self.classes} classes"
        )


@dataclass(frozen=True)
class Card:
    """The description of a network.

    Args:
        title: as the paper, or the collection, calls it.
        source: whose collection it is, with a citation.
        licence: in words; "not stated" where none is stated.
        layout: how the original files are to be read; ``table`` if there is nothing but the finished Parquet file.
        label_rule: what the classes are, in words.
        made: what is done to the original files, and what is not known about it, in words.
        counts: what comes out of it.
        files: names of the original files.
        columns: role → what the original files call it.
        k_core: every user and item is left with so many interactions; 1 leaves all of them.
        empty_texts: ``keep`` or ``drop`` interactions without a text.
        home: the collection's page.
        package: the release on the Python package index that brings the files, so that anyone can fetch them.
        sha256: file → expected checksum, for files that we know.
    """

    name: str
    title: str
    source: str
    licence: str
    layout: str
    label_rule: str
    made: str
    counts: Counts
    files: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    k_core: int = 1
    empty_texts: str = "keep"
    home: str = ""
    package: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)

    def how_to_get_it(self, folder: Path) -> str:
        """What to do if it is not in the folder, for a message."""
        if self.package:
            return f"Fetch it with: python -m experiments fetch {self.name} --data {folder}"
        origin = self.source + (f" ({self.home})" if self.home else "")
        if not self.files:
            return f"Put {self.name}.parquet with columns {', '.join(ROLES)} there. It comes from {origin}."
        return f"Put {' and '.join(self.files)} there, as downloaded. It comes from {origin}."


def names() -> list[str]:
    """All networks that have a card."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def find(name: str) -> Card:
    """The card of this network."""
    if name not in names():
        raise InputError(f"There is no network {name!r}.{did_you_mean(name, names())} Known are {', '.join(names())}.")
    where = f"{name}.toml"
    values = tomllib.loads((FOLDER / where).read_text(encoding="utf-8"))
    _check_keys(values, Card, where, given=("name",))
    _check_keys(values["counts"], Counts, f"{where}, [counts]")
    card = Card(name=name, **{**values, "counts": Counts(**values["counts"]), "files": tuple(values.get("files", ()))})
    _check_choices(card, where)
    return card


def _check_keys(values: Mapping[str, Any], kind: type, where: str, given: tuple[str, ...] = ()) -> None:
    known = {one.name: one for one in fields(kind) if one.name not in given}
    for key in values:
        if key not in known:
            raise InputError(f"{where}: a card has no key {key!r}.{did_you_mean(key, known)}")
    for key, one in known.items():
        if key not in values and one.default is MISSING and one.default_factory is MISSING:
            raise InputError(f"{where}: {key} is missing.")


def _check_choices(card: Card, where: str) -> None:
    for key, value, choices in (
        ("layout", card.layout, LAYOUTS),
        ("empty_texts", card.empty_texts, ("keep", "drop")),
    ):
        if value not in choices:
            raise InputError(f"{where}: {key} cannot be {value!r}. Known are {', '.join(choices)}.")
    if card.layout != "table" and (set(card.columns) != set(ROLES) or not card.files):
        raise InputError(f"{where}: [columns] has to name the {', '.join(ROLES)}, and files the original files.")
