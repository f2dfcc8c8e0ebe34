"""A file appears whole or not at all."""

import stat

import pytest

import saft
from saft.writing import replacing


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")

    def interrupted():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_finished_write_replaces_the_old_file_and_makes_missing_folders(tmp_path):
    path = tmp_path / "new" / "folder" / "result.csv"
    for content in ("first", "second"):
        with replacing(path) as temporary:
            temporary.write_text(content)
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) & stat.S_IRGRP


def test_paths_that_cannot_be_written_are_refused_with_a_reason(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(saft.InputError, match="Cannot write"), replacing(tmp_path / "file" / "result.csv"):
        pass
    with pytest.raises(saft.InputError, match="is a folder"), replacing(tmp_path):
        pass
