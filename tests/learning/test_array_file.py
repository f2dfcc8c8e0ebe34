"""Rows are those of the file, and a file that was shortened is noticed instead of ending the process."""

import os
from pathlib import Path

import numpy as np
import pytest

from saft.learning.array_file import ArrayFile


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3000, dtype=np.float16).reshape(1000, 3))
    return tmp_path / "a.npy"


def test_rows_are_those_of_the_file(path):
    file = ArrayFile.of(path)
    assert len(file) == 1000
    np.testing.assert_array_equal(file.rows(7, 5), np.load(path)[7:12])
    assert file.rows(1000, 0).shape == (0, 3)


def test_a_file_that_another_program_shortens_is_noticed_when_it_is_read(path):
    """A mapping of it would end this process with SIGBUS."""
    file = ArrayFile.of(path)
    os.truncate(path, 128 + 60)
    np.testing.assert_array_equal(file.rows(0, 10), np.arange(30).reshape(10, 3))
    assert file.rows(5, 10) is None
    assert file.rows(900, 10) is None


def test_a_file_that_was_replaced_or_removed_is_still_read_as_it_was(path):
    file = ArrayFile.of(path)
    path.unlink()
    np.testing.assert_array_equal(file.rows(1, 1), [[3, 4, 5]])


def test_what_is_no_such_file_is_not_opened(tmp_path, path):
    os.truncate(path, 2000)
    (tmp_path / "text.npy").write_text("no array")
    np.save(tmp_path / "transposed.npy", np.ones((3, 4)).T)
    np.save(tmp_path / "flat.npy", np.ones(4))
    for name in ("a.npy", "text.npy", "transposed.npy", "flat.npy", "none.npy"):
        assert ArrayFile.of(tmp_path / name) is None
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        ArrayFile.of(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
