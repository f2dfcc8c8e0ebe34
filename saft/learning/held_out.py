"""How much of a training is to be kept, by rows that it has not seen: one training more without each fold.

Where few rows are labelled, the validation rows are a few dozen, and a share that they choose is chosen by chance
(docs/experiments.md). Held-out folds are several times as many rows, and training on so few takes seconds.
"""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
from torch import nn

from saft.learning.callbacks import Callback
from saft.learning.loader import BatchLoader
from saft.learning.prediction import predict_logits
from saft.learning.start import Start
from saft.learning.trainer import Trainer
from saft.settings import Settings


def with_share(
    start: Start,
    held_out: np.ndarray,
    model: nn.Module,
    loader: BatchLoader,
    rows: np.ndarray,
    settings: Settings,
    callback: Callback,
) -> Start:
    """The start with the share that makes these rows likeliest; without one if they are all of one fold.

    Args:
        held_out: (rows, classes) what a start says of them that was fitted without their folds.
        model: untrained; it stays so.
    """
    if len(np.unique(loader.features.folds[rows])) < 2:
        return start
    trained = held_out_logits(model, loader, rows, settings, callback)
    return replace(start, share=replace(start, logits=held_out).choose(trained, loader.labels[rows])[0])


def held_out_logits(
    model: nn.Module, loader: BatchLoader, rows: np.ndarray, settings: Settings, callback: Callback
) -> np.ndarray:
    """(rows, classes) of every row by a model that was trained like this one, but without its fold."""
    folds, nothing = loader.features.folds[rows], np.empty(0, np.int64)
    logits = np.zeros((len(rows), loader.n_classes), np.float32)
    distinct = np.unique(folds)
    for number, fold in enumerate(distinct.tolist()):
        callback.on_message(f"Few labels: training without a fifth of them, {number + 1} of {len(distinct)}")
        copied = copy.deepcopy(model)
        Trainer(copied, loader, rows[folds != fold], nothing, nothing, settings).run()
        logits[folds == fold] = predict_logits(copied, loader, rows[folds == fold])
    return logits
