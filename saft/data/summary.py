"""Summary figures of a network: counts, degrees, components, text lengths, duplicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from saft.data.network import TextualInteractionNetwork


@dataclass(frozen=True)
class Spread:
    """Mean, median and maximum of a count per user, item or text."""

    mean: float
    median: float
    largest: int

    def __str__(self) -> str:
        return f"mean {self.mean:.1f}, median {self.median:g}, max {self.largest:,}"


@dataclass(frozen=True)
class Summary:
    """The figures of a network. ``str(summary)`` is a readable table."""

    interactions: int
    users: int
    items: int
    classes: dict[Any, int]
    unlabelled: int
    user_degree: Spread
    item_degree: Spread
    components: int
    words: Spread
    empty_texts: int
    repeated_pairs: int  # interactions whose user and item occur together in an earlier row
    repeated_texts: int  # interactions whose (non-empty) text occurs in an earlier row
    first_time: str | None
    last_time: str | None

    def rows(self) -> list[tuple[str, str]]:
        """(name, figure) pairs in reading order."""
        rows = [
            ("interactions", f"{self.interactions:,}"),
            ("users", f"{self.users:,}"),
            ("items", f"{self.items:,}"),
            ("classes", f"{len(self.classes):,}"),
            ("unlabelled", self._share(self.unlabelled)),
            ("interactions per user", str(self.user_degree)),
            ("interactions per item", str(self.item_degree)),
            ("connected components", f"{self.components:,}"),
            ("words per text", str(self.words)),
            ("empty texts", self._share(self.empty_texts)),
            ("repeated user-item pairs", self._share(self.repeated_pairs)),
            ("repeated texts", self._share(self.repeated_texts)),
        ]
        if self.first_time is not None:
            rows.append(("time", f"{self.first_time} to {self.last_time}"))
        return rows

    def class_rows(self) -> list[tuple[str, int, float]]:
        """(class, count, share of the labelled interactions)."""
        labelled = sum(self.classes.values()) or 1
        return [(str(name), count, count / labelled) for name, count in self.classes.items()]

    def __str__(self) -> str:
        rows = self.rows() + [
            (f"  class {name}", f"{count:,} ({share:.1%})") for name, count, share in self.class_rows()
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {figure}" for name, figure in rows)

    def _share(self, count: int) -> str:
        return f"{count:,} ({count / self.interactions:.1%})" if count else "0"


def summarise(network: TextualInteractionNetwork) -> Summary:
    degrees_of_users = network.user_degrees[network.user_degrees > 0]
    degrees_of_items = network.item_degrees[network.item_degrees > 0]
    class_counts = np.bincount(network.labels[network.is_labelled], minlength=network.n_classes)
    first, last = _time_range(network.times)
    return Summary(
        interactions=len(network),
        users=len(degrees_of_users),
        items=len(degrees_of_items),
        classes=dict(zip(network.classes.to_list(), class_counts.tolist(), strict=True)),
        unlabelled=int((~network.is_labelled).sum()),
        user_degree=spread(degrees_of_users),
        item_degree=spread(degrees_of_items),
        components=count_components(network.users, network.items),
        words=spread(word_counts(network.texts)),
        empty_texts=int((network.texts == "").sum()),
        repeated_pairs=len(network) - _distinct_pairs(network),
        repeated_texts=_repeated(network.texts.filter(network.texts != "")),
        first_time=first,
        last_time=last,
    )


def spread(counts: np.ndarray) -> Spread:
    if not len(counts):
        return Spread(0.0, 0.0, 0)
    return Spread(float(counts.mean()), float(np.median(counts)), int(counts.max()))


def word_counts(texts: pl.Series) -> np.ndarray:
    """Number of words of each text, separated by white space."""
    return texts.str.count_matches(r"\S+").to_numpy()


def count_components(users: np.ndarray, items: np.ndarray) -> int:
    """Connected components among the users and items that interact."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not len(users):
        return 0
    _, user = np.unique(users, return_inverse=True)
    _, item = np.unique(items, return_inverse=True)
    nodes = user.max() + item.max() + 2
    edges = coo_array((np.ones(len(user), np.int8), (user, item + user.max() + 1)), shape=(nodes, nodes))
    return int(connected_components(edges, directed=False, return_labels=False))


def _distinct_pairs(network: TextualInteractionNetwork) -> int:
    return len(np.unique(network.users.astype(np.int64) * max(network.n_items, 1) + network.items))


def _repeated(values: pl.Series) -> int:
    return len(values) - values.n_unique()


def _time_range(times: np.ndarray | None) -> tuple[str | None, str | None]:
    if times is None or np.isnat(times).all():
        return None, None
    known = times[~np.isnat(times)]
    return tuple(str(time.astype("datetime64[D]")) for time in (known.min(), known.max()))  # type: ignore[return-value]
