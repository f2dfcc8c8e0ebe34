"""One way to train: the classifier, and every method of ``saft compare`` with an encoder, go through here."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from saft.classifier.assembly import Assembly, Build
from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback, CallbackList, TrainerState
from saft.learning.checkpoint import claimed
from saft.learning.divergence import DivergedError
from saft.learning.trainer import Trainer
from saft.model.base import InteractionModel, SideFeatureModel
from saft.model.saft import SaftModel
from saft.settings import Settings


@dataclass(frozen=True)
class GoingOn:
    """Training goes on from the weights of another model.

    Args:
        model: weights are taken over where name and shape are the same; the others start as always.
        rows: of training, from which the encoder learns; the labels of all training rows are visible around them.
        epochs: at most.
    """

    model: InteractionModel
    rows: np.ndarray
    epochs: int


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
    going_on: GoingOn | None = None,
) -> Fitted:
    """Train a model on ``train``; ``valid`` chooses the epoch. Labels of other rows are not used.

    If training diverges, the error has the best model from before.

    Args:
        build: makes the model around the encoder.
        checkpoint: folder of its own that training writes to as it goes, and continues from if there is something.
        refresh_at_most: see :class:`~saft.learning.trainer.Trainer`.
        going_on: from which weights; None means from the pretrained ones.
    """
    callbacks = CallbackList(callbacks)
    with nullcontext() if checkpoint is None else claimed(checkpoint):
        callbacks.on_message(
            "Fitting linear models" if not settings.trains_encoder else "Computing structure and linear models"
        )
        reading = _Reading(callbacks, len(network))
        assembly = Assembly.fresh(settings, network.showing(train), build, reading.on_progress)
        epochs, learnt_from = settings.epochs, train
        if not settings.trains_encoder:
            epochs = 0  # a regression is solved by now
        elif going_on is not None:
            take_weights(assembly.model, going_on.model)
            epochs, learnt_from = going_on.epochs, going_on.rows
        trainer = Trainer(
            assembly.model,
            assembly.loader(),
            learnt_from,
            valid,
            network.labels[valid],
            settings.changed(epochs=epochs),
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


def take_weights(model: InteractionModel, before: InteractionModel) -> None:
    """Take over the weights of a model that was trained before, where they have the same shape.

    The head's columns for side features stay: what these say was just fitted anew.
    """
    weights, known = model.state_dict(), before.state_dict()
    taken = {name: known[name] for name, own in weights.items() if name in known and known[name].shape == own.shape}
    if isinstance(model, SideFeatureModel) and isinstance(before, SideFeatureModel):
        own, old = weights["head.weight"], known["head.weight"]
        read, read_before = (width.shape[1] - of.n_side_features for width, of in ((own, model), (old, before)))
        alike = len(own) == len(old) and read == read_before
        taken["head.weight"] = torch.cat([(old if alike else own)[:, :read], own[:, read:]], dim=1)
        taken["head.bias"] = weights["head.bias"]
    model.load_state_dict(weights | taken)


class _Reading:
    """Says how far the frozen layers have come with the texts."""

    def __init__(self, callbacks: CallbackList, texts: int) -> None:
        self.callbacks, self.texts, self.read = callbacks, texts, 0

    def on_progress(self, texts: int) -> None:
        self.read += texts
        self.callbacks.on_message(f"Reading texts: {self.read:,} of {self.texts:,}")
