"""What methods that train the encoder share."""

import numpy as np
import pytest
import torch

import saft
from saft.classifier.assembly import Assembly
from saft.learning.callbacks import Callback
from saft.methods import find
from saft.methods._fine_tuned import neighbours_of_seed_rows
from saft.methods.bert import Bert
from tests.methods.test_bert_graphsage import neighbours


def test_neighbours_are_the_sampled_interactions_that_share_a_node(made):
    _, batch = made("bert_graphsage")
    mask = neighbours_of_seed_rows(batch)
    for place in range(len(batch.seed_rows)):
        assert mask[place].nonzero()[:, 0].tolist() == neighbours(batch, place)
    assert mask.any(dim=1).sum() >= 5


def test_validation_labels_are_in_nothing_that_a_method_keeps(toy, toy_settings):
    parts = saft.split(toy, seed=0)
    method = find("bert_labels").make(toy_settings | {"epochs": 1}).fit(toy, train=parts.train, valid=parts.valid)
    assert np.flatnonzero(method.assembly.network.is_labelled).tolist() == sorted(parts.train)
    assert np.flatnonzero(method.loader(toy).labels != saft.data.network.HIDDEN).tolist() == sorted(parts.train)


@pytest.mark.parametrize(
    "name", ["bert", "bert_nodes", "bert_graphsage", "edgeformers", "graphformers", "glem_lm", "glem_gnn", "giant"]
)
def test_a_method_that_learns_from_words_and_structure_gathers_no_side_features(name, toy, toy_settings):
    method = find(name).make(toy_settings)
    assembly = Assembly.fresh(method.settings, toy.showing(np.arange(100)), getattr(method, "build", Bert))
    assert assembly.loader().n_side_features == 0
    assert assembly.featurizer.state_.ngrams is assembly.featurizer.state_.sentences is None
    assert not assembly.features.vectors.size


def test_logits_above_frozen_layers_are_those_of_the_whole_encoder(made):
    """Half precision aside."""
    (whole, tokens), (upper, states) = (made("bert", {"trained_layers": number}) for number in (3, 2))
    assert (whole.encoder.frozen, upper.encoder.frozen) == (0, 1)
    whole.load_state_dict(upper.state_dict())
    torch.testing.assert_close(whole(tokens).logits, upper(states).logits, atol=5e-3, rtol=0)


@pytest.mark.parametrize("name", ["bert", "simteg", "giant", "glem_lm"])
def test_without_a_layer_to_train_it_says_what_it_needs(name, toy, toy_settings):
    with pytest.raises(saft.InputError, match="needs one \\(encoder\\) and layers to train"):
        find(name).make(toy_settings, {"trained_layers": 0}).fit(toy, np.arange(50), np.arange(50, 60))


def test_an_interrupted_training_is_no_result(toy, toy_settings):
    class Impatient(Callback):
        def on_step_end(self, state):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find("bert").make(toy_settings, callbacks=[Impatient()]).fit(toy, np.arange(50), np.arange(50, 60))
