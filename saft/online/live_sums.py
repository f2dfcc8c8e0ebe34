"""LiveSums: what is heard of a live network where the states of all neighbours are summed by node; it grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch

from saft.features.gathering import SIDES
from saft.learning.node_sums import NodeSums, SideSums
from saft.online.subgraph import HeardSums


class LiveSums:
    """
    Args:
        sides: side → sums over the interactions of training, to be added to.
    """

    def __init__(self, sides: Mapping[str, SideSums]) -> None:
        self.sides = sides

    @classmethod
    def of(cls, cache: Any) -> Self | None:
        """An extension of what a trained model keeps, which stays as it is; None if it keeps no sums."""
        return cls({name: cache.sides[name].extension() for name in SIDES}) if isinstance(cache, NodeSums) else None

    def add(self, nodes: Mapping[str, np.ndarray], states: np.ndarray) -> None:
        """States, (interactions, *message shape), of new interactions between these nodes."""
        for place, name in enumerate(SIDES):
            new = torch.from_numpy(states[:, :, place].astype(np.float32))
            self.sides[name].add(nodes[name], new, torch.ones(len(states)))

    def heard(self, codes: Mapping[str, int], is_counted: bool) -> HeardSums:
        """What an interaction between these nodes hears; ``is_counted`` if it is in their sums itself."""
        found = [self.sides[name].of(np.array([codes[name]])) for name in SIDES]
        counted = torch.tensor(float(is_counted))
        counts = torch.cat([counts for _, counts in found]) - counted
        return HeardSums(torch.stack([sums[0] for sums, _ in found], dim=1), counts, counted)
