"""SAFT without an encoder: the preset ``fast`` among the rivals."""

import numpy as np
import pytest

import saft
from saft.learning.prediction import predict_logits
from saft.methods import find
from saft.metrics import softmax
from saft.settings import PRESETS


@pytest.fixture(scope="module")
def parts(toy):
    return saft.split(toy, seed=0)


@pytest.fixture(scope="module")
def fitted(toy, toy_settings, parts):
    return find("saft_fast").make(toy_settings).fit(toy.hiding(parts.test), parts.train, parts.valid)


def test_it_is_the_preset_whatever_encoder_the_other_methods_have(toy_settings):
    settings = find("saft_fast").settings_with(toy_settings, {})
    assert settings.preset == "fast"
    assert not find("saft_fast").reads_with_encoder
    assert settings.changed(encoder=toy_settings["encoder"]).as_dict().items() >= toy_settings.items()


def test_it_predicts_what_the_classifier_with_the_same_labels_predicts(fitted, toy, toy_settings, parts):
    given = {name: value for name, value in toy_settings.items() if name not in PRESETS["fast"]}
    hidden = toy.hiding(parts.test)
    classifier = saft.SaftClassifier(preset="fast", **given).fit(hidden, train=parts.train, valid=parts.valid)
    loader = classifier.assembly_.loader(classifier.network_.hiding(parts.valid))
    expected = softmax(predict_logits(classifier.model_, loader, parts.test))
    np.testing.assert_allclose(fitted.predict_proba(hidden, parts.test), expected, atol=1e-6)


def test_logits_are_a_linear_map_of_what_was_gathered(fitted, toy):
    loader, head = fitted.loader(toy), fitted.assembly.model.head
    rows = np.arange(30)
    expected = loader.side_features[rows] @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    np.testing.assert_allclose(predict_logits(fitted.assembly.model, loader, rows), expected, atol=1e-5)
    assert set(loader.evidence.groups()) == {"words", "labels", "neighbours", "style", "style around", "repeats"}
    assert fitted.n_parameters_ == head.weight.numel() + head.bias.numel()
    assert fitted.assembly.model.encoder is None
