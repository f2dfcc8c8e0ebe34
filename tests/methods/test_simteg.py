"""SimTeG: a trained encoder that the graph networks leave as it is, and the mean of their logits."""

import numpy as np
import pytest
import torch

import saft
from saft.learning.prediction import represent
from saft.methods import find
from saft.methods._line_graph import LineGraph
from saft.methods.simteg import MEMBERS
from saft.metrics import softmax


@pytest.fixture(scope="module")
def parts(toy):
    return saft.split(toy, seed=0)


@pytest.fixture(scope="module")
def fitted(toy, toy_settings, parts):
    return find("simteg").make(toy_settings | {"epochs": 1}).fit(toy.hiding(parts.test), parts.train, parts.valid)


def test_its_encoder_is_the_fine_tuned_one_and_stays_as_it_is(fitted, toy, toy_settings, parts):
    bert = find("bert").make(toy_settings | {"epochs": 1}).fit(toy.hiding(parts.test), parts.train, parts.valid)
    expected = bert.assembly.model.state_dict()
    for name, tensor in fitted.language_.assembly.model.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0)


def test_its_prediction_is_the_mean_of_the_logits_of_different_networks_on_the_encoders_vectors(fitted, toy, parts):
    language = fitted.language_
    vectors = represent(language.assembly.model, language.loader(toy), np.arange(len(toy)))
    given = torch.from_numpy(vectors), LineGraph.of(toy), torch.from_numpy(parts.test)
    with torch.inference_mode():
        logits = [net(*given).numpy() for net in fitted.nets_]
    assert len(logits) == MEMBERS
    assert min(np.abs(logits[0] - logits[1]).max(), np.abs(logits[1] - logits[2]).max()) > 1e-3
    expected = softmax((logits[0] + logits[1] + logits[2]) / 3)
    np.testing.assert_allclose(fitted.predict_proba(toy, parts.test), expected, atol=1e-6)


def test_a_network_on_the_vectors_is_trained_on_training_rows_alone(fitted, toy, parts):
    assert np.flatnonzero(fitted.language_.assembly.network.is_labelled).tolist() == sorted(parts.train)
