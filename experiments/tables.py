"""A table of the paper as a plan: which rows, on which networks, with which settings and seeds, and what was published.

One TOML file per table or figure in ``experiments/tables/``; CONTRIBUTING.md says how to add one.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from saft.data.splits import FRACTIONS
from saft.errors import InputError, did_you_mean
from saft.methods import find

FOLDER = Path(__file__).parent / "tables"
PRESETS = Path(__file__).parent / "presets.toml"


@dataclass(frozen=True)
class Sample:
    """The k-core of the latest interactions, the shortest time for which it holds at least this many."""

    core: int
    least: int


@dataclass(frozen=True)
class Row:
    """A line of a table.

    Args:
        name: of the line; results carry it as ``method``.
        method: which of ``saft.methods`` it is; by default the same as the name.
        preset: which of the paper's settings it takes on networks that the paper has some for, e.g. ``lga``.
        results: another table that has this line already; it is not run again, and shown from there.
        result: its name there, if it is another.
        whole: the complete row, of which this one leaves out a part.
    """

    name: str
    method: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = ""
    results: str = ""
    result: str = ""
    whole: str = ""


@dataclass(frozen=True)
class Network:
    """A network in a table, and the settings of all rows on it.

    Args:
        labelled: share of the interactions that are for training, and a seventh as many for validation; all others are
            for the test. None means 70, 10 and 20 %.
    """

    name: str
    sample: Sample | None
    settings: Mapping[str, Any]
    labelled: float | None = None

    @property
    def title(self) -> str:
        """The column of the table."""
        return self.name if self.labelled is None else f"{self.name}, {self.labelled:.0%}"

    @property
    def fractions(self) -> tuple[float, float, float]:
        """Of training, validation and test rows."""
        if self.labelled is None:
            return FRACTIONS
        return self.labelled, self.labelled / 7, 1 - self.labelled * 8 / 7


@dataclass(frozen=True)
class Run:
    """One cell of a table, on one split."""

    table: str
    row: Row
    network: Network
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.network.title, self.row.name, self.seed

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Run:
        parts = json.loads(text)
        network, sample = parts["network"], parts["network"]["sample"]
        network = Network(**{**network, "sample": None if sample is None else Sample(**sample)})
        return cls(parts["table"], Row(**parts["row"]), network, parts["seed"])

    def shared(self) -> dict[str, Any]:
        """Settings of all rows on this network, and those of the paper's preset that the row names."""
        preset = presets().get(self.network.name, {}).get(self.row.preset, {}) if self.row.preset else {}
        return {**self.network.settings, **preset}

    def described(self) -> dict[str, Any]:
        """All that decides its outcome but the code: a result with the same values need not be computed again."""
        sample = self.network.sample
        described = {
            "base": self.row.method,
            "given": {**self.shared(), **self.row.settings},
            "sample": None if sample is None else asdict(sample),
        }
        return described if self.network.labelled is None else described | {"labelled": self.network.labelled}


@dataclass(frozen=True)
class Table:
    """
    Args:
        place: its position in the report.
        remark: what a reader of its figures has to know, if anything.
        published: network → line → (Macro-F1, Micro-F1) as the paper prints them, per cent; nan where it prints none,
            words like OOT (out of time) where it does.
        kind: ``scores`` are shown as a table, ``sweep`` and ``time`` as curves and bars too.
    """

    name: str
    title: str
    place: int
    paper: str
    kind: str
    rows: Sequence[Row]
    networks: Sequence[Network]
    seeds: Sequence[int]
    published: Mapping[str, Mapping[str, Sequence[float | str]]]
    remark: str = ""

    def runs(self) -> Iterator[Run]:
        """Seed after seed, so that a table that is stopped early has all rows of the first seeds."""
        for seed in self.seeds:
            for network in self.networks:
                for row in self.rows:
                    if not row.results:
                        yield Run(self.name, row, network, seed)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_table(name: str, folder: Path = FOLDER) -> Table:
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = sorted(other.stem for other in folder.glob("*.toml"))
        raise InputError(f"There is no table {name!r}.{did_you_mean(name, known)} Known are {', '.join(known)}.")
    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path.name} is not TOML: {error}.") from error
    _check_keys(plan, ("title", "place", "paper", "remark", "kind", "seeds", "network", "row", "published"), path.name)
    rows = [_row(entry, path.name) for entry in plan["row"]]
    twice = {row.name for row in rows if [other.name for other in rows].count(row.name) > 1}
    if twice:
        raise InputError(f"{path.name} has several rows called {', '.join(sorted(twice))}.")
    for row in rows:
        if row.whole and row.whole not in {other.name for other in rows}:
            raise InputError(f"{path.name}: the row {row.name} is a part of {row.whole}, which is not there.")
    return Table(
        name=name,
        title=plan["title"],
        place=plan.get("place", 0),
        paper=plan.get("paper", ""),
        kind=plan.get("kind", "scores"),
        rows=rows,
        networks=[network for entry in plan["network"] for network in _networks(entry, path.name)],
        seeds=plan["seeds"],
        published=plan.get("published", {}),
        remark=plan.get("remark", ""),
    )


def presets() -> dict[str, dict[str, dict[str, Any]]]:
    """network → ``lga`` or ``gau`` → the paper's settings."""
    return tomllib.loads(PRESETS.read_text(encoding="utf-8"))


def _row(entry: dict[str, Any], where: str) -> Row:
    _check_keys(entry, ("name", "method", "title", "settings", "preset", "from", "as", "whole"), where)
    method = entry.get("method", entry["name"])
    return Row(
        name=entry["name"],
        method=method,
        title=entry.get("title") or find(method).title,
        settings=entry.get("settings", {}),
        preset=entry.get("preset", ""),
        results=entry.get("from", ""),
        result=entry.get("as", entry["name"]),
        whole=entry.get("whole", ""),
    )


def _networks(entry: dict[str, Any], where: str) -> list[Network]:
    _check_keys(entry, ("names", "sample", "settings", "labelled"), where)
    sample = Sample(**entry["sample"]) if "sample" in entry else None
    return [
        Network(name, sample, entry.get("settings", {}), share)
        for name in entry["names"]
        for share in entry.get("labelled", [None])
    ]


def _check_keys(entry: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in entry:
        if key not in known:
            raise InputError(f"{where} has an unknown entry {key!r}.{did_you_mean(key, known)}")
