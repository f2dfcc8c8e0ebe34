"""A training that was killed goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

import saft
from saft.classifier.assembly import Assembly
from saft.classifier.estimator import SaftClassifier
from saft.learning import checkpoint
from saft.learning.checkpoint import claimed
from saft.tensors import read_tensors
from tests.learning.recorder import weights

N = 240


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
import saft
from saft.classifier.estimator import SaftClassifier
from saft.learning.callbacks import Callback

class Printer(Callback):
    def on_step_end(self, state):
        print("step", flush=True)

folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
classifier = SaftClassifier(**settings).fit(
    saft.demo_network(240), checkpoint=folder / "checkpoint", checkpoint_seconds=0.0, callbacks=[Printer()]
)
classifier.save(folder / "model")
"""


def start(folder: Path, settings: dict) -> subprocess.Popen:
    words = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(settings)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors


@pytest.mark.parametrize(
    "changes", [{"messages": "lga"}, {"fusion": "paper", "messages": "lga", "cache_neighbours": False, "neighbours": 1}]
)
def test_killed_at_a_random_step_and_resumed_the_weights_are_those_of_an_uninterrupted_run(
    tmp_path, tiny_settings, changes
):
    settings = tiny_settings | {"epochs": 3, "node_dropout": 0.3, "trees": False} | changes
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    finish(start(tmp_path / "whole", settings))
    random = np.random.default_rng(int(time.time()))  # another step in every run of this test
    process = start(tmp_path / "killed", settings)
    for _ in range(int(random.integers(3, 20))):
        assert process.stdout.readline().strip() == "step"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "model").exists()
    assert (tmp_path / "killed" / "checkpoint" / "state.safetensors").is_file()
    finish(start(tmp_path / "killed", settings))
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(30, marks=pytest.mark.long)])
def test_killed_again_and_again_at_any_moment_the_weights_are_those_of_an_uninterrupted_run(
    tmp_path, tiny_settings, kills
):
    settings = tiny_settings | {"epochs": 6, "trees": False}
    (tmp_path / "whole").mkdir()
    finish(start(tmp_path / "whole", settings))
    random = np.random.default_rng(int(time.time()))
    folder, killed = tmp_path / "run-0", 0
    folder.mkdir()
    while killed < kills:
        process = start(folder, settings)
        if process.stdout.readline():  # else all steps were done, and only the model was not saved
            time.sleep(float(random.uniform(0, 0.2)))  # in a step, in a save, or between them
            process.kill()
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        killed += process.returncode == -signal.SIGKILL
        if (folder / "model").exists():
            assert_same_weights(tmp_path / "whole", folder)
            folder = tmp_path / f"run-{killed}"
            folder.mkdir(exist_ok=True)
    finish(start(folder, settings))
    assert_same_weights(tmp_path / "whole", folder)


def assert_same_weights(*folders: Path) -> None:
    first, second = (read_tensors(folder / "model" / "weights.safetensors")[0] for folder in folders)
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def test_what_a_killed_save_left_is_cleared_and_the_training_goes_on(tmp_path, network, tiny_settings):
    settings, folder = tiny_settings | {"epochs": 1}, tmp_path / "checkpoint"
    SaftClassifier(**settings).fit(network, checkpoint=str(folder))
    for left in (".tmpAbC123", ".state-k3j2h1_8.safetensors"):
        (folder / left).write_bytes(b"half")
    SaftClassifier(**settings).fit(network, checkpoint=folder)
    assert [path.name for path in folder.iterdir()] == ["state.safetensors"]


def test_a_folder_that_holds_something_else_is_refused_before_anything_is_computed(
    tmp_path, network, tiny_settings, monkeypatch
):
    monkeypatch.setattr(Assembly, "fresh", None)  # would fail
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear …")
    for folder, message in (("letters", "holds something else"), ("letters/mine.txt", "is a file")):
        with pytest.raises(saft.InputError, match=message):
            SaftClassifier(**tiny_settings).fit(network, checkpoint=tmp_path / folder)
        with pytest.raises(saft.InputError, match=message):
            SaftClassifier(**tiny_settings).fit(network, out=tmp_path / folder)
    with pytest.raises(saft.InputError, match=r"Cannot write checkpoints to .*Not a directory"):
        SaftClassifier(**tiny_settings).fit(network, checkpoint=tmp_path / "letters" / "mine.txt" / "deeper")
    assert (tmp_path / "letters" / "mine.txt").read_text() == "dear …"


def test_a_second_training_with_the_same_checkpoint_is_refused(tmp_path, network, tiny_settings):
    with claimed(tmp_path / "checkpoint"), ThreadPoolExecutor() as other:
        second = other.submit(SaftClassifier(**tiny_settings).fit, network, checkpoint=tmp_path / "checkpoint")
        with pytest.raises(saft.InputError, match="Another training keeps its checkpoint in"):
            second.result()


def test_a_checkpoint_that_cannot_be_written_is_a_warning_and_training_goes_on(
    tmp_path, network, tiny_settings, monkeypatch
):
    settings = tiny_settings | {"epochs": 2}
    whole = SaftClassifier(**settings).fit(network)

    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    with pytest.warns(saft.InputWarning, match=r"No space left on device\. Training goes on; if it is interrupted"):
        kept = SaftClassifier(**settings).fit(network, checkpoint=tmp_path / "checkpoint", checkpoint_seconds=0)
    assert weights(whole).keys() == weights(kept).keys()
    assert all(torch.equal(weights(whole)[name], weights(kept)[name]) for name in weights(whole))
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path, network, tiny_settings):
    checkpoint = tmp_path / "checkpoint"
    SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network, checkpoint=checkpoint)
    with pytest.raises(saft.InputError, match="belongs to a run with other data or other settings"):
        SaftClassifier(**tiny_settings | {"epochs": 1, "delta": 0.5}).fit(network, checkpoint=checkpoint)
    state = checkpoint / "state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(saft.InputError, match="Is the file complete"):
        SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network, checkpoint=checkpoint)
