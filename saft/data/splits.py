"""Which labelled interactions are for training, which for validation, which for the test.

Every split covers labelled interactions only, is a partition, and is the same for the same seed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from saft.data.files import SPLIT_OF_FILE_NAME
from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError, did_you_mean

FRACTIONS = (0.7, 0.1, 0.2)


@dataclass(frozen=True)
class Split:
    """Row numbers, ascending."""

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray


def split(
    network: TextualInteractionNetwork,
    how: str = "random",
    *,
    fractions: tuple[float, float, float] = FRACTIONS,
    seed: int = 0,
) -> Split:
    """Split the labelled interactions into train, validation and test rows.

    Args:
        how: ``random`` (every class in the same proportions), ``temporal`` (train is earlier than test),
            ``cold_users`` or ``cold_items`` (validation and test users, or items, never occur in training), or
            ``column`` (the network's split column).
        fractions: of train, validation and test; ``column`` does not use them.
    """
    if how not in SPLITTERS:
        raise InputError(f"There is no split {how!r}.{did_you_mean(how, SPLITTERS)} Known are {', '.join(SPLITTERS)}.")
    if len(fractions) != 3 or min(fractions) < 0 or fractions[0] <= 0 or not np.isclose(sum(fractions), 1):
        raise InputError(f"Fractions of train, validation and test have to add up to 1; got {fractions}.")
    rows = np.flatnonzero(network.is_labelled)
    if not len(rows):
        raise InputError("Nothing to split: no interaction of this network is labelled.")
    part = SPLITTERS[how](network, rows, fractions, seed)
    return Split(*(rows[part == number] for number in range(3)))


def _random(
    network: TextualInteractionNetwork, rows: np.ndarray, fractions: tuple[float, float, float], seed: int
) -> np.ndarray:
    """Shuffle inside every class, then cut each class at the same fractions."""
    shuffle = np.random.default_rng(seed).permutation(len(rows))
    labels = network.labels[rows]
    order = shuffle[np.argsort(labels[shuffle], kind="stable")]
    counts = np.bincount(labels, minlength=network.n_classes)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(rows), dtype=np.int64)  # of each row among the shuffled rows of its class
    place[order] = np.arange(len(rows)) - starts[labels[order]]
    size = counts[labels]
    # Every class has at least one training row, however small it is.
    train_end = np.maximum(np.rint(size * fractions[0]), 1)
    valid_end = np.maximum(np.rint(size * (fractions[0] + fractions[1])), train_end)
    return (place >= train_end).astype(int) + (place >= valid_end)


def _temporal(
    network: TextualInteractionNetwork, rows: np.ndarray, fractions: tuple[float, float, float], seed: int
) -> np.ndarray:
    """Train before validation before test; interactions of the same moment stay on the same side."""
    if network.times is None:
        raise InputError("A temporal split needs times: read the network with time='the column's name'.")
    times = network.times[rows]
    untimed = rows[np.isnat(times)] + 1
    if len(untimed):
        raise InputError(
            f"A temporal split needs a time for every labelled interaction; {len(untimed):,} have none "
            f"(rows {', '.join(map(str, untimed[:5]))}{', …' if len(untimed) > 5 else ''}, counted from 1)."
        )
    ordered = np.sort(times)
    cuts = [ordered[min(int(len(rows) * share), len(rows) - 1)] for share in np.cumsum(fractions)[:2]]
    part = (times >= cuts[0]).astype(int) + (times >= cuts[1])
    return _without_empty_parts(part, fractions, "the times are too coarse: too many interactions share one")


def _cold(
    side: str, network: TextualInteractionNetwork, rows: np.ndarray, fractions: tuple[float, float, float], seed: int
) -> np.ndarray:
    """Assign whole users (or items) to the parts in random order until each has its share of interactions."""
    codes = getattr(network, side)[rows]
    distinct, node, counts = np.unique(codes, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(distinct))
    ends = np.cumsum(counts[order])
    middle = np.empty(len(distinct))  # of the stretch of interactions each node takes up
    middle[order] = (ends - counts[order] / 2) / len(rows)
    bounds = np.cumsum(fractions)[:2]
    part = np.searchsorted(bounds, middle, side="right")[node]
    return _without_empty_parts(part, fractions, f"there are too few {side} ({len(distinct):,})")


def _column(
    network: TextualInteractionNetwork, rows: np.ndarray, fractions: tuple[float, float, float], seed: int
) -> np.ndarray:
    """From the split column. Without validation rows, every eighth training row is taken, class by class."""
    if network.splits is None:
        raise InputError("This network has no split column: read it with split='the column's name'.")
    values = network.splits.gather(pl.Series(rows)).cast(pl.String).str.strip_chars().str.to_lowercase()
    parts = {name: ("train", "valid", "test").index(meaning) for name, meaning in SPLIT_OF_FILE_NAME.items()}
    part = values.replace_strict(parts, default=None, return_dtype=pl.Int64)
    unknown = np.flatnonzero(part.is_null().to_numpy())
    if len(unknown):
        example = network.splits[int(rows[unknown[0]])]
        raise InputError(
            f"The split column {network.column_names.get('split', 'split')!r} is not train, valid or test in "
            f"{len(unknown):,} labelled rows (first in row {rows[unknown[0]] + 1:,}, counted from 1: {example!r})."
        )
    numbers = part.to_numpy().copy()
    if not (numbers == 1).any():
        trained = np.flatnonzero(numbers == 0)
        numbers[trained] = _random(network, rows[trained], (7 / 8, 1 / 8, 0.0), seed)
    return _without_empty_parts(numbers, (1.0, 1.0, 0.0), "the split column leaves too little")


def _without_empty_parts(part: np.ndarray, fractions: tuple[float, float, float], reason: str) -> np.ndarray:
    for number, name in enumerate(("train", "validation", "test")):
        if fractions[number] > 0 and not (part == number).any():
            raise InputError(f"This split would have no {name} interactions: {reason}.")
    return part


SPLITTERS: dict[str, Callable[..., np.ndarray]] = {
    "random": _random,
    "temporal": _temporal,
    "cold_users": partial(_cold, "users"),
    "cold_items": partial(_cold, "items"),
    "column": _column,
}
