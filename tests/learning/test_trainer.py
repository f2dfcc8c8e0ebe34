"""The loop: what it minimises, that it repeats itself, that it can be killed and continued, that it stops."""

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
from saft.learning import trainer as training
from saft.learning.loader import Memory
from saft.learning.objective import class_weights, loss_of, parameter_groups, rate
from saft.learning.prediction import predict_logits
from saft.learning.trainer import Silence, read_safetensors
from saft.settings import Settings

N = 240


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.fixture
def read(monkeypatch):
    """How many interactions were read apart from targets, one entry per time."""
    counts, refresh = [], training.refresh

    def counting(model, feed, rows, *tell):
        counts.append(len(rows))
        refresh(model, feed, rows, *tell)

    monkeypatch.setattr(training, "refresh", counting)
    return counts


@pytest.fixture
def read_again(monkeypatch):
    """Epoch by epoch, interactions outside of training that were read again; how many of them anybody had asked for,
    and how many outside were asked for at all."""
    chosen, choose = [], training.Trainer._to_read_again

    def choosing(trainer, outside, known):
        again = choose(trainer, outside, known)
        chosen.append((again, known[again].sum(), known[outside].sum()))
        return again

    monkeypatch.setattr(training.Trainer, "_to_read_again", choosing)
    return chosen


class Watching(Silence):
    """Hears everything; raises Ctrl-C after some steps if asked to."""

    def __init__(self, stop_after=None):
        self.records, self.said, self.steps, self.stop_after = [], [], 0, stop_after

    def step(self, targets, loss):
        self.steps += 1
        if self.stop_after is not None and self.steps > self.stop_after:
            raise KeyboardInterrupt

    def says(self, what):
        self.said.append(what)

    def ends(self, record):
        self.records.append(record)


def weights(classifier) -> dict[str, torch.Tensor]:
    return classifier.model_.state_dict()


def test_losses_are_their_formulas_written_out():
    generator = torch.Generator().manual_seed(0)
    logits, answers = torch.randn(6, 3, generator=generator), torch.tensor([0, 1, 2, 2, 1, 0])
    p = torch.softmax(logits.double(), dim=1)
    entropy = [-torch.log(p[e, answers[e]]) for e in range(6)]
    paper = [
        -sum(torch.log(p[e, k]) if k == answers[e] else torch.log(1 - p[e, k]) for k in range(3)) for e in range(6)
    ]
    focal = [-((1 - p[e, answers[e]]) ** 2) * torch.log(p[e, answers[e]]) for e in range(6)]
    class_weight = torch.tensor([1.0, 2.0, 0.5])
    for kind, losses in (("cross_entropy", entropy), ("paper", paper), ("focal", focal)):
        expected = torch.stack(losses)
        torch.testing.assert_close(loss_of(logits, answers, kind).double(), expected.mean(), atol=1e-6, rtol=1e-5)
        weighed = (expected * class_weight[answers]).sum() / class_weight[answers].sum()
        got = loss_of(logits, answers, kind, class_weight).double()
        torch.testing.assert_close(got, weighed, atol=1e-6, rtol=1e-5)


def test_the_papers_loss_stays_finite_when_the_model_is_certain_and_wrong():
    assert torch.isfinite(loss_of(torch.tensor([[500.0, -500.0]]), torch.tensor([1]), "paper"))


def test_class_weights_make_classes_count_alike():
    counted = class_weights(np.array([0, 0, 0, 1, -100]), 2)
    torch.testing.assert_close(counted * torch.tensor([3.0, 1.0]), torch.tensor([2.0, 2.0]))


def test_the_learning_rate_rises_then_falls_to_zero():
    rates = [rate(step, 100, 0.1) for step in range(101)]
    assert rates[0] < rates[5] < rates[9] <= rates[10] == 1
    assert rates[10] > rates[50] > rates[99] > rates[100] == 0


def test_new_parts_learn_faster_than_pretrained_ones_and_norms_do_not_decay(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 0}).fit(network)
    groups = parameter_groups(classifier.model_, Settings(learning_rate=1.0, new_rate=2.0, weight_decay=3.0))
    named = {id(p): name for name, p in classifier.model_.named_parameters()}
    for group in groups:
        names = [named[id(p)] for p in group["params"]]
        assert {name.startswith("language.") for name in names} == {group["lr"] == 1.0}
        assert all((p.ndim > 1) == (group["weight_decay"] == 3.0) for p in group["params"])
    frozen = [name for name, p in classifier.model_.named_parameters() if not p.requires_grad]
    assert frozen == ["language.model.embeddings.word_embeddings.weight"]


@pytest.mark.parametrize("changes", [{}, {"fusion": "paper", "remember": False, "readout": "paper"}])
def test_the_same_seed_gives_the_same_weights_bit_for_bit(network, tiny_settings, changes):
    first, second = (SaftClassifier(**tiny_settings | changes).fit(network) for _ in range(2))
    other = SaftClassifier(**tiny_settings | changes, seed=1).fit(network)
    assert all(torch.equal(a, b) for a, b in zip(weights(first).values(), weights(second).values(), strict=True))
    assert not torch.equal(weights(first)["head.weight"], weights(other)["head.weight"])


def test_no_neighbour_is_heard_before_it_was_read(network, tiny_settings, monkeypatch):
    recalled = []
    recall = Memory.recall

    def remembering(memory, rows):
        recalled.append(bool(memory.known[torch.from_numpy(rows)].all()))
        return recall(memory, rows)

    monkeypatch.setattr(Memory, "recall", remembering)
    SaftClassifier(**tiny_settings).fit(network)
    assert len(recalled) > 10
    assert all(recalled)


def test_the_first_steps_read_few_neighbours_and_the_first_epoch_reads_all_that_are_asked_for(
    network, tiny_settings, monkeypatch, read
):
    monkeypatch.setattr(training, "FIRST_READ", 2)
    classifier = SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network)
    assert read[:3] == [2, 4, 8]
    assert bool(classifier.assembly_.memory.known.all())


def test_after_an_epoch_everything_outside_of_training_is_read_again_if_it_is_no_more_than_the_targets(
    network, tiny_settings, read_again
):
    parts = saft.split(network)
    SaftClassifier(**tiny_settings | {"epochs": 2}).fit(network, parts.train, parts.valid)
    assert [again.tolist() for again, *_ in read_again] == [np.sort(parts.test).tolist()] * 2


def test_where_few_are_labelled_an_epoch_reads_again_no_more_than_its_targets_and_first_who_was_asked_for(
    network, tiny_settings, read_again
):
    train, valid = np.arange(12), np.arange(12, 16)
    SaftClassifier(**tiny_settings | {"epochs": 3, "neighbours": 1}).fit(network, train, valid)
    for again, known, asked_for in read_again:
        assert len(again) == 12
        assert again.min() >= 16
        assert known == min(asked_for, 12)
    assert not np.array_equal(read_again[0][0], read_again[1][0])


def test_validation_reads_those_neighbours_first_that_training_has_not_asked_for(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network)
    feed, rows = classifier.assembly_.feed(), np.arange(20)
    memory, before = feed.memory, feed.memory.states.clone()
    memory.known[:] = False
    predict_logits(classifier.model_, feed, rows, remember=True)
    for seen in feed.prediction_passes(rows):
        assert not any(len(feed.unread(targets, seen)) for targets in seen.batches)
    assert len(rows) < memory.known.sum() < N
    torch.testing.assert_close(memory.states[memory.known], before[memory.known], atol=2e-3, rtol=0)


@pytest.mark.parametrize(
    ("changes", "stop_after", "read_at_the_end"),
    [({"epochs": 1}, None, 168), ({"epochs": 3, "patience": 2}, None, N), ({"epochs": 3}, 15, N)],
    ids=["best epoch last", "best epoch first", "interrupted"],
)
def test_in_the_end_everything_is_remembered_as_the_final_weights_read_it_and_read_anew_where_it_is_not(
    network, tiny_settings, monkeypatch, read, changes, stop_after, read_at_the_end
):
    scores = iter([0.9, 0.8, 0.7])
    monkeypatch.setattr(training, "macro_f1", lambda *_: next(scores))
    parts = saft.split(network)
    classifier = SaftClassifier(**tiny_settings | changes).fit(
        network, parts.train, parts.valid, watcher=Watching(stop_after)
    )
    assert read[-1] == read_at_the_end
    feed = classifier.assembly_.feed()
    remembered = feed.memory.states.clone()
    training.refresh(classifier.model_, feed, np.arange(N))
    torch.testing.assert_close(remembered, feed.memory.states, atol=2e-3, rtol=0)


def test_whoever_watches_hears_how_far_the_reading_of_the_network_is(network, tiny_settings):
    watching, parts = Watching(), saft.split(network)
    SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network, parts.train, parts.valid, watcher=watching)
    assert f"Reading interactions that are not for training: 48 of {len(parts.test)}" in watching.said
    assert watching.said[-2:] == [f"Reading the interactions with the final weights: {n} of 168" for n in (128, 168)]


def test_training_stops_when_validation_gets_no_better_and_keeps_the_best(network, tiny_settings):
    watching = Watching()
    settings = tiny_settings | {"epochs": 30, "patience": 2, "learning_rate": 0.0, "new_rate": 0.0}
    classifier = SaftClassifier(**settings).fit(network, watcher=watching)
    assert len(watching.records) == 3  # nothing can get better
    assert classifier.report().best_epoch == 1


def test_after_training_the_model_is_the_one_of_the_best_epoch(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 4}).fit(network)
    report = classifier.report()
    best = max(record.valid_macro_f1 for record in report.history)
    assert report.history[report.best_epoch - 1].valid_macro_f1 == best


def test_ctrl_c_leaves_a_usable_model(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings).fit(network, watcher=Watching(stop_after=3))
    assert classifier.report().interrupted
    assert classifier.predict(network.take(np.arange(5))).height == 5


def test_full_batch_and_every_loss_train(network, tiny_settings):
    for loss in ("paper", "focal"):
        settings = tiny_settings | {"full_batch": True, "loss": loss, "class_weights": True, "labels": False}
        classifier = SaftClassifier(**settings).fit(network)
        assert classifier.report().history[-1].loss < classifier.report().history[0].loss


SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
import saft
from saft.learning import trainer as training
from saft.classifier.estimator import SaftClassifier
from saft.learning.trainer import Silence

class Telling(Silence):
    def step(self, targets, loss):
        print("step", flush=True)

folder, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
classifier = SaftClassifier(**settings).fit(
    saft.demo_network(240), checkpoint=folder / "checkpoint.safetensors", checkpoint_seconds=0.0, watcher=Telling()
)
classifier.save(folder / "model")
"""


def start(folder: Path, settings: dict) -> subprocess.Popen:
    words = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(settings)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> None:
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors


@pytest.mark.parametrize("changes", [{}, {"fusion": "paper", "remember": False, "neighbours": 1}])
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
