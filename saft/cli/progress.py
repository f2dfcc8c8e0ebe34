"""A progress bar for training and prediction: loss, validation scores, interactions per second, time left."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from saft.learning.trainer import EpochRecord


class Bar:
    """Watches a training or a prediction, on standard error. Where nobody is watching, only epochs are told.

    Args:
        epochs: say a line for each; without them there is only the bar, for trainings of hundreds of epochs.
    """

    def __init__(self, what: str = "", total: int | None = None, epochs: bool = True) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._console = Console(stderr=True)
        self._best, self._name, self._epochs = 0.0, "", epochs
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

    def starts(self, name: str) -> None:
        """Another training begins under this name."""
        self._best, self._name = 0.0, f"{name}: "
        self._bar.reset(self._task, total=None, description=name, news="")

    def begins(self, epoch: int, epochs: int, targets: int) -> None:
        # Over all epochs, so that the time left is that of the whole training.
        done, total = (epoch - 1) * targets, epochs * targets
        best = f", best validation Macro-F1 {self._best:.1%}" if epoch > 1 else ""
        self._bar.update(
            self._task, completed=done, total=total, description=f"{self._name}Epoch {epoch}/{epochs}{best}", news=""
        )

    def step(self, targets: int, loss: float) -> None:
        self.advance(targets, f" loss {loss:.3f}" if loss else "")

    def advance(self, rows: int, news: str = "") -> None:
        rate = self._bar.tasks[0].speed
        self._bar.update(self._task, advance=rows, news=(f"{rate:.0f}/s" if rate else "") + news)

    def says(self, what: str) -> None:
        self._bar.update(self._task, news=what)

    def ends(self, record: EpochRecord) -> None:
        self._best = max(self._best, record.valid_macro_f1)
        if not self._epochs:
            return
        self._console.print(
            f"Epoch {record.epoch:>2}: loss {record.loss:.3f}, validation Macro-F1 {record.valid_macro_f1:.1%}, "
            f"Micro-F1 {record.valid_micro_f1:.1%}, {record.targets_per_second:.0f} interactions/s, "
            f"{record.seconds:.0f} s",
            highlight=False,
            soft_wrap=True,
        )
