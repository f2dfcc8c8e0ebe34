"""The loop: that it repeats itself, that it stops, what it keeps.

Covers: learning.interface.
"""

import numpy as np
import pytest
import torch

import saft
from saft.classifier.assembly import Assembly
from saft.classifier.estimator import SaftClassifier
from saft.learning import trainer
from saft.learning.prediction import predict_logits
from saft.settings import TEXT_ONLY, Settings
from tests.learning.recorder import Recorder, score_as, weights

N = 240


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.mark.parametrize(
    "changes", [{}, {"fusion": "paper", "messages": "gau", "cache_neighbours": False, "readout": "paper"}]
)
def test_the_same_seed_gives_the_same_weights_bit_for_bit(network, tiny_settings, changes):
    first, second = (SaftClassifier(**tiny_settings | changes).fit(network) for _ in range(2))
    other = SaftClassifier(**tiny_settings | changes, seed=1).fit(network)
    assert all(torch.equal(a, b) for a, b in zip(weights(first).values(), weights(second).values(), strict=True))
    assert not torch.equal(weights(first)["head.weight"], weights(other)["head.weight"])


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


@pytest.mark.parametrize(("second", "kept"), [(0.59, 2), (0.5, 1)])
def test_of_epochs_that_validation_cannot_tell_apart_the_last_is_kept(
    network, tiny_settings, monkeypatch, second, kept
):
    """24 rows tell differences from 0.25 / √24 on."""
    score_as(monkeypatch, 0.2, 0.6, second)
    classifier = SaftClassifier(**tiny_settings | {"valid_share": 0.1, "epochs": 2}).fit(network)
    assert classifier.report().best_epoch == kept


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
        score_as(monkeypatch, 0.1, 0.2, 0.3, share=share)
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
