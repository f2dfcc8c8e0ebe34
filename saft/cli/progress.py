"""A progress bar for training and prediction: loss, validation scores, interactions per second, time left."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self

from saft.learning.callbacks import Callback, EpochRecord, TrainerState


class ProgressBar(Callback):
    """Shows a training or a prediction on standard error; only the lines of epochs where that is not a terminal.

    Args:
        epochs: print a line for each. Without them there is only the bar, for trainings of hundreds of epochs.
    """

    def __init__(self, what: str = "", total: int | None = None, epochs: bool = True) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(stderr=True)
        self._name, self._epochs = "", epochs
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=total, news="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def restart(self, name: str) -> None:
        """Start anew, for another training with this name."""
        self._name = f"{name}: "
        self._bar.reset(self._task, total=None, description=name, news="")

    def on_train_begin(self, state: TrainerState) -> None:
        if self._epochs and not math.isnan(state.start_macro_f1):
            scores = _scores(state.start_macro_f1, state.start_micro_f1)
            if state.epochs:
                self._print(f"Start   : {scores}, before training, by regression and trees")
            else:
                self._print(f"Regression: {scores}; nothing is trained after it")

    def on_epoch_begin(self, state: TrainerState) -> None:
        # Over all epochs, so that the time left is that of the whole training.
        best = f", best validation Macro-F1 {state.best_score:.1%}" if state.best_score >= 0 else ""
        self._bar.update(
            self._task,
            completed=_done(state),
            total=state.epochs * state.rows_per_epoch,
            description=f"{self._name}Epoch {state.epoch + 1}/{state.epochs}{best}",
            news="",
        )

    def on_step_end(self, state: TrainerState) -> None:
        self._bar.update(self._task, completed=_done(state), news=f"{self._rate()} loss {state.mean_loss:.3f}")

    def advance(self, rows: int) -> None:
        self._bar.update(self._task, advance=rows, news=self._rate())

    def on_message(self, message: str) -> None:
        self._bar.update(self._task, news=message)

    def on_epoch_end(self, state: TrainerState, record: EpochRecord) -> None:
        if self._epochs:
            scores = (
                ""
                if math.isnan(record.valid_macro_f1)
                else f" {_scores(record.valid_macro_f1, record.valid_micro_f1)},"
            )
            speed = f"{record.rows_per_second:.0f} interactions/s, {record.seconds:.0f} s"
            self._print(f"Epoch {record.epoch:>2}: loss {record.loss:.3f},{scores} {speed}")

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)

    def _rate(self) -> str:
        rate = self._bar.tasks[0].speed
        return f"{rate:.0f}/s" if rate else ""


def _scores(macro: float, micro: float) -> str:
    return f"validation Macro-F1 {macro:.1%}, Micro-F1 {micro:.1%}"


def _done(state: TrainerState) -> int:
    return state.epoch * state.rows_per_epoch + state.rows
