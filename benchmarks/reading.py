"""A million interactions from CSV to a network, against ``pandas.read_csv`` + ``factorize``.

Both end with the same things in memory: every column, coded users, items and labels, and degrees. pandas comes in two
kinds: as ``pip install pandas`` gives it, and with pyarrow beside it, which it then uses to parse with several threads.
The promise is about the first; the second is reported because some people have it.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figure, compare, report_cost

ROWS = 1_000_000


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "interactions.csv"
        write_example(path, ROWS)
        costs = compare("benchmarks.reading", ["saft", "pandas", "pandas_pyarrow"], [str(path)])
    ours, plain, arrow = costs["saft"], costs["pandas"], costs["pandas_pyarrow"]
    rows = f"{ROWS:,} rows of CSV"
    return [
        Figure(f"reading {rows}: speed against pandas", plain.seconds / ours.seconds, "×", ">= 3"),
        Figure(f"reading {rows}: peak memory against pandas", ours.peak_mb / plain.peak_mb, "×", "<= 1"),
        Figure(f"reading {rows}: speed against pandas with pyarrow", arrow.seconds / ours.seconds, "×"),
        Figure(f"reading {rows}: peak memory against pandas with pyarrow", ours.peak_mb / arrow.peak_mb, "×"),
    ]


def write_example(path: Path, rows: int) -> None:
    """The demo marketplace with its times in Unix seconds, as Amazon's exports have them."""
    import polars as pl

    from saft import demo_network

    demo_network(rows).to_frame().with_columns(pl.col("time").dt.epoch("s")).write_csv(path)


def read_with_saft(path: str) -> Callable[[], tuple[Any, ...]]:
    from saft.data.reading import read

    def work() -> tuple[Any, ...]:
        network = read(path)
        return network, network.user_degrees, network.item_degrees

    return work


def read_with_pandas(path: str) -> Callable[[], tuple[Any, ...]]:
    import numpy as np
    import pandas as pd

    def work() -> tuple[Any, ...]:
        table = pd.read_csv(path)
        users, user_ids = pd.factorize(table["user"])
        items, item_ids = pd.factorize(table["item"])
        labels, classes = pd.factorize(table["label"])
        return table, users, user_ids, items, item_ids, labels, classes, np.bincount(users), np.bincount(items)

    return work


if __name__ == "__main__":
    competitor, file = sys.argv[1:]
    if competitor == "pandas":
        sys.modules["pyarrow"] = None  # type: ignore[assignment]  # as on a machine without it
    report_cost(read_with_saft(file) if competitor == "saft" else read_with_pandas(file))
