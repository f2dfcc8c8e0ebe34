"""What methods that train the encoder share."""

import numpy as np
import pytest

import saft
from saft.learning.callbacks import Callback
from saft.methods import find
from saft.methods._fine_tuned import neighbours_of_seed_rows
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


def test_an_interrupted_training_is_no_result(toy, toy_settings):
    class Impatient(Callback):
        def on_step_end(self, state):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find("bert").make(toy_settings, callbacks=[Impatient()]).fit(toy, np.arange(50), np.arange(50, 60))
