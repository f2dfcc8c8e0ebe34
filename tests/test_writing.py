"""A file appears whole or not at all."""

import re
import stat
from pathlib import Path

import pytest

import saft
from saft.writing import as_json, replacing


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


def test_a_disk_that_is_full_is_a_sentence_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("old")
    with pytest.raises(saft.InputError, match=r"Cannot write .*result\.csv: No space left on device"), replacing(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nothing_that_is_no_number_is_written_as_json(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"inside": [{"deep": value}]})
    assert as_json({"ä": 1.5}) == '{"ä": 1.5}'


def test_json_is_written_in_one_place():
    """What an interaction is identified by is no JSON that anybody reads: canonical bytes, to be hashed."""
    writers = [
        path.name for path in Path(saft.__file__).parent.rglob("*.py") if re.search(r"json\.dump", path.read_text())
    ]
    assert sorted(writers) == ["identity.py", "writing.py"]
