"""What the frozen layers of an encoder say of every text: computed when the text is first read, then remembered.

Frozen layers never change and look at nothing but the text, so an epoch after the first costs only the layers above.
States are kept in single precision, so that nothing moves, in a file without a name in the folder that SAFT_CACHE names
(``~/.cache/saft`` without it): the system removes it when it is no longer used, whatever ended the process.
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
from saft.model.encoder import LanguageModel
from saft.writing import cache_folder


class FrozenLayers:
    """Answers like :class:`Tokens`, with states instead of tokens."""

    def __init__(self, language: LanguageModel, tokens: Tokens) -> None:
        self.language, self.tokens = language, tokens
        self.known = np.zeros(len(tokens), dtype=bool)
        self.states = _matrix_on_disk(len(tokens.flat), language.width)

    @classmethod
    def remembered(cls, language: LanguageModel, tokens: Tokens) -> FrozenLayers | None:
        """None where there is no room for it: then these layers are computed every time, with the same outcome."""
        try:
            return cls(language, tokens)
        except OSError as error:
            size = len(tokens.flat) * language.width * np.float32().itemsize / 1e9
            warnings.warn(
                f"What the frozen layers say takes {size:.1f} GB, and {cache_folder()} cannot hold it "
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
        self._read(texts[~self.known[texts]])
        places, there = self.tokens.places(texts)
        states = np.zeros((*there.shape, self.language.width), dtype=np.float32)
        states[there] = self.states[places]
        return states, there.astype(np.int64)

    @torch.inference_mode()
    def _read(self, texts: np.ndarray) -> None:
        if not len(texts):
            return
        device = next(self.language.parameters()).device
        tokens, mask = (torch.from_numpy(array).to(device) for array in self.tokens.padded(texts))
        places, there = self.tokens.places(texts)
        self.states[places] = self.language.embed(tokens, mask).cpu().numpy()[there]
        self.known[texts] = True


def _matrix_on_disk(rows: int, columns: int) -> np.ndarray:
    """Zeros in a file that has no name, and takes at most half of what is free: a full disk would end the process."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    if rows * columns * np.float32().itemsize > shutil.disk_usage(folder).free / 2:
        raise OSError(errno.ENOSPC, "more than half of what is free there")
    with tempfile.TemporaryFile(dir=folder) as file:
        return np.memmap(file, dtype=np.float32, mode="w+", shape=(max(rows, 1), columns))
