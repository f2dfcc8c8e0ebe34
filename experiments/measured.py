"""The finished runs of a table, cell by cell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.results import FOLDER, Result, run_status
from experiments.tables import Row, Table, read_table

SCORES = (("macro_f1", "Macro-F1"), ("micro_f1", "Micro-F1"))


@dataclass(frozen=True)
class Measured:
    """A table's finished runs by (network, row), seed by seed."""

    table: Table
    cells: dict[tuple[str, str], dict[int, Result]]
    failed: list[Result]
    outdated: int

    @property
    def networks(self) -> list[str]:
        """Those with a result, in the table's order; lines from another table alone compare nothing."""
        own = {row.name for row in self.table.rows if not row.results} or {row.name for row in self.table.rows}
        found = {network for network, row in self.cells if row in own}
        return [one.title for one in self.table.networks if one.title in found]

    def values(self, network: str, row: str, score: str) -> dict[int, float]:
        """seed → score."""
        return {seed: result[score] for seed, result in self.cells.get((network, row), {}).items()}

    def shared_values(self, network: str, row: str, score: str) -> list[float]:
        """Scores of the seeds that all rows of this network have: splits differ by more than methods do, so figures
        that stand in one column must be of the same ones. All of the row's where rows have none in common.
        """
        of_rows = [set(seeds) for (where, _), seeds in self.cells.items() if where == network]
        shared = set.intersection(*of_rows) if of_rows else set()
        return [value for seed, value in self.values(network, row, score).items() if not shared or seed in shared]

    def counts(self) -> list[int]:
        """How many splits the means of columns are made of, ascending."""
        return sorted({len(self.shared_values(*cell, SCORES[0][0])) for cell in self.cells})

    def means(self, network: str, score: str) -> dict[str, float]:
        """row → mean over the seeds that all have, for rows that have a result."""
        values = {row.name: self.shared_values(network, row.name, score) for row in self.table.rows}
        return {row: float(np.mean(cell)) for row, cell in values.items() if cell}

    def row(self, name: str) -> Row:
        return next(row for row in self.table.rows if row.name == name)


def measured(table: Table, folder: Path = FOLDER) -> Measured:
    """The finished runs of a table, including rows that are taken from another table."""
    known = run_status(table, folder)
    cells: dict[tuple[str, str], dict[int, Result]] = {}
    for (network, line, seed), result in known.done.items():
        cells.setdefault((network, line), {})[seed] = result
    for row in table.rows:
        if row.results:
            other = run_status(read_table(row.results), folder).done
            wanted = {network.title for network in table.networks}
            for (network, line, seed), result in other.items():
                if line == row.result and network in wanted and seed in table.seeds:
                    cells.setdefault((network, row.name), {})[seed] = result
    return Measured(table, cells, list(known.failed.values()), known.outdated)
