"""The review queue of a store with many interactions: its first page with the count beside it, claims, and a verdict.

A person waits for these, so they are given in milliseconds; and as ratios to a store with few interactions.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measuring import Figure
from saft.data.demo import demo_network
from saft.online.live import Interaction

MANY, FEW = 100_000, 1_000
REPEATS, AT_ONCE = 20, 5_000


def figures(many: int = MANY, few: int = FEW) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        stores = {size: _filled(Path(folder) / f"{size}.sqlite", size) for size in (few, many)}
        for name, work in _works().items():
            taken: dict[int, list[float]] = {size: [] for size in stores}
            for _ in range(REPEATS):
                for size, store in stores.items():  # in turns: a slow minute of the machine hits both
                    began = time.perf_counter()
                    work(store)
                    taken[size].append(time.perf_counter() - began)
            milliseconds = 1000 * median(taken[many])
            yield Figure(f"queue, {many:,} stored: {name}", milliseconds, "ms", "<= 100")
            yield Figure(
                f"queue: {name}, {many:,} against {few:,} stored", milliseconds / 1000 / median(taken[few]), "×"
            )
        for store in stores.values():
            store.database.close()


def _works() -> dict[str, Callable[[Any], object]]:
    from saft.server import claims, ledger
    from saft.server.queue import Filter

    def page(order: str, wanted: Filter) -> Callable[[Any], object]:
        return lambda store: (store.page(wanted, order, 50, None), store.count(wanted))

    def claimed_and_judged(store: Any) -> None:
        with store.database.writing() as connection:
            found = claims.claim(store, connection, Filter(labelled=False), "suspicious", 1, [], "kim", 10)
        with store.database.writing() as connection:
            ledger.judge(connection, [one.serial for one in found], "spam", "kim")

    return {
        "first page, most suspicious": page("suspicious", Filter(labelled=False)),
        "first page, newest": page("newest", Filter(labelled=False)),
        "first page for one of two reviewers": page("suspicious", Filter(labelled=False, viewer="kim")),
        "first page of disputes": page("suspicious", Filter(disputed=True)),
        "a claim and its verdict": claimed_and_judged,
    }


def _filled(path: Path, size: int) -> Any:
    """A store with so many interactions, one of ten judged."""
    from saft.server import ledger
    from saft.server.database import Database
    from saft.server.store import Entry, Store, StoredPrediction

    network, database = demo_network(size), Database(path)
    shares, state = np.random.default_rng(0).random(size), np.zeros((2, 384), np.float16)
    users, items = (ids.cast(str).to_list() for ids in (network.user_ids, network.item_ids))

    def entry(row: int) -> Entry:
        share = float(shares[row])
        one = Interaction(users[network.users[row]], items[network.items[row]], network.texts[row])
        return Entry(one, StoredPrediction("spam", {"spam": share, "genuine": 1 - share}, share, share), state)

    with database.opening():
        store = Store(database, "benchmark", "spam")
        for first in range(0, size, AT_ONCE):
            store.add([entry(row) for row in range(first, min(first + AT_ONCE, size))])
        with database.writing() as connection:
            ledger.judge(connection, range(1, size, 10), "genuine", "lee")
    return store
