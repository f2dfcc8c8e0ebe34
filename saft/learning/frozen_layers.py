"""FrozenLayers: an encoder's frozen layers, whose output for a text is computed once and kept (FrozenStore).

Frozen layers never change and depend on the text alone. So an epoch after the first costs only the layers above, and a
second training on the same table, with another seed or another method, begins with the states of the first.

States are rounded to half precision, also where there is no room to keep them, so that results do not depend on it.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable

import numpy as np
import torch

from saft.errors import InputWarning
from saft.features.tokens import Tokens
from saft.learning.frozen_store import FrozenStore, frozen_folder, hash_tokens
from saft.model.base import masked_mean
from saft.model.encoder import TextEncoder

TEXTS_AT_ONCE, TEXTS_PER_SEGMENT = 64, 1024
OnProgress = Callable[[int], None]


class FrozenLayers:
    """
    Args:
        encoder: with at least one frozen layer.
        on_progress: called with the number of texts that were read since the last call.
    """

    def __init__(self, encoder: TextEncoder, on_progress: OnProgress = lambda texts: None) -> None:
        self.encoder, self.on_progress = encoder, on_progress
        self._stores: dict[str, FrozenStore] = {}

    def vectors(self, tokens: Tokens) -> np.ndarray:
        """(texts, width), float32: the mean of a text's states. Where layers are trained above, states are kept too."""
        wants_states = bool(self.encoder.n_layers)
        states = self.states(tokens) if wants_states else FrozenStates(self, tokens, self._store("means"), means=True)
        states.fill()
        found = np.zeros((len(tokens), self.encoder.width), np.float32)
        for text in np.flatnonzero(tokens.lengths):
            found[text] = states.of(int(text)).mean(axis=0, dtype=np.float32)
        return found

    def states(self, tokens: Tokens) -> FrozenStates:
        """States of every token, read from disk when they are needed."""
        return FrozenStates(self, tokens, self._store("states"))

    def _store(self, kind: str) -> FrozenStore:
        if kind not in self._stores:
            self._stores[kind] = FrozenStore(frozen_folder() / f"{self._fingerprint()}-{kind}")
        return self._stores[kind]

    def _fingerprint(self) -> str:
        """Of the frozen weights and of how many layers they are."""
        digest = hashlib.blake2b(f"{self.encoder.frozen}".encode(), digest_size=12)
        for name, tensor in self.encoder.frozen_parameters():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @torch.inference_mode()
    def compute(self, tokens: Tokens, texts: np.ndarray, means: bool) -> list[np.ndarray]:
        """Half precision states of these texts, or their means as single rows."""
        device = next(self.encoder.parameters()).device
        ids, mask = (torch.from_numpy(array).to(device) for array in tokens.padded(texts))
        states = self.encoder.embed(ids, mask)
        if means:
            return list(masked_mean(states, mask).cpu().numpy().astype(np.float16)[:, None])
        lengths = mask.sum(dim=1).tolist()
        return [one[:length] for one, length in zip(states.cpu().numpy().astype(np.float16), lengths, strict=True)]


class FrozenStates:
    """``lengths`` and ``padded`` as in :class:`Tokens`, with token states instead of token ids."""

    def __init__(self, layers: FrozenLayers, tokens: Tokens, store: FrozenStore, means: bool = False) -> None:
        self.layers, self.tokens, self.store, self.means = layers, tokens, store, means
        pieces = np.split(tokens.flat, tokens.starts[1:-1]) if len(tokens) else []
        self._hashes = np.array([hash_tokens(piece) for piece in pieces], np.uint64)
        self._places = store.places(self._hashes)
        self._has_room = True

    @property
    def lengths(self) -> np.ndarray:
        return self.tokens.lengths

    def padded(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(states, mask) of these texts: (texts, longest, width), float32, and (texts, longest), int64."""
        missing = texts[self._places[texts] < 0]
        computed: dict[int, np.ndarray] = {}
        if len(missing):
            computed = dict(zip(missing.tolist(), self.layers.compute(self.tokens, missing, self.means), strict=True))
        there = self.tokens.positions(texts)[1]
        states = np.zeros((*there.shape, self.layers.encoder.width), dtype=np.float32)
        for row, text in enumerate(texts.tolist()):
            found = computed[text] if text in computed else self.of(text)
            states[row, : len(found)] = found
        return states, there.astype(np.int64)

    def of(self, text: int) -> np.ndarray:
        """(rows, width) of one text that is in the store, or computed anew."""
        if self._places[text] >= 0:
            return self.store.read(int(self._places[text]))
        return self.layers.compute(self.tokens, np.array([text]), self.means)[0]

    def fill(self) -> None:
        """Compute whatever the store lacks, texts of similar length together."""
        _, first = np.unique(self._hashes, return_index=True)
        missing = first[self._places[first] < 0]
        missing = missing[np.argsort(-self.lengths[missing], kind="stable")]
        self.layers.on_progress(len(self.tokens) - len(missing))
        for segment in np.split(missing, range(TEXTS_PER_SEGMENT, len(missing), TEXTS_PER_SEGMENT)):
            computed = []
            for start in range(0, len(segment), TEXTS_AT_ONCE):
                some = segment[start : start + TEXTS_AT_ONCE]
                computed += self.layers.compute(self.tokens, some, self.means)
                self.layers.on_progress(len(some))
            if not self._stored(segment, computed):
                return
        self._places = self.store.places(self._hashes)

    def _stored(self, texts: np.ndarray, states: list[np.ndarray]) -> bool:
        if not len(texts):
            return True
        if self._has_room and not self.store.write(self._hashes[texts], states):
            self._has_room = False
            warnings.warn(
                f"There is no room in {frozen_folder()} to keep what the frozen layers say of these texts, so they are "
                "computed every time, which is slower. SAFT_CACHE names another folder, SAFT_CACHE_GB a higher limit.",
                InputWarning,
                stacklevel=2,
            )
        return self._has_room
