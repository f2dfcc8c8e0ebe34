"""Loader: what the trainer asks of whatever deals rows to batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from saft.learning.neighbour_cache import NeighbourCache
from saft.learning.node_sums import NodeSums


class Loader(Protocol):
    """A :class:`~saft.learning.loader.BatchLoader`, or anything else that deals rows to batches."""

    labels: np.ndarray
    n_classes: int
    cache: NeighbourCache | NodeSums | None

    def __len__(self) -> int: ...
    def training_passes(self, rows: np.ndarray, epoch: int) -> Iterator[Any]: ...
    def prediction_passes(self, rows: np.ndarray) -> Iterator[Any]: ...
    def isolated_batches(self, rows: np.ndarray) -> Iterator[Any]: ...
    def uncached(self, seed_rows: np.ndarray, view: Any) -> np.ndarray: ...
    def batch(self, seed_rows: np.ndarray, view: Any) -> Any: ...
    def fingerprint(self) -> str: ...
