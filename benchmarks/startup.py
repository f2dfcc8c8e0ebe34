"""How long a person waits: for ``saft --help``, and for the first step of ``saft train`` on 10,000 interactions."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import saft
from benchmarks.measuring import Figure

INTERACTIONS = 10_000


def figures() -> list[Figure]:
    helped = median(_seconds([str(Path(sys.executable).with_name("saft")), "--help"]) for _ in range(7))
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "network.csv"
        saft.demo_network(INTERACTIONS).to_frame().write_csv(table)
        command = [sys.executable, "-m", "benchmarks.startup", "train", str(table), "--out", f"{folder}/model"]
        stepped = median(_seconds(command) for _ in range(7))
    return [
        Figure("saft --help", helped, "s", "<= 0.5"),
        Figure(f"saft train, {INTERACTIONS:,} interactions: until the first step is done", stepped, "s", "<= 10"),
    ]


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - began


def _train_one_step() -> None:
    """The unchanged command in this process, which exits after the first step."""
    from saft.cli import progress
    from saft.cli.app import main
    from saft.learning.callbacks import TrainerState

    class OneStep(progress.ProgressBar):
        def on_step_end(self, state: TrainerState) -> None:
            os._exit(0)

    progress.ProgressBar = OneStep  # type: ignore[misc]
    main()
    sys.exit("training ended without a step")


if __name__ == "__main__":
    _train_one_step()
