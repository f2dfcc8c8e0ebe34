"""NeighbourCache: the message states of interactions as they were when last encoded.

Under residual fusion a message state depends on the interaction alone, so neighbours of a batch need no encoding: their
states are looked up. While weights change, :class:`CacheRefresher` decides which states are computed anew, and when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from saft.learning.callbacks import Callback
    from saft.learning.interface import Loader
    from saft.learning.loader import LabelMaskedPass

OnProgress = Callable[[int], None]  # called with the number of rows finished since the last call

# Uncached neighbours that the first step encodes at most, doubled with every step. So the first step comes soon, and
# the first steps, at the foot of the warm-up, miss little.
FIRST_FILL = 8


def no_progress(rows: int) -> None:
    """The default of ``on_progress``."""


class NeighbourCache:
    """Message states in half precision.

    ``states`` is (interactions, *shape of a state), ``filled`` says which rows hold one. Interactions added later are
    in a block of their own, so that a request about a few new ones does not copy the states of a million old ones.
    """

    def __init__(self, states: Tensor, filled: Tensor | None = None, added: Tensor | None = None) -> None:
        self.states = states
        self.filled = torch.ones(len(states), dtype=torch.bool) if filled is None else filled
        self.added = states[:0] if added is None else added

    @classmethod
    def empty(cls, rows: int, *shape: int) -> NeighbourCache:
        return cls(torch.zeros(rows, *shape, dtype=torch.float16), torch.zeros(rows, dtype=torch.bool))

    def extended(self, users: np.ndarray, items: np.ndarray) -> NeighbourCache:
        """The same cache with room for all interactions between these; the present part is shared, not copied."""
        added = self.states.new_zeros(len(users) - len(self.states), *self.states.shape[1:])
        return NeighbourCache(self.states, self.filled, added)

    def store(self, rows: np.ndarray, states: Tensor) -> None:
        states = states.to("cpu", torch.float16)
        old = torch.from_numpy(rows < len(self.states))
        numbers = torch.from_numpy(rows)
        self.states[numbers[old]] = states[old]
        self.filled[numbers[old]] = True
        self.added[numbers[~old] - len(self.states)] = states[~old]

    def to_renew(self, stale: np.ndarray) -> np.ndarray:
        """Rows to be stored for all states to be those of the final weights, if these are the stale ones."""
        return np.flatnonzero(stale)

    def tensors(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return {"states": self.states, "filled": self.filled}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take over the content of a checkpoint."""
        for name, present in self.tensors().items():
            present.copy_(tensors[name])

    def contains(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows hold a state; added rows are stored as they come, so they always do."""
        old = rows < len(self.filled)
        return ~old | self.filled.numpy()[np.where(old, rows, 0)]

    def lookup(self, rows: np.ndarray) -> Tensor:
        numbers, count = torch.from_numpy(rows), len(self.states)
        states = self.states[numbers.clamp(max=count - 1)]
        late = numbers >= count
        states[late] = self.added[numbers[late] - count]
        return states.float()


@torch.inference_mode()
def fill_cache(model: nn.Module, loader: Loader, rows: np.ndarray, on_progress: OnProgress = no_progress) -> None:
    """Encode these interactions and store their message states; nothing happens without a cache."""
    cache = loader.cache
    if cache is None or not len(rows):
        return
    device = next(model.parameters()).device
    model.train(False)
    for batch in loader.isolated_batches(rows):
        cache.store(batch.rows, model(batch.to(device)).message_state)
        on_progress(len(batch.rows))


class CacheRefresher:
    """Keeps a cache close to the weights while they are trained; does nothing for a loader without a cache.

    Args:
        train, valid: rows. Seed rows of training and validation are stored as they are encoded anyway.
        most: other rows that are encoded again after an epoch, at most; None means as many as there are training rows.
            Where few rows are labelled an epoch is short, and the weights move little in it.
    """

    def __init__(
        self,
        model: nn.Module,
        loader: Loader,
        train: np.ndarray,
        valid: np.ndarray,
        seed: int,
        callback: Callback,
        most: int | None = None,
    ) -> None:
        self.model, self.loader, self.valid, self.seed, self.callback = model, loader, valid, seed, callback
        self.most = len(train) if most is None else most
        self._current = np.zeros(len(loader), dtype=bool)  # states computed with the weights of the last epoch's end

    def before_step(self, seed_rows: np.ndarray, view: LabelMaskedPass, step: int) -> None:
        """Fill in neighbours that have no state yet; ``step`` counts from 0 over all epochs."""
        uncached = self.loader.uncached(seed_rows, view)
        fill_cache(self.model, self.loader, uncached[: FIRST_FILL << min(step, 20)])

    def after_epoch(self, epoch: int, trained: np.ndarray) -> None:
        """Encode rows again that the epoch did not; ``trained`` marks its seed rows, ``epoch`` counts from 0."""
        self._current = np.zeros_like(trained)
        if self.loader.cache is None:
            return
        outside = ~trained
        outside[self.valid] = False  # encoded and stored when they are predicted
        rows = self.rows_to_refresh(np.flatnonzero(outside), self.loader.cache.filled.numpy(), epoch)
        self._fill(rows, "Encoding interactions that are not for training")
        self._current[rows] = self._current[self.valid] = True

    def rows_to_refresh(self, outside: np.ndarray, filled: np.ndarray, epoch: int) -> np.ndarray:
        """At most ``most`` rows, first those that hold a state: a batch has asked for it, and will again."""
        shuffled = np.random.default_rng([self.seed, epoch]).permutation(outside)
        return np.sort(shuffled[np.argsort(~filled[shuffled], kind="stable")][: self.most])

    def finish(self, weights_of_last_epoch: bool) -> None:
        """Encode all rows whose state does not belong to the final weights."""
        if self.loader.cache is not None:
            stale = self.loader.cache.to_renew(~(self._current & weights_of_last_epoch))
            self._fill(stale, "Encoding the interactions with the final weights")

    def _fill(self, rows: np.ndarray, what: str) -> None:
        done = 0

        def on_progress(more: int) -> None:
            nonlocal done
            done += more
            self.callback.on_message(f"{what}: {done:,} of {len(rows):,}")

        fill_cache(self.model, self.loader, rows, on_progress)
