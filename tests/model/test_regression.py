"""The model without a trained encoder: a linear model of the side features, started from its solution."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import saft
from saft.classifier.assembly import Assembly, fit_start
from saft.features.trees import FITTED_DIMENSIONS
from saft.model.regression import RegressionModel
from saft.settings import Settings


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(200).hiding(np.arange(150, 200))


@pytest.fixture(scope="module", params=[{"encoder": "none"}, {"trained_layers": 0}], ids=str)
def assembly(request, network, tiny_settings) -> Assembly:
    return Assembly.fresh(Settings.of(tiny_settings | request.param), network)


def test_logits_are_weights_times_side_features(assembly):
    assert isinstance(assembly.model, RegressionModel)
    loader = assembly.loader()
    view = next(loader.prediction_passes(np.arange(150, 200)))
    batch = loader.batch(view.batches[0], view)
    seen = batch.side_features[batch.seed_rows]
    with torch.no_grad():
        output = assembly.model(batch)
        expected = seen @ assembly.model.head.weight.T + assembly.model.head.bias
    torch.testing.assert_close(output.logits, expected)
    torch.testing.assert_close(output.representation, seen)
    np.testing.assert_array_equal(seen.numpy(), loader.side_features[batch.rows[batch.seed_rows.numpy()]])
    np.testing.assert_allclose(assembly.start(view.batches[0]).logits, expected.numpy(), atol=1e-5)


def test_its_weights_are_the_solution_on_side_features(assembly):
    _, solved = fit_start(replace(assembly, trees=None).loader())
    torch.testing.assert_close(assembly.model.head.weight.detach(), solved[:-1].T)
    torch.testing.assert_close(assembly.model.head.bias.detach(), solved[-1])
    assert assembly.model.n_side_features == assembly.loader().n_side_features == len(solved) - 1


def test_nothing_but_the_head_is_trained_and_no_message_is_passed(assembly):
    trained = {name for name, weight in assembly.model.named_parameters() if weight.requires_grad}
    assert trained == {"head.weight", "head.bias"}
    assert assembly.cache is None
    assert assembly.model.message_shape == ()
    assert all(vectors.shape[1] <= FITTED_DIMENSIONS for vectors in assembly.features.structure.values())
    assert (assembly.layers is None) == (assembly.settings.encoder == "none")


def test_a_batch_without_side_features_is_refused(assembly):
    loader = assembly.loader()
    view = next(loader.prediction_passes(np.arange(5)))
    batch = loader.batch(view.batches[0], view)
    object.__setattr__(batch, "side_features", None)
    with pytest.raises(ValueError, match="needs side features"):
        assembly.model(batch)


def test_without_anything_to_learn_from_it_is_refused(network, tiny_settings):
    nothing = {"encoder": "none", "ngrams": False, "labels": False, "style": False, "repeats": False}
    with pytest.raises(saft.InputError, match="nothing to learn from"):
        Assembly.fresh(Settings.of(tiny_settings | nothing), network)
