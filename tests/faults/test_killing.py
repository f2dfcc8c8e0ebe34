"""Killed at any operation on files, a save leaves what was there or what was to be there, and the next one works."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import saft
from saft import SaftClassifier

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="file names of descriptors are not known")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "model"
    network = saft.demo_network(200).hiding(np.arange(180, 200))
    SaftClassifier(preset="fast", trees=False).fit(network).save(folder)
    return folder


def operations(name: str, folder: Path, *more: Path) -> int:
    command = [sys.executable, "-m", "tests.faults.scenarios", name, folder, *more]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=540)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return int(ended.stdout)


def test_a_checkpoint_survives_a_kill_at_every_operation(tmp_path):
    assert operations("checkpoint", tmp_path) > 8


@pytest.mark.slow
@pytest.mark.parametrize("way", ["save", "save by renames"])
def test_a_model_survives_a_kill_at_every_operation_of_a_save(tmp_path, model, way):
    assert operations(way, tmp_path, model) > 40


def test_the_harness_notices_a_save_that_loses_something(tmp_path):
    """One that writes its file in place."""
    script = """
from pathlib import Path
from tests.faults.killing import every_kill
import sys

def verify(place, finished):
    assert (place / "file").read_text() in ("old", "new!")

every_kill(lambda place: (place / "file").write_text("old"), lambda place: (place / "file").write_text("new!"),
           verify, Path(sys.argv[1]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", script, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "something is lost" in ended.stderr
