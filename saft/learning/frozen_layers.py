"""FrozenLayerCache: the output of an encoder's frozen layers, computed when a text is first read.

Frozen layers never change and depend on the text alone, so an epoch after the first costs only the layers above. States
are kept in single precision, so that results do not change, in an unnamed file in the folder that SAFT_CACHE names
(``~/.cache/saft`` without it). The system removes the file when the process ends, however it ends.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
import warnings

import numpy as np
import torch

from saft.errors import InputWarning
from saft.features.tokens import Tokens
from saft.model.encoder import TextEncoder
from saft.writing import cache_folder


class FrozenLayerCache:
    """``lengths`` and ``padded`` as in :class:`Tokens`, with token states instead of token ids."""

    def __init__(self, encoder: TextEncoder, tokens: Tokens) -> None:
        self.encoder, self.tokens = encoder, tokens
        self.filled = np.zeros(len(tokens), dtype=bool)
        self.states = _matrix_on_disk(len(tokens.flat), encoder.width)

    @classmethod
    def create(cls, encoder: TextEncoder, tokens: Tokens) -> FrozenLayerCache | None:
        """None where there is no room on disk; the layers are then computed every time, with the same result."""
        try:
            return cls(encoder, tokens)
        except OSError as error:
            size = len(tokens.flat) * encoder.width * np.float32().itemsize / 1e9
            warnings.warn(
                f"The output of the frozen layers takes {size:.1f} GB, and {cache_folder()} cannot hold it "
                f"({error.strerror or error}): they are computed every time instead, which is slower. The environment "
                "variable SAFT_CACHE names another folder.",
                InputWarning,
                stacklevel=2,
            )
            return None

    @property
    def lengths(self) -> np.ndarray:
        return self.tokens.lengths

    def padded(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(states, mask) of these texts: (texts, longest, width), float32, and (texts, longest), int64."""
        self._fill(texts[~self.filled[texts]])
        positions, there = self.tokens.positions(texts)
        states = np.zeros((*there.shape, self.encoder.width), dtype=np.float32)
        states[there] = self.states[positions]
        return states, there.astype(np.int64)

    @torch.inference_mode()
    def _fill(self, texts: np.ndarray) -> None:
        if not len(texts):
            return
        device = next(self.encoder.parameters()).device
        tokens, mask = (torch.from_numpy(array).to(device) for array in self.tokens.padded(texts))
        positions, there = self.tokens.positions(texts)
        self.states[positions] = self.encoder.embed(tokens, mask).cpu().numpy()[there]
        self.filled[texts] = True


def _matrix_on_disk(rows: int, columns: int) -> np.ndarray:
    """Zeros in a file that has no name, and takes at most half of what is free: a full disk would end the process."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if rows * columns * np.float32().itemsize > shutil.disk_usage(folder).free / 2:
        raise OSError(errno.ENOSPC, "more than half of what is free there")
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, dtype=np.float32, mode="w+", shape=(max(rows, 1), columns))
