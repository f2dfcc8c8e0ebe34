"""One run in a process of its own, so that its peak memory is measured alone and a crash ends nothing else.

Progress goes to standard output, one JSON object per line: ``message`` and ``epoch`` on the way, ``result`` last.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measuring import peak_mb
from experiments.datasets import load
from experiments.datasets.cores import latest_core
from experiments.tables import Network, Run
from saft.comparison import run as compared
from saft.data.network import TextualInteractionNetwork
from saft.data.reading import read
from saft.data.splits import split
from saft.errors import InputError
from saft.learning.callbacks import Callback, EpochRecord, TrainerState
from saft.methods import find


class StandardOutput(Callback):
    """Reports a training on standard output."""

    def __init__(self) -> None:
        self.seconds: list[float] = []  # of every epoch

    def on_epoch_begin(self, state: TrainerState) -> None:
        if state.epoch == 0:
            emit({"message": f"learning from {state.rows_per_epoch:,} interactions, at most {state.epochs} epochs"})

    def on_message(self, message: str) -> None:
        emit({"message": message})

    def on_epoch_end(self, state: TrainerState, record: EpochRecord) -> None:
        self.seconds.append(record.seconds)
        emit({"epoch": record.epoch, "valid_macro_f1": round(100 * record.valid_macro_f1, 2)})


def emit(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def execute(run: Run, data: Path) -> dict[str, Any]:
    """What the run measured; scores in per cent."""
    network = sampled(run.network, data)
    shared, own = {"seed": run.seed, **run.shared()}, run.row.settings
    callback = StandardOutput()
    parts = split(network, fractions=run.network.fractions, seed=run.seed)
    done = compared(network, parts, run.row.method, shared, own, callbacks=[callback])
    if done.failed:
        raise InputError(done.failed)
    return {
        "macro_f1": 100 * done.macro_f1,
        "micro_f1": 100 * done.micro_f1,
        "valid_macro_f1": 100 * done.valid_macro_f1,
        "seconds": done.seconds,
        "epochs": len(callback.seconds),
        "seconds_per_epoch": sum(callback.seconds) / max(len(callback.seconds), 1),
        "interactions": len(network),
        "parameters": done.parameters,
        "encoder": done.encoder,
        "peak_memory_mb": peak_mb(),
        "settings": find(run.row.method).settings_with(shared, own).as_dict() | dict(own),
    }


def sampled(network: Network, data: Path) -> TextualInteractionNetwork:
    """The network of a table; a sample has no users and items but those of its own interactions."""
    whole = load(network.name, data)
    if network.sample is None:
        return whole
    return read(whole.take(latest_core(whole, network.sample.core, network.sample.least)).to_frame())
