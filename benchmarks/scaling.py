"""End to end, from a CSV file to predictions, on the embedded network at 10⁴, 10⁵ and 10⁶ interactions.

Read, structure (with n-grams and tokens), one training epoch on an encoder of BERT-Tiny's size, predict: seconds per
interaction should not grow, and a million should fit into the memory of a laptop. Drawn in ``benchmarks/scaling.png``.
The competitors are compared with the training on a million that is measured here: it takes too long to be run twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import saft
from benchmarks import inference, training
from benchmarks.competitors import described, encoder_called, saft_settings
from benchmarks.measuring import Figure, compare, peak_mb
from saft import SaftClassifier
from saft.learning.callbacks import Callback, EpochRecord, TrainerState

SIZES = (10_000, 100_000, 1_000_000)
STAGES = ("read", "structure", "train", "predict")
PICTURE = Path(__file__).with_name("scaling.png")


class Clock(Callback):
    """When the first epoch began and ended, and how many seed rows it had."""

    began = ended = 0.0
    seed_rows = 0

    def on_epoch_begin(self, state: TrainerState) -> None:
        self.began, self.seed_rows = time.perf_counter(), state.rows_per_epoch

    def on_epoch_end(self, state: TrainerState, record: EpochRecord) -> None:
        self.ended = time.perf_counter()


def figures() -> Iterator[Figure]:
    measured = {size: _measured_apart(size) for size in SIZES}
    _draw(measured)
    per_interaction = {size: sum(run[stage] for stage in STAGES) / size for size, run in measured.items()}
    smallest, largest = SIZES[0], SIZES[-1]
    yield Figure(
        "end to end: time per interaction at a million against ten thousand",
        per_interaction[largest] / per_interaction[smallest],
        "×",
        "<= 1.2",
    )
    yield Figure("end to end at a million: interactions", 1 / per_interaction[largest], "per second")
    yield Figure("training on a million: peak memory", measured[largest]["training_mb"] / 1024, "GB", "<= 6")
    yield Figure("end to end at a million: peak memory", measured[largest]["peak_mb"] / 1024, "GB")
    yield from against_others("training", training.SIZES, largest, measured[largest]["per_seed_row"], (6, 0.5))
    yield from against_others("inference", inference.SIZES, largest, measured[largest]["predict"] / largest, (8, 0.6))


def against_others(
    what: str, sizes: dict[str, tuple[int, int]], size: int, own: float, promised: tuple[float, float]
) -> Iterator[Figure]:
    """How much longer than ``own`` seconds per seed row the rivals' way and the text alone take on this network.

    More seed rows than elsewhere: neighbours are drawn for all nodes at once, and on a large network that fixed cost
    must not weigh more per row than in a whole epoch.
    """
    arguments = ["tiny", str(size), "5", str(4 * sizes["tiny"][1])]
    costs = compare(f"benchmarks.{what}", ["rivals", "plain"], arguments, repeats=1)
    where = f"{what}, tiny, {described(str(size))}, b=5"
    for other, name, least in zip(costs, ("the rivals' way", "the text alone"), promised, strict=True):
        yield Figure(f"{where}: speed against {name}", costs[other].seconds / own, "×", f">= {least}")


def _measured_apart(size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "network.csv"
        saft.demo_network(size).to_frame().write_csv(table)
        command = [sys.executable, "-m", "benchmarks.scaling", str(table)]
        finished = subprocess.run(command, capture_output=True, text=True, check=True)
    measured: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return measured


def measure(table: Path) -> dict[str, float]:
    """Seconds of every stage, and how much memory was needed up to the end of training and to the very end."""
    clock = Clock()
    with encoder_called("tiny") as (encoder, layers):
        settings = saft_settings(encoder, layers, 5, epochs=1)
        began = time.perf_counter()
        network = saft.read(table)
        read = time.perf_counter()
        classifier = SaftClassifier(**settings.as_dict()).fit(network, callbacks=[clock])
        trained, training_mb = time.perf_counter(), peak_mb()
        classifier.predict_proba(network)
        predicted = time.perf_counter()
    return {
        "read": read - began,
        "structure": clock.began - read,
        "train": trained - clock.began,
        "predict": predicted - trained,
        "per_seed_row": (clock.ended - clock.began) / clock.seed_rows,
        "training_mb": training_mb,
        "peak_mb": peak_mb(),
    }


def _draw(measured: dict[int, dict[str, float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (times, memory) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    sizes = list(measured)
    bottoms = [0.0] * len(sizes)
    names = [f"{size:,}" for size in sizes]
    for stage, colour in zip(STAGES, ("#4477aa", "#66ccee", "#228833", "#ccbb44"), strict=True):
        heights = [1000 * measured[size][stage] / size for size in sizes]
        times.bar(names, heights, bottom=bottoms, label=stage, color=colour, width=0.6)
        bottoms = [low + high for low, high in zip(bottoms, heights, strict=True)]
    times.set(xlabel="interactions", ylabel="ms per interaction", title="Time per interaction")
    times.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    _draw_memory(memory, sizes, [measured[size]["peak_mb"] / 1024 for size in sizes])
    figure.savefig(PICTURE, dpi=150)
    pyplot.close(figure)


def _draw_memory(axes: Any, sizes: list[int], gigabytes: list[float]) -> None:
    axes.plot(sizes, gigabytes, marker="o", color="#4477aa")
    axes.set(xscale="log", ylim=(0, None), xlabel="interactions", ylabel="GB", title="Peak memory")
    for spine in ("top", "right"):
        axes.spines[spine].set_visible(False)


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
