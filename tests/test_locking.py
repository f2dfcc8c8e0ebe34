"""Two processes do not work on one thing; one that was killed locks nobody out."""

import subprocess
import sys

import pytest

import saft
from saft.locking import exclusive

HOLDER = """
import sys, time
from pathlib import Path
from saft.locking import exclusive
with exclusive(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    time.sleep(60)
"""


def hold(path):
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def end(process):
    process.kill()
    process.communicate()


def test_a_second_process_is_told_and_one_that_was_killed_locks_nobody_out(tmp_path):
    path = tmp_path / ".lock"
    process = hold(path)
    with pytest.raises(saft.InputError, match="it is taken"), exclusive(path, "it is taken"):
        pass
    end(process)
    assert path.exists()
    with exclusive(path, "it is taken"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_holder_may_take_it_again_and_keeps_it_until_its_last_release(tmp_path):
    path = tmp_path / ".lock"
    with exclusive(path, "taken"):
        with exclusive(path, "taken"):
            pass
        assert path.exists()
        asked = subprocess.run([sys.executable, "-c", HOLDER, path], capture_output=True, text=True, check=False)
        assert "InputError: taken" in asked.stderr
    end(hold(path))


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(saft.InputError, match="Cannot write"), exclusive(tmp_path / "file" / "x", ""):
        pass
