"""One way to train: the classifier, and every method of ``saft compare`` with an encoder, go through here."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from saft.classifier.assembly import Assembly, Build
from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback, CallbackList, TrainerState
from saft.learning.checkpoint import claimed
from saft.learning.divergence import DivergedError
from saft.learning.trainer import Trainer
from saft.model.saft import SaftModel
from saft.settings import Settings


@dataclass(frozen=True)
class Fitted:
    assembly: Assembly  # its network shows the labels of the training rows only
    state: TrainerState


def fit(
    settings: Settings,
    network: TextualInteractionNetwork,
    train: np.ndarray,
    valid: np.ndarray,
    *,
    build: Build = SaftModel,
    callbacks: Iterable[Callback] = (),
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 60.0,
    refresh_at_most: int | None = None,
) -> Fitted:
    """Train a model on ``train``; ``valid`` chooses the epoch. Labels of other rows are not used.

    If training diverges, the error has the best model from before.

    Args:
        build: makes the model around the encoder.
        checkpoint: folder of its own that training writes to as it goes, and continues from if there is something.
        refresh_at_most: see :class:`~saft.learning.trainer.Trainer`.
    """
    callbacks = CallbackList(callbacks)
    with nullcontext() if checkpoint is None else claimed(checkpoint):
        callbacks.on_message(
            "Fitting linear models" if not settings.trains_encoder else "Computing structure and linear models"
        )
        reading = _Reading(callbacks, len(network))
        assembly = Assembly.fresh(settings, network.showing(train), build, reading.on_progress)
        trainer = Trainer(
            assembly.model,
            assembly.loader(),
            train,
            valid,
            network.labels[valid],
            settings if settings.trains_encoder else settings.changed(epochs=0),  # a regression is solved by now
            start=assembly.start(valid),
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            callbacks=callbacks,
            refresh_at_most=refresh_at_most,
        )
        try:
            return Fitted(assembly, trainer.run())
        except DivergedError as error:
            error.fitted = Fitted(assembly, trainer.state) if trainer.best.tensors else None
            raise


class _Reading:
    """Says how far the frozen layers have come with the texts."""

    def __init__(self, callbacks: CallbackList, texts: int) -> None:
        self.callbacks, self.texts, self.read = callbacks, texts, 0

    def on_progress(self, texts: int) -> None:
        self.read += texts
        self.callbacks.on_message(f"Reading texts: {self.read:,} of {self.texts:,}")
