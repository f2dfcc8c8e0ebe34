"""The loop: what it minimises, that it repeats itself, that it can be killed and continued, that it stops.

Covers: learning.checkpoint, learning.interface, learning.neighbour_cache, learning.objective, learning.optimisation.
"""

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
from saft.classifier.assembly import Assembly
from saft.classifier.estimator import SaftClassifier
from saft.learning import neighbour_cache, trainer
from saft.learning.callbacks import Callback
from saft.learning.checkpoint import read_safetensors
from saft.learning.neighbour_cache import CacheRefresher, NeighbourCache, fill_cache
from saft.learning.objective import class_weights, loss_of
from saft.learning.optimisation import WarmupSchedule, parameter_groups
from saft.learning.prediction import predict_logits
from saft.learning.start import Start
from saft.settings import TEXT_ONLY, Settings

N = 240


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.fixture
def filled(monkeypatch):
    """How many interactions were encoded for the cache apart from seed rows, one entry per call."""
    counts, fill = [], neighbour_cache.fill_cache

    def counting(model, loader, rows, *on_progress):
        counts.append(len(rows))
        fill(model, loader, rows, *on_progress)

    monkeypatch.setattr(neighbour_cache, "fill_cache", counting)
    return counts


@pytest.fixture
def refreshed(monkeypatch):
    """Epoch by epoch, rows outside of training that were encoded again; how many of them held a state, and how many
    outside of training did in all."""
    chosen, choose = [], CacheRefresher.rows_to_refresh

    def choosing(refresher, outside, filled, epoch):
        rows = choose(refresher, outside, filled, epoch)
        chosen.append((rows, filled[rows].sum(), filled[outside].sum()))
        return rows

    monkeypatch.setattr(CacheRefresher, "rows_to_refresh", choosing)
    return chosen


class Recorder(Callback):
    """Keeps everything; raises Ctrl-C after some steps if asked to."""

    def __init__(self, stop_after=None):
        self.records, self.messages, self.steps, self.stop_after = [], [], 0, stop_after

    def on_step_end(self, state):
        self.steps += 1
        if self.stop_after is not None and self.steps >= self.stop_after:
            raise KeyboardInterrupt

    def on_message(self, message):
        self.messages.append(message)

    def on_epoch_end(self, state, record):
        self.records.append(record)


def score_as(monkeypatch, *scores):
    """Let validation have these scores, one after the other; the first is that of the start, of which nothing is mixed
    with the epochs."""
    given, latest = iter(scores), [0.0]

    def score(*_) -> float:
        latest[0] = next(given)
        return latest[0]

    monkeypatch.setattr(Start, "best_share", lambda *_: 1.0)
    monkeypatch.setattr(Start, "goodness", score)
    monkeypatch.setattr(trainer, "macro_f1", lambda *_: latest[0])


def weights(classifier) -> dict[str, torch.Tensor]:
    return classifier.model_.state_dict()


def test_losses_are_their_formulas_written_out():
    generator = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(6, 3, generator=generator), torch.tensor([0, 1, 2, 2, 1, 0])
    p = torch.softmax(logits.double(), dim=1)
    entropy = [-torch.log(p[e, targets[e]]) for e in range(6)]
    paper = [
        -sum(torch.log(p[e, k]) if k == targets[e] else torch.log(1 - p[e, k]) for k in range(3)) for e in range(6)
    ]
    focal = [-((1 - p[e, targets[e]]) ** 2) * torch.log(p[e, targets[e]]) for e in range(6)]
    class_weight = torch.tensor([1.0, 2.0, 0.5])
    for kind, losses in (("cross_entropy", entropy), ("paper", paper), ("focal", focal)):
        expected = torch.stack(losses)
        torch.testing.assert_close(loss_of(logits, targets, kind).double(), expected.mean(), atol=1e-6, rtol=1e-5)
        weighed = (expected * class_weight[targets]).sum() / class_weight[targets].sum()
        got = loss_of(logits, targets, kind, class_weight).double()
        torch.testing.assert_close(got, weighed, atol=1e-6, rtol=1e-5)


def test_the_papers_loss_stays_finite_when_the_model_is_certain_and_wrong():
    assert torch.isfinite(loss_of(torch.tensor([[500.0, -500.0]]), torch.tensor([1]), "paper"))


def test_class_weights_make_classes_count_alike():
    counted = class_weights(np.array([0, 0, 0, 1, -100]), 2)
    torch.testing.assert_close(counted * torch.tensor([3.0, 1.0]), torch.tensor([2.0, 2.0]))


def test_the_learning_rate_rises_then_falls_to_zero():
    optimiser = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule = WarmupSchedule(optimiser, steps=100, warmup=0.1)
    rates = [schedule.factor(step) for step in range(101)]
    schedule.set(50)
    assert optimiser.param_groups[0]["lr"] == 2 * rates[50]
    assert rates[0] < rates[5] < rates[9] <= rates[10] == 1
    assert rates[10] > rates[50] > rates[99] > rates[100] == 0


def test_new_parts_learn_faster_than_pretrained_ones_and_norms_do_not_decay(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 0, "trained_layers": 3}).fit(network)
    groups = parameter_groups(classifier.model_, Settings(learning_rate=1.0, head_learning_rate=2.0, weight_decay=3.0))
    named = {id(p): name for name, p in classifier.model_.named_parameters()}
    for group in groups:
        names = [named[id(p)] for p in group["params"]]
        assert {name.startswith("encoder.") for name in names} == {group["lr"] == 1.0}
        assert all((p.ndim > 1) == (group["weight_decay"] == 3.0) for p in group["params"])
    frozen = [name for name, p in classifier.model_.named_parameters() if not p.requires_grad]
    assert frozen == ["encoder.model.embeddings.word_embeddings.weight"]


@pytest.mark.parametrize("changes", [{}, {"fusion": "paper", "cache_neighbours": False, "readout": "paper"}])
def test_the_same_seed_gives_the_same_weights_bit_for_bit(network, tiny_settings, changes):
    first, second = (SaftClassifier(**tiny_settings | changes).fit(network) for _ in range(2))
    other = SaftClassifier(**tiny_settings | changes, seed=1).fit(network)
    assert all(torch.equal(a, b) for a, b in zip(weights(first).values(), weights(second).values(), strict=True))
    assert not torch.equal(weights(first)["head.weight"], weights(other)["head.weight"])


def test_no_state_is_looked_up_before_it_was_computed(network, tiny_settings, monkeypatch):
    looked_up, lookup = [], NeighbourCache.lookup

    def checking(cache, rows):
        looked_up.append(bool(cache.filled[torch.from_numpy(rows)].all()))
        return lookup(cache, rows)

    monkeypatch.setattr(NeighbourCache, "lookup", checking)
    SaftClassifier(**tiny_settings).fit(network)
    assert len(looked_up) > 10
    assert all(looked_up)


def test_the_first_steps_fill_few_neighbours_and_the_first_epoch_all_that_are_needed(
    network, tiny_settings, monkeypatch, filled
):
    monkeypatch.setattr(neighbour_cache, "FIRST_FILL", 2)
    classifier = SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network)
    assert filled[:3] == [2, 4, 8]
    assert bool(classifier.assembly_.cache.filled.all())


def test_after_an_epoch_everything_outside_of_training_is_refreshed_if_it_is_no_more_than_the_targets(
    network, tiny_settings, refreshed
):
    parts = saft.split(network)
    SaftClassifier(**tiny_settings | {"epochs": 2}).fit(network, train=parts.train, valid=parts.valid)
    assert [again.tolist() for again, *_ in refreshed] == [np.sort(parts.test).tolist()] * 2


def test_where_few_are_labelled_an_epoch_refreshes_no_more_rows_than_it_has_and_cached_ones_first(
    network, tiny_settings, refreshed
):
    train, valid = np.arange(12), np.arange(12, 16)
    SaftClassifier(**tiny_settings | {"epochs": 3, "neighbours": 1}).fit(network, train=train, valid=valid)
    for again, known, asked_for in refreshed:
        assert len(again) == 12
        assert again.min() >= 16
        assert known == min(asked_for, 12)
    assert not np.array_equal(refreshed[0][0], refreshed[1][0])


def test_validation_fills_those_neighbours_first_that_training_did_not_need(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 1}).fit(network)
    loader, rows = classifier.assembly_.loader(), np.arange(20)
    cache, before = loader.cache, loader.cache.states.clone()
    cache.filled[:] = False
    predict_logits(classifier.model_, loader, rows, update_cache=True)
    for view in loader.prediction_passes(rows):
        assert not any(len(loader.uncached(seed_rows, view)) for seed_rows in view.batches)
    assert len(rows) < cache.filled.sum() < N
    torch.testing.assert_close(cache.states[cache.filled], before[cache.filled], atol=2e-3, rtol=0)


@pytest.mark.parametrize(
    ("changes", "stop_after", "filled_at_the_end"),
    [({"epochs": 1}, None, 168), ({"epochs": 3, "patience": 2}, None, N), ({"epochs": 3}, 15, N)],
    ids=["best epoch last", "best epoch first", "interrupted"],
)
def test_in_the_end_every_cached_state_is_that_of_the_final_weights(
    network, tiny_settings, monkeypatch, filled, changes, stop_after, filled_at_the_end
):
    score_as(monkeypatch, 0.1, 0.9, 0.8, 0.7)
    parts = saft.split(network)
    classifier = SaftClassifier(**tiny_settings | changes).fit(
        network, train=parts.train, valid=parts.valid, callbacks=[Recorder(stop_after)]
    )
    assert filled[-1] == filled_at_the_end
    loader = classifier.assembly_.loader()
    cached = loader.cache.states.clone()
    fill_cache(classifier.model_, loader, np.arange(N))
    torch.testing.assert_close(cached, loader.cache.states, atol=2e-3, rtol=0)


def test_callbacks_get_messages_on_how_far_the_encoding_of_the_network_is(network, tiny_settings, monkeypatch):
    score_as(monkeypatch, 0.1, 0.9)
    recorder, parts = Recorder(), saft.split(network)
    SaftClassifier(**tiny_settings | {"epochs": 1}).fit(
        network, train=parts.train, valid=parts.valid, callbacks=[recorder]
    )
    assert f"Encoding interactions that are not for training: 48 of {len(parts.test)}" in recorder.messages
    assert recorder.messages[-2:] == [
        f"Encoding the interactions with the final weights: {n} of 168" for n in (128, 168)
    ]


def test_training_stops_when_validation_gets_no_better(network, tiny_settings):
    recorder = Recorder()
    settings = tiny_settings | {"epochs": 30, "patience": 2, "learning_rate": 0.0, "head_learning_rate": 0.0}
    classifier = SaftClassifier(**settings | {"valid_share": 0.1}).fit(network, callbacks=[recorder])
    assert len(recorder.records) == 2  # nothing can get better than the start
    untrained = SaftClassifier(**settings | {"valid_share": 0.1, "epochs": 0}).fit(network)
    for name, weight in weights(untrained).items():
        torch.testing.assert_close(weights(classifier)[name], weight, msg=name)


def test_after_training_the_model_has_the_weights_of_the_best_epoch(network, tiny_settings, monkeypatch):
    score_as(monkeypatch, 0.2, 0.3, 0.6, 0.5, 0.4)
    settings = tiny_settings | {"valid_share": 0.1, "warmup": 0.0}
    longer = SaftClassifier(**settings | {"epochs": 4}).fit(network)
    assert longer.report().best_epoch == 2
    assert [record.valid_macro_f1 for record in longer.report().history] == [0.3, 0.6, 0.5, 0.4]
    monkeypatch.setattr(trainer.Trainer, "_is_stuck", lambda self: self.state.epoch == 2)
    score_as(monkeypatch, 0.2, 0.3, 0.6)
    stopped = SaftClassifier(**settings | {"epochs": 4}).fit(network)
    assert all(torch.equal(a, b) for a, b in zip(weights(longer).values(), weights(stopped).values(), strict=True))


def test_if_no_epoch_is_better_than_the_start_the_model_keeps_its_weights(network, tiny_settings, monkeypatch):
    settings = tiny_settings | {"valid_share": 0.1}
    untrained = SaftClassifier(**settings | {"epochs": 0}).fit(network)
    score_as(monkeypatch, 0.9, 0.5, 0.8)
    kept = SaftClassifier(**settings | {"epochs": 2}).fit(network)
    assert (kept.report().best_epoch, kept.report().epochs, kept.report().start_macro_f1) == (0, 2, 0.9)
    assert "best before the first epoch" in str(kept.report())
    assert all(torch.equal(a, b) for a, b in zip(weights(untrained).values(), weights(kept).values(), strict=True))


def test_the_delivered_model_is_the_mixture_that_validation_chose(network, tiny_settings, monkeypatch):
    """The same training with nothing, a part and all of what it adds to the start."""
    parts = saft.split(network)

    def logits(share: float) -> np.ndarray:
        score_as(monkeypatch, 0.1, 0.2, 0.3)
        monkeypatch.setattr(Start, "best_share", lambda *_: share)
        classifier = SaftClassifier(**tiny_settings).fit(network, train=parts.train, valid=parts.valid)
        return predict_logits(classifier.model_, classifier.assembly_.loader(), parts.test)

    at_start, mixed, trained = (logits(share) for share in (0.0, 0.3, 1.0))
    assert np.abs(trained - at_start).max() > 0.01
    np.testing.assert_allclose(mixed, at_start + 0.3 * (trained - at_start), atol=1e-4)


def test_a_model_that_keeps_nothing_of_its_training_predicts_what_the_start_was_scored_by(network, tiny_settings):
    parts = saft.split(network)
    assembly = Assembly.fresh(Settings.of(tiny_settings), network.showing(parts.train))
    start = assembly.start(parts.valid)
    start.mix_into(assembly.model, 0.0)
    predicted = predict_logits(assembly.model, assembly.loader(), parts.valid)
    np.testing.assert_allclose(start.logits, predicted, atol=1e-5)
    untrained = SaftClassifier(**tiny_settings | {"epochs": 0, "valid_share": 0.0}).fit(network.showing(parts.train))
    expected = Assembly.fresh(Settings.of(tiny_settings), network.showing(parts.train)).start(parts.test).logits
    found = predict_logits(untrained.model_, untrained.assembly_.loader(), parts.test)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    text_only = Assembly.fresh(Settings.of(tiny_settings | TEXT_ONLY), network.showing(parts.train))
    assert text_only.start(parts.valid) is None  # a random head is no candidate


def test_without_validation_rows_scores_are_nan_and_the_last_epoch_is_kept(network, tiny_settings):
    report = SaftClassifier(**tiny_settings | {"epochs": 2}).fit(network).report()
    assert report.best_epoch == 2
    assert all(np.isnan([record.valid_macro_f1, record.valid_micro_f1]).all() for record in report.history)
    assert np.isnan(report.start_macro_f1)


def test_ctrl_c_leaves_a_usable_model(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings).fit(network, callbacks=[Recorder(stop_after=3)])
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


@pytest.mark.parametrize("changes", [{}, {"fusion": "paper", "cache_neighbours": False, "neighbours": 1}])
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


def test_training_does_not_touch_the_weights_of_side_features_that_it_does_not_see(network, tiny_settings):
    parts = saft.split(network)
    assembly = Assembly.fresh(Settings.of(tiny_settings), network.showing(parts.train))
    model = assembly.model
    nobody = np.empty(0, np.int64)
    trainer.Trainer(model, assembly.loader(), parts.train, nobody, nobody, Settings.of(tiny_settings)).run()
    beside = model.head.weight[:, -model.n_side_features :].detach()
    learnt = torch.zeros(model.n_side_features, dtype=torch.bool)
    learnt[model.sizes.learnt] = True
    assert learnt.any()
    assert not beside[:, ~learnt].any()
    assert (beside[:, learnt] != 0).all()


def test_without_validation_rows_training_and_start_count_the_same(network, tiny_settings):
    assembly = Assembly.fresh(Settings.of(tiny_settings), network)
    nobody = np.empty(0, np.int64)
    made = trainer.Trainer(
        assembly.model, assembly.loader(), np.arange(N), nobody, nobody, Settings.of(tiny_settings),
        start=assembly.start(nobody),
    )  # fmt: skip
    assert made.run().best_share == 0.5
    model, unseen = assembly.model, assembly.loader().learnt_columns.stop
    beside = model.head.weight[:, -model.n_side_features :].detach()
    torch.testing.assert_close(beside[:, unseen:], 0.5 * assembly.start_weights[unseen:-1].T)
