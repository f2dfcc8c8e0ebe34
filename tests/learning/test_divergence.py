"""Numbers that are none stop a training with a sentence, and never reach a weight, a file or a prediction."""

import json

import numpy as np
import pytest
import torch

import saft
from saft import SaftClassifier
from saft.learning.divergence import DivergedError
from saft.learning.trainer import Trainer
from saft.tensors import read_tensors
from tests.learning.recorder import Recorder, weights

N = 240


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


def poisoned(monkeypatch, bad_step: int, value: float):
    """From this step on, counted over all epochs, the loss is multiplied by ``value``."""
    steps, loss = [0], Trainer._loss

    def changed(trainer, output, batch):
        steps[0] += 1
        return loss(trainer, output, batch) * (value if steps[0] == bad_step else 1)

    monkeypatch.setattr(Trainer, "_loss", changed)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_error_says_which_step_which_rows_and_what_to_change(network, tiny_settings, monkeypatch, value):
    poisoned(monkeypatch, 2, value)
    classifier = SaftClassifier(**tiny_settings)
    with pytest.raises(
        saft.InputError, match=rf"the loss became {value} in step 2 of epoch 1, on \d+ rows \("
    ) as error:
        classifier.fit(network)
    assert "Try a lower learning_rate (now 0.001)" in str(error.value)
    with pytest.raises(saft.InputError, match="not been trained"):  # there was nothing good yet
        classifier.predict(network)


def test_an_infinite_gradient_of_a_finite_loss_reaches_no_weight(network, tiny_settings, monkeypatch):
    clip = torch.nn.utils.clip_grad_norm_

    def infinite(parameters, *given, **more):
        parameters = list(parameters)
        next(one for one in parameters if one.grad is not None).grad.fill_(float("inf"))
        return clip(parameters, *given, **more)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", infinite)
    with pytest.raises(saft.InputError, match=r"the gradient became (inf|nan) in step 1 of epoch 1"):
        SaftClassifier(**tiny_settings).fit(network)


def test_the_best_weights_from_before_are_the_model_and_nothing_in_them_or_its_files_is_no_number(
    network, tiny_settings, monkeypatch, tmp_path
):
    settings = tiny_settings | {"epochs": 3, "warmup": 0.0, "learning_rate": 0.0, "head_learning_rate": 0.0}
    whole = SaftClassifier(**settings | {"epochs": 1}).fit(network)
    recorder = Recorder()
    poisoned(monkeypatch, len(recorder.records) + 2 * steps_of(network, settings) + 1, float("nan"))
    diverged, folder = SaftClassifier(**settings), tmp_path / "checkpoint"
    with pytest.raises(DivergedError, match="in step 1 of epoch 3"):
        diverged.fit(network, checkpoint=folder, checkpoint_seconds=0)
    assert diverged.report().epochs == 2
    assert diverged.report().best_epoch == 2
    assert all(torch.equal(weights(whole)[name], weights(diverged)[name]) for name in weights(whole))
    assert all(tensor.isfinite().all() for tensor in read_tensors(folder / "state.safetensors")[0].values())
    diverged.save(tmp_path / "model")
    refusing = {"parse_constant": lambda word: pytest.fail(f"{word} in a JSON file")}
    for path in (tmp_path / "model").rglob("*.json"):
        json.loads(path.read_text(), **refusing)
    assert np.isfinite(saft.load(tmp_path / "model").predict_proba(network)).all()


def steps_of(network, settings) -> int:
    seen = []

    class Counter(saft.learning.callbacks.Callback):
        def on_step_end(self, state):
            seen.append(state.step)

    SaftClassifier(**settings | {"epochs": 1}).fit(network, callbacks=[Counter()])
    return len(seen)


def test_predictions_of_validation_rows_that_are_no_numbers_are_an_error(network, tiny_settings, monkeypatch):
    consider = Trainer._consider

    def spoilt(trainer, epoch, logits):
        return consider(
            trainer, epoch, logits if epoch < 2 else np.where(np.arange(len(logits)) < 2, np.nan, logits.T).T
        )

    monkeypatch.setattr(Trainer, "_consider", spoilt)
    with pytest.raises(
        saft.InputError, match=r"after epoch 2, predictions of 2 rows \(\d+, \d+\) of validation are no"
    ):
        SaftClassifier(**tiny_settings | {"valid_share": 0.1, "epochs": 3}).fit(network)


def test_a_model_whose_weights_are_no_numbers_is_neither_saved_nor_loaded(network, tiny_settings, tmp_path):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 0}).fit(network)
    with torch.no_grad():
        classifier.model_.head.weight[0, 0] = float("nan")
    with pytest.raises(saft.InputError, match=r"not finite \(head\.weight …\), so it is not saved"):
        classifier.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("preset", ["fast", "best"])
def test_attributes_of_any_size_train_and_predict_with_finite_numbers(network, tiny_settings, preset, tmp_path):
    """Half of them would overflow a float32, squares of the others a float64."""
    wild = np.resize([1e308, -1e308, np.inf, np.nan, 3.0, 1e200, 0.0, -7.5], N)
    frame = network.to_frame().with_columns(saft.classifier.estimator.pl.Series("age", wild))
    settings = tiny_settings if preset == "best" else {"preset": "fast"}
    with pytest.warns(saft.InputWarning, match="changes between rows of the same user"):
        given = saft.read(frame, user_attributes=["age"])
    classifier = SaftClassifier(**settings).fit(given)
    classifier.save(tmp_path / "model")
    for age in (1e308, -1e308, float("inf"), float("nan"), 1e30):
        rows = [{"user": "new", "item": "new", "text": "lovely", "age": age}]
        asked = saft.read(rows, labelled=False, user_attributes=["age"])
        assert np.isfinite(saft.load(tmp_path / "model").predict_proba(asked)).all()
