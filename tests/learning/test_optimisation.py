"""Learning rates: over time, and of which parts."""

import pytest
import torch

import saft
from saft.classifier.estimator import SaftClassifier
from saft.learning.optimisation import WarmupSchedule, parameter_groups
from saft.settings import Settings

N = 240


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


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
