"""ArrayFile: rows of a .npy file, read when they are asked for.

The file is not mapped into memory: if another program shortened it, reading the mapping would end this process.
"""

from __future__ import annotations

import math
import os
import weakref
from pathlib import Path
from typing import Any, Self

import numpy as np


class ArrayFile:
    """
    Args:
        descriptor: of the opened file, closed with this object.
        start: where its rows begin.
        shape: (rows, …).
    """

    def __init__(self, descriptor: int, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._descriptor, self._start, self._shape, self._dtype = descriptor, start, shape, dtype
        weakref.finalize(self, os.close, descriptor)

    def __len__(self) -> int:
        return self._shape[0]

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """None if the file is not there, is not what ``np.save`` writes of numbers, or ends early."""
        try:
            with path.open("rb", buffering=0) as file:
                if np.lib.format.read_magic(file) != (1, 0):
                    return None
                shape, is_transposed, dtype = np.lib.format.read_array_header_1_0(file)
                if is_transposed or dtype.hasobject or len(shape) < 2:
                    return None
                opened = cls(os.dup(file.fileno()), file.tell(), shape, dtype)
        except (OSError, ValueError, EOFError):
            return None
        return opened if os.fstat(opened._descriptor).st_size >= opened._end(len(opened)) else None

    def rows(self, first: int, count: int) -> np.ndarray | None:
        """(count, …) from row ``first`` on; None if the file has been shortened since it was opened."""
        start, end = self._end(first), self._end(first + count)
        data = os.pread(self._descriptor, end - start, start)
        return np.frombuffer(data, self._dtype).reshape(count, *self._shape[1:]) if len(data) == end - start else None

    def _end(self, count: int) -> int:
        """Where the first so many rows end."""
        return self._start + count * math.prod(self._shape[1:]) * self._dtype.itemsize
