"""What a model starts from, and how much of what training adds is kept: against the formulas written out."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

import saft
from saft import SaftClassifier
from saft.classifier.assembly import Assembly
from saft.learning import trainer
from saft.learning.prediction import predict_logits
from saft.learning.start import SHARES, Start
from saft.settings import Settings


@pytest.fixture
def start() -> Start:
    return Start(np.random.default_rng(0).normal(size=(40, 3)), torch.zeros(1, 3))


def literal_share(start: Start, trained: np.ndarray, labels: np.ndarray) -> float:
    losses = []
    for share in SHARES:
        loss = -np.log(max(share * (1 - share), 1e-3))  # Beta(2, 2), but for its constant
        for at_start, after, label in zip(start.logits, trained, labels, strict=True):
            loss -= log_softmax(at_start + share * (after - at_start))[label]
        losses.append(loss)
    return float(SHARES[int(np.argmin(losses))])


@pytest.mark.parametrize("seed", range(6))
def test_the_share_is_the_one_that_makes_validation_rows_likeliest(start, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 40)
    trained = start.logits + rng.normal(size=(40, 3)) + seed / 3 * np.eye(3)[labels]
    assert start.best_share(trained, labels) == pytest.approx(literal_share(start, trained, labels))


def test_what_training_adds_is_kept_if_it_is_right_and_not_if_it_is_wrong(start):
    labels = np.arange(40) % 3
    right = start.logits + np.eye(3)[labels]
    assert start.best_share(right, labels) > 0.8
    assert start.best_share(start.logits + np.eye(3)[(labels + 1) % 3], labels) < 0.2
    assert start.best_share(start.logits, labels) == 0.5  # rows that say nothing
    assert 0.4 < Start(start.logits[:1], start.weights).best_share(right[:1], labels[:1]) < 0.95


def test_the_mixture_goes_from_the_start_to_the_end(start):
    trained = start.logits + 1
    np.testing.assert_array_equal(start.mixed(trained, 0.0), start.logits)
    np.testing.assert_allclose(start.mixed(trained, 1.0), trained)
    np.testing.assert_allclose(start.mixed(trained, 0.25), start.logits + 0.25)


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(240)


@pytest.fixture(scope="module")
def parts(network):
    return saft.split(network)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_mixed_into_the_head_the_model_gives_the_mixture(network, parts, tiny_settings, share):
    assembly = Assembly.fresh(Settings.of(tiny_settings), network.showing(parts.train))
    loader, model = assembly.loader(), assembly.model.eval()
    start = assembly.start(parts.valid)
    np.testing.assert_allclose(start.logits, predict_logits(model, loader, parts.valid), atol=1e-5)
    with torch.no_grad():
        model.head.weight.add_(torch.randn(model.head.weight.shape, generator=torch.Generator().manual_seed(0)) / 10)
        model.head.bias.add_(1.0)
    trained = predict_logits(model, loader, parts.valid)
    start.mix_into(model, share)
    expected = start.mixed(trained, share)
    np.testing.assert_allclose(predict_logits(model, loader, parts.valid), expected, atol=1e-4)


def test_the_delivered_model_is_the_mixture_that_validation_chose(network, parts, tiny_settings, monkeypatch):
    """The same training with the share 0.3 and with all of what it added."""
    scores = itertools.count()
    monkeypatch.setattr(trainer, "log_loss", lambda *_: -float(next(scores)))  # the last epoch is the best

    def logits(share: float) -> np.ndarray:
        monkeypatch.setattr(Start, "best_share", lambda *_: share)
        classifier = SaftClassifier(**tiny_settings).fit(network, train=parts.train, valid=parts.valid)
        assert classifier.report().best_epoch == 2
        return predict_logits(classifier.model_, classifier.assembly_.loader(), parts.test)

    at_start, mixed, trained = (logits(share) for share in (0.0, 0.3, 1.0))
    assert np.abs(trained - at_start).max() > 0.01
    np.testing.assert_allclose(mixed, at_start + 0.3 * (trained - at_start), atol=1e-4)
