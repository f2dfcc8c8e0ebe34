"""Memory for what neighbours' states take on a million interactions: sums by node against states of all interactions.

Each is filled with states of the shape that ``minilm`` has with two trained layers (2 × 2 × 384), as training does, and
then kept as a server does. What counts is the memory that a process cannot give back: pages of the file in which
training with sums keeps the last state of every row can be written out and read again.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import saft
from benchmarks.measuring import Figure, compare
from saft.data.network import TextualInteractionNetwork
from saft.learning.neighbour_cache import NeighbourCache
from saft.learning.node_sums import NodeSums

INTERACTIONS, SHAPE, STORED_AT_ONCE = 1_000_000, (2, 2, 384), 2_048


def figures() -> Iterator[Figure]:
    for stage in ("training", "serving"):
        costs = compare("benchmarks.memory", ["states", "sums"], [stage], repeats=1)
        name = f"{stage} on a million, lga: memory for states of neighbours"
        yield Figure(f"{name}, sums by node", costs["sums"].peak_mb / 1024, "GB")
        ratio = costs["states"].peak_mb / costs["sums"].peak_mb
        yield Figure(f"{name}, states of interactions against sums by node", ratio, "×", ">= 4")


def _measure(kind: str, stage: str) -> float:
    """Megabytes that the filled states take."""
    network, drawn = saft.demo_network(INTERACTIONS), torch.Generator().manual_seed(0)
    before = _own_mb()
    kept = _empty(kind, network)
    if stage == "serving":
        kept.to_renew(np.ones(len(network), bool))
    states = torch.randn(STORED_AT_ONCE, *SHAPE, generator=drawn)
    for first in range(0, len(network), STORED_AT_ONCE):
        rows = np.arange(first, min(first + STORED_AT_ONCE, len(network)))
        kept.store(rows, states[: len(rows)])
    return _own_mb() - before


def _empty(kind: str, network: TextualInteractionNetwork) -> NeighbourCache | NodeSums:
    if kind == "states":
        return NeighbourCache.empty(len(network), *SHAPE)
    nodes = {"user": network.users, "item": network.items}
    return NodeSums.for_training(nodes, {"user": network.n_users, "item": network.n_items}, SHAPE)


def _own_mb() -> float:
    """Memory of this process that is no copy of a file."""
    match = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if match is None:
        raise RuntimeError("memory is read from /proc/self/status, which this system does not have")
    return int(match[1]) / 1024


if __name__ == "__main__":
    began = time.perf_counter()
    megabytes = _measure(*sys.argv[1:3])
    print(json.dumps({"seconds": time.perf_counter() - began, "peak_mb": megabytes}))
