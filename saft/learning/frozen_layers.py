"""FrozenLayers: an encoder's frozen layers, whose output for a text is computed once and kept (FrozenStore).

Frozen layers never change and depend on the text alone. So an epoch after the first costs only the layers above, and a
second training on the same table, with another seed or another method, begins with the states of the first. Of a few
texts, as in a request to the server, states are remembered in memory instead of on disk.

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
from saft.model.encoder import TextEncoder

TEXTS_AT_ONCE = 64
TEXTS_PER_SEGMENT, MEANS_PER_SEGMENT = 1024, 16_384  # a segment is an open file, of which a process may have few
REMEMBERED = 256  # texts whose states are kept in memory; so many at once are written to disk
OnProgress = Callable[[int], None]
Read = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


class FrozenLayers:
    """
    Args:
        encoder: with at least one frozen layer.
        on_progress: called with the number of texts that were read since the last call.
    """

    def __init__(self, encoder: TextEncoder, on_progress: OnProgress = lambda texts: None) -> None:
        self.encoder, self.on_progress = encoder, on_progress
        encoder.train(encoder.training)  # frozen layers have no dropout, whatever the mode of those above
        self.read: Read = encoder.read  # may be replaced by something faster with the same result
        self._stores: dict[str, FrozenStore] = {}
        self._recent: dict[tuple[int, bool], np.ndarray] = {}

    def vectors(self, tokens: Tokens) -> np.ndarray:
        """(texts, depths, width), float32: means of a text's states. Below trained layers, states are kept too."""
        depths, width = len(self.encoder.depths), self.encoder.width
        found = np.zeros((len(tokens), depths, width), np.float32)
        if not len(tokens):
            return found
        states = self._kept(tokens)
        states.fill(REMEMBERED)
        texts = np.argsort(-tokens.lengths, kind="stable")[: np.count_nonzero(tokens.lengths)]
        for some in np.split(texts, range(TEXTS_AT_ONCE, len(texts), TEXTS_AT_ONCE)):
            for text, read in zip(some.tolist(), states.records(some), strict=True):
                found[text] = read[-depths:]
        return found

    def states(self, tokens: Tokens) -> FrozenStates:
        """States of every token, read from disk when they are needed."""
        return FrozenStates(self, tokens, self._store("states"))

    def share_stored(self, tokens: Tokens) -> float:
        """Of these texts, those whose output is in the store."""
        return self._kept(tokens).share_stored

    def _kept(self, tokens: Tokens) -> FrozenStates:
        """States where layers are trained above; else means, which are all that is needed.

        States that are kept already have the means with them.
        """
        states = self.states(tokens)
        if self.encoder.n_layers or states.share_stored == 1.0:
            return states
        return FrozenStates(self, tokens, self._store("means"), means=True)

    def _store(self, kind: str) -> FrozenStore:
        if kind not in self._stores:
            about = {
                "encoder": str(self.encoder.model.config.name_or_path),
                "layers": self.encoder.frozen,
                "kind": kind,
            }
            self._stores[kind] = FrozenStore(frozen_folder() / f"{self._fingerprint()}-{kind}", about)
        return self._stores[kind]

    def _fingerprint(self) -> str:
        """Of the frozen weights, of how many layers they are and of how these compute."""
        encoder = self.encoder
        read = f"{encoder.frozen} {encoder.depths}" + (f" {encoder.precision}" if encoder.precision != "fp32" else "")
        digest = hashlib.blake2b(read.encode(), digest_size=12)
        for name, tensor in encoder.frozen_parameters():
            if name.startswith("pooler."):  # nothing reads it, and where an encoder comes without, it is random
                continue
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def remembered(self, tokens: Tokens, texts: np.ndarray, hashes: np.ndarray, means: bool) -> list[np.ndarray]:
        """As :meth:`compute`, but what was computed of these texts a moment ago is not computed again."""
        keys = [(hashed, means) for hashed in hashes[texts].tolist()]
        missing = [place for place, key in enumerate(keys) if key not in self._recent]
        found = {key: self._recent[key] for key in keys if key in self._recent}
        if missing:
            computed = self.compute(tokens, texts[missing], means)
            found |= {keys[place]: states for place, states in zip(missing, computed, strict=True)}
        self._recent = {**self._recent, **found}
        for oldest in list(self._recent)[:-REMEMBERED]:
            del self._recent[oldest]
        return [found[key] for key in keys]

    @torch.inference_mode()
    def compute(self, tokens: Tokens, texts: np.ndarray, means: bool) -> list[np.ndarray]:
        """Records in half precision: the states of a text's tokens, then their means; or the means alone."""
        device = next(self.encoder.parameters()).device
        ids, mask = (torch.from_numpy(array).to(device) for array in tokens.padded(texts))
        states, read = (tensor.cpu().numpy().astype(np.float16) for tensor in self.read(ids, mask))
        if means:
            return list(read)
        lengths = mask.sum(dim=1).tolist()
        return [np.concatenate([one[:end], mean]) for one, end, mean in zip(states, lengths, read, strict=True)]


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

    @property
    def share_stored(self) -> float:
        return float((self._places >= 0).mean()) if len(self._places) else 0.0

    def padded(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(states, mask) of these texts: (texts, longest, width), float32, and (texts, longest), int64."""
        there = self.tokens.positions(texts)[1]
        states = np.zeros((*there.shape, self.layers.encoder.width), dtype=np.float32)
        for row, found in enumerate(self.several(texts)):
            states[row, : len(found)] = found
        return states, there.astype(np.int64)

    def of(self, text: int) -> np.ndarray:
        """(tokens, width) of one text."""
        return self.several(np.array([text]))[0]

    def several(self, texts: np.ndarray) -> list[np.ndarray]:
        """(tokens, width) of each of these texts."""
        return [record[:end] for record, end in zip(self.records(texts), self.lengths[texts].tolist(), strict=True)]

    def records(self, texts: np.ndarray) -> list[np.ndarray]:
        """Of each of these texts, see :meth:`FrozenLayers.compute`; what is not in the store is computed together."""
        places = self._places[texts].tolist()
        records = [None if place < 0 else self.store.read(place) for place in places]
        missing = np.array([number for number, record in enumerate(records) if record is None], np.int64)
        if len(missing):
            computed = self.layers.remembered(self.tokens, texts[missing], self._hashes, self.means)
            for number, record in zip(missing.tolist(), computed, strict=True):
                records[number] = record
        return [record for record in records if record is not None]

    def fill(self, least: int = 1) -> None:
        """Compute whatever the store lacks, texts of similar length together; fewer than ``least`` stay in memory."""
        _, first = np.unique(self._hashes, return_index=True)
        missing = first[self._places[first] < 0]
        missing = missing[np.argsort(-self.lengths[missing], kind="stable")]
        if 0 < len(missing) < least:
            self.layers.remembered(self.tokens, missing, self._hashes, self.means)
            return
        self.layers.on_progress(len(self.tokens) - len(missing))
        size = MEANS_PER_SEGMENT if self.means else TEXTS_PER_SEGMENT
        for segment in np.split(missing, range(size, len(missing), size)):
            computed = []
            for start in range(0, len(segment), TEXTS_AT_ONCE):
                some = segment[start : start + TEXTS_AT_ONCE]
                computed += self.layers.remembered(self.tokens, some, self._hashes, self.means)
                self.layers.on_progress(len(some))
            if not self._stored(segment, computed):
                break
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
