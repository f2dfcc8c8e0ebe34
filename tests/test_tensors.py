"""Files of tensors are read as they were written, and nothing that is read depends on the file any more."""

import os

import numpy as np
import pytest
import torch

import saft
from saft.tensors import read_arrays, read_tensors, write_tensors


def test_what_is_read_is_what_was_written_with_its_header(tmp_path):
    tensors = {"a": torch.arange(6.0).reshape(2, 3).T, "b": torch.ones(2, dtype=torch.bfloat16)}
    write_tensors(tmp_path / "t", tensors, {"said": "ä"})
    found, header = read_tensors(tmp_path / "t")
    assert header == {"said": "ä"}
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    write_tensors(tmp_path / "n", {"a": np.arange(6).reshape(2, 3).T})
    np.testing.assert_array_equal(read_arrays(tmp_path / "n")["a"], np.arange(6).reshape(2, 3).T)


def test_a_file_that_is_shortened_after_it_was_read_changes_nothing(tmp_path):
    """A mapped one would end this process with SIGBUS."""
    write_tensors(tmp_path / "t", {"a": torch.ones(1 << 20)})
    found = read_tensors(tmp_path / "t")[0]["a"]
    os.truncate(tmp_path / "t", 100)
    assert found.sum() == 1 << 20


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 40, b"\x10\0\0\0\0\0\0\0" + b"[" * 16])
def test_damaged_files_are_refused(tmp_path, content):
    (tmp_path / "t").write_bytes(content)
    for read in (read_tensors, read_arrays):
        with pytest.raises(saft.InputError, match="Is the file complete"):
            read(tmp_path / "t")


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        write_tensors(tmp_path / "none" / "t", {"a": torch.ones(1)})
