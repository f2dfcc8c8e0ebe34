"""Outputs of a trained model: logits and representations of rows. One loop for the classifier and for the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from saft.learning.interface import Loader
from saft.learning.neighbour_cache import OnProgress, fill_cache, no_progress
from saft.model.batch import Batch

Forward = Callable[[Any], Any]  # batch → output with ``logits``, ``representation`` and ``message_state``


@torch.inference_mode()
def predict_logits(
    model: nn.Module,
    loader: Loader,
    rows: np.ndarray,
    on_progress: OnProgress = no_progress,
    *,
    update_cache: bool = False,
) -> np.ndarray:
    """(rows, classes) of these rows, in their order.

    With ``update_cache`` neighbours without a message state are encoded first, and the states of the rows are stored.
    """
    return _predict(model, loader, rows, "logits", on_progress, update_cache)


@torch.inference_mode()
def represent(model: nn.Module, loader: Loader, rows: np.ndarray, on_progress: OnProgress = no_progress) -> np.ndarray:
    """(rows, ·) the input of the head."""
    return _predict(model, loader, rows, "representation", on_progress)


def _predict(
    model: nn.Module, loader: Loader, rows: np.ndarray, what: str, on_progress: OnProgress, update_cache: bool = False
) -> np.ndarray:
    model.train(False)
    distinct, inverse = np.unique(rows, return_inverse=True)
    forward: Forward = model
    if update_cache and loader.cache is not None:
        forward = _storing(model, loader)
    batches = _batches(model, loader, distinct, update_cache)
    found = collect(batches, len(distinct), what, forward, on_progress)
    return np.zeros((0, loader.n_classes), np.float32) if found is None else found[inverse]


def collect(
    batches: Iterable[tuple[np.ndarray, Any]],
    count: int,
    what: str,
    forward: Forward,
    on_progress: OnProgress = no_progress,
) -> np.ndarray | None:
    """(count, ·) one output of all batches, each given with the places of its seed rows; None without a batch."""
    result: np.ndarray | None = None
    for places, batch in batches:
        values = getattr(forward(batch), what).cpu().numpy()
        if result is None:
            result = np.zeros((count, *values.shape[1:]), dtype=np.float32)
        result[places] = values
        on_progress(len(places))
    return result


def _batches(
    model: nn.Module, loader: Loader, distinct: np.ndarray, update_cache: bool
) -> Iterator[tuple[np.ndarray, Any]]:
    device = next(model.parameters()).device
    for view in loader.prediction_passes(distinct):
        for seed_rows in view.batches:
            if update_cache:
                fill_cache(model, loader, loader.uncached(seed_rows, view))
            yield np.searchsorted(distinct, seed_rows), loader.batch(seed_rows, view).to(device)


def _storing(model: nn.Module, loader: Loader) -> Forward:
    def forward(batch: Batch) -> Any:
        output = model(replace(batch, for_cache=True))
        if loader.cache is not None:
            loader.cache.store(batch.rows, output.message_state)
        return output

    return forward
