"""SAFT with an encoder that is not trained: the preset ``balanced`` among the rivals."""

import numpy as np
import pytest
import torch

import saft
from saft.learning.prediction import predict_logits
from saft.methods import find
from saft.metrics import softmax
from saft.model.encoder import TextEncoder


@pytest.fixture(scope="module")
def parts(toy):
    return saft.split(toy, seed=0)


@pytest.fixture(scope="module")
def fitted(toy, toy_settings, parts):
    return find("saft_balanced").make(toy_settings).fit(toy.hiding(parts.test), parts.train, parts.valid)


def test_it_predicts_what_the_classifier_with_the_same_labels_predicts(fitted, toy, toy_settings, parts):
    hidden = toy.hiding(parts.test)
    classifier = saft.SaftClassifier(preset="balanced", **toy_settings)
    classifier.fit(hidden, train=parts.train, valid=parts.valid)
    loader = classifier.assembly_.loader(classifier.network_.hiding(parts.valid))
    expected = softmax(predict_logits(classifier.model_, loader, parts.test))
    np.testing.assert_allclose(fitted.predict_proba(hidden, parts.test), expected, atol=1e-6)


def test_the_encoder_is_read_and_not_trained(fitted, toy, toy_settings):
    loader, head = fitted.loader(toy), fitted.assembly.model.head
    assert set(loader.evidence.groups()) == {
        "words", "labels", "alike", "likeness", "neighbours", "context", "style", "style around", "repeats",
    }  # fmt: skip
    assert fitted.n_parameters_ == head.weight.numel() + head.bias.numel()
    pretrained = TextEncoder.load(toy_settings["encoder"]).state_dict()
    for name, tensor in fitted.assembly.model.encoder.state_dict().items():
        torch.testing.assert_close(tensor, pretrained[name])


def test_logits_are_a_linear_map_of_what_was_gathered(fitted, toy):
    loader, head = fitted.loader(toy), fitted.assembly.model.head
    rows = np.arange(30)
    expected = loader.side_features[rows] @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    np.testing.assert_allclose(predict_logits(fitted.assembly.model, loader, rows), expected, atol=1e-5)
