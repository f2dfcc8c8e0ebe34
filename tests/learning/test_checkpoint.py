"""A training that was killed goes on where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import saft
from saft.classifier.estimator import SaftClassifier
from saft.learning.checkpoint import read_safetensors

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
    saft.demo_network(240), checkpoint=folder / "checkpoint.safetensors", checkpoint_seconds=0.0, callbacks=[Printer()]
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
    settings = tiny_settings | {"epochs": 3, "node_dropout": 0.3} | changes
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
    assert (tmp_path / "killed" / "checkpoint.safetensors").is_file()
    finish(start(tmp_path / "killed", settings))
    first, second = (
        read_safetensors(tmp_path / part / "model" / "weights.safetensors")[0] for part in ("whole", "killed")
    )
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path, network, tiny_settings):
    checkpoint = tmp_path / "checkpoint.safetensors"
    SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network, checkpoint=checkpoint)
    with pytest.raises(saft.InputError, match="belongs to a run with other data or other settings"):
        SaftClassifier(**tiny_settings | {"epochs": 1, "delta": 0.5}).fit(network, checkpoint=checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(saft.InputError, match="Is the file complete"):
        SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network, checkpoint=checkpoint)
