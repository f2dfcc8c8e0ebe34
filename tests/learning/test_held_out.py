"""How much of a training counts, by rows that it has not seen."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import saft
from saft.classifier.assembly import Assembly
from saft.classifier.fitting import fit
from saft.learning.callbacks import Callback
from saft.learning.held_out import held_out_logits, with_share
from saft.learning.prediction import predict_logits
from saft.learning.trainer import Trainer
from saft.settings import Settings

FEW = 80


@pytest.fixture(scope="module")
def parts(network):
    return saft.split(network)


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(200)


@pytest.fixture
def settings(tiny_settings):
    return Settings.of(tiny_settings | {"least_fused": FEW + 1, "epochs": 1, "trees": False})


@pytest.fixture
def assembly(network, parts, settings):
    return Assembly.fresh(settings, network.showing(parts.train[:FEW]))


class Messages(Callback):
    def __init__(self):
        self.said = []

    def on_message(self, message):
        self.said.append(message)


def test_every_row_is_judged_by_a_training_without_its_fold(assembly, parts, settings):
    rows, loader = parts.train[:FEW], assembly.loader()
    found = held_out_logits(assembly.model, loader, rows, settings, Callback())
    folds, nothing = loader.features.folds[rows], np.empty(0, np.int64)
    for fold in (0, 3):
        model = copy.deepcopy(assembly.model)
        Trainer(model, loader, rows[folds != fold], nothing, nothing, settings).run()
        expected = predict_logits(model, loader, rows[folds == fold])
        np.testing.assert_allclose(found[folds == fold], expected, atol=1e-5)


def test_labels_of_a_fold_change_nothing_that_is_said_of_it(network, parts, settings, assembly):
    rows = parts.train[:FEW]
    fold = assembly.loader().features.folds[rows] == 2
    flipped = network.labels.copy()
    flipped[rows[fold]] = (flipped[rows[fold]] + 1) % network.n_classes
    # The head starts from the shares of the classes, so two labels change places where they can.
    other = Assembly.fresh(settings, replace(network, labels=flipped).showing(rows))
    other.model.load_state_dict(assembly.model.state_dict())
    one, two = (held_out_logits(each.model, each.loader(), rows, settings, Callback()) for each in (assembly, other))
    np.testing.assert_allclose(one[fold], two[fold], atol=1e-5)
    assert np.abs(one[~fold] - two[~fold]).max() > 1e-3


def test_what_the_start_says_of_a_row_without_its_fold_stands_in_the_order_of_the_rows(assembly, parts):
    rows = parts.train[:FEW]
    shuffled = np.random.default_rng(0).permutation(FEW)
    np.testing.assert_array_equal(assembly.held_out_start(rows[shuffled]), assembly.held_out_start(rows)[shuffled])
    labels = assembly.network.labels[rows]
    assert (assembly.held_out_start(rows).argmax(axis=1) == labels).mean() > 0.5


def test_the_untrained_model_stays_as_it_was(assembly, parts, settings):
    before = {name: tensor.clone() for name, tensor in assembly.model.state_dict().items()}
    held_out_logits(assembly.model, assembly.loader(), parts.train[:FEW], settings, Callback())
    assert all(torch.equal(before[name], tensor) for name, tensor in assembly.model.state_dict().items())


def test_rows_of_a_single_fold_decide_nothing(assembly, parts, settings):
    loader = assembly.loader()
    rows = parts.train[:FEW]
    same = rows[loader.features.folds[rows] == 1]
    start = assembly.start(parts.valid)
    held_out = assembly.held_out_start(same)
    assert with_share(start, held_out, assembly.model, loader, same, settings, Callback()).share is None


def test_with_few_labels_the_share_comes_from_held_out_folds_and_the_last_epoch_is_kept(network, parts, settings):
    messages = Messages()
    fitted = fit(settings.changed(epochs=2), network, parts.train[:FEW], parts.valid, callbacks=[messages])
    assert sum("training without a fifth" in message for message in messages.said) == 5
    assert fitted.state.best_epoch == 2
    assembly = Assembly.fresh(settings.changed(epochs=2), network.showing(parts.train[:FEW]))
    rows, start = parts.train[:FEW], assembly.start(parts.valid)
    trained = held_out_logits(assembly.model, assembly.loader(), rows, settings.changed(epochs=2), Callback())
    expected = replace(start, logits=assembly.held_out_start(rows)).choose(trained, network.labels[rows])[0]
    assert fitted.state.best_share == pytest.approx(expected, abs=1e-6)


def test_with_enough_labels_the_validation_rows_decide(network, parts, settings):
    messages = Messages()
    fit(settings.changed(least_fused=FEW), network, parts.train[:FEW], parts.valid, callbacks=[messages])
    assert not any("training without a fifth" in message for message in messages.said)
