"""What a model answers about rows of a feed, and what it passes on about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from saft.learning.loader import Memory, Source

Tell = Callable[[int], None]  # hears how many rows are done


def silent(done: int) -> None:
    """Nobody is told."""


@torch.inference_mode()
def predict_logits(
    model: nn.Module, feed: Source, rows: np.ndarray, tell: Tell = silent, *, remember: bool = False
) -> np.ndarray:
    """(rows, classes) of these rows, in their order.

    With ``remember``, what they pass on is remembered as well, and neighbours that nobody has read yet are read first.
    """
    return _collected(model, feed, rows, "logits", tell, feed.memory if remember else None)


@torch.inference_mode()
def represent(model: nn.Module, feed: Source, rows: np.ndarray, tell: Tell = silent) -> np.ndarray:
    """(rows, ·) what the head sees of these rows."""
    return _collected(model, feed, rows, "representation", tell)


def _collected(
    model: nn.Module, feed: Source, rows: np.ndarray, what: str, tell: Tell, memory: Memory | None = None
) -> np.ndarray:
    device = next(model.parameters()).device
    distinct, place = np.unique(rows, return_inverse=True)
    result = np.zeros((len(distinct), feed.n_classes), dtype=np.float32)
    model.train(False)
    for seen in feed.prediction_passes(distinct):
        for targets in seen.batches:
            if memory is not None:
                refresh(model, feed, feed.unread(targets, seen))
            batch = feed.batch(targets, seen).to(device)
            if memory is not None:
                batch = replace(batch, for_memory=True)
            output = model(batch)
            if memory is not None:
                memory.store(batch.rows, output.passed_on)
            values = getattr(output, what).cpu().numpy()
            if result.shape[1] != values.shape[1]:
                result = np.zeros((len(distinct), values.shape[1]), dtype=np.float32)
            result[np.searchsorted(distinct, targets)] = values
            tell(len(targets))
    return result[place]


@torch.inference_mode()
def refresh(model: nn.Module, feed: Source, rows: np.ndarray, tell: Tell = silent) -> None:
    """Remember anew what these interactions pass on."""
    memory: Memory | None = feed.memory
    if memory is None or not len(rows):
        return
    device = next(model.parameters()).device
    model.train(False)
    for batch in feed.reading_batches(rows):
        memory.store(batch.rows, model(batch.to(device)).passed_on)
        tell(len(batch.rows))
