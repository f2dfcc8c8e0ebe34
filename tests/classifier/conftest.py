"""Fixtures for tests of the classifier."""

import pytest

import saft
from saft import SaftClassifier
from saft.learning.trainer import Trainer


@pytest.fixture(autouse=True, scope="module")
def _last_epoch_is_kept():
    """An encoder with random weights hardly ever improves on the start, in which neither words nor messages take part.
    So that they do, the last epoch of these tests is kept, and mixed with the start half and half."""
    consider = Trainer._consider

    def keep(trainer, epoch, logits):
        scores = consider(trainer, epoch, logits)
        trainer.best.keep(trainer.accelerator.unwrap_model(trainer.model), epoch, scores[0], trainer.state)
        trainer.state.best_share = 0.5 if epoch else 0.0
        return scores

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_consider", keep)
        yield


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(400)


@pytest.fixture(scope="module")
def parts(network):
    return saft.split(network)


@pytest.fixture(scope="module")
def fitted(network, parts, tiny_settings):
    classifier = SaftClassifier(**tiny_settings).fit(network.hiding(parts.test), train=parts.train, valid=parts.valid)
    assert classifier.report().best_epoch > 0  # at the start, parts other than side features have no effect
    return classifier
