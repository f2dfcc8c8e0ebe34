"""The start of a model, and how much of what training adds to it is kept. Covers: learning.start."""

import numpy as np
import pytest
import torch

from saft.learning.start import Start
from saft.model.base import Sizes
from saft.model.regression import RegressionModel
from saft.settings import Settings

LABELS = np.random.default_rng(0).integers(0, 3, 400)
NOISE = np.random.default_rng(1).normal(size=(400, 3)).astype(np.float32)
INFORMED = NOISE + 2 * np.eye(3, dtype=np.float32)[LABELS]


def start(logits: np.ndarray) -> Start:
    return Start(logits, torch.zeros(1, 3))


def test_more_of_a_training_is_kept_if_the_start_misleads_and_less_if_the_training_does():
    assert start(4 * NOISE[::-1]).best_share(INFORMED, LABELS) > 0.5
    assert start(INFORMED).best_share(4 * NOISE[::-1], LABELS) < 0.5


def test_the_score_of_the_mixture_is_at_least_that_of_the_half_and_few_rows_need_a_large_gain_to_leave_it():
    begun, trained = start(INFORMED), NOISE + np.eye(3, dtype=np.float32)[LABELS]
    share = begun.best_share(trained, LABELS)
    assert begun.goodness(trained, LABELS, share) >= begun.goodness(trained, LABELS, 0.5)
    few = Start(INFORMED[:4], torch.zeros(1, 3))
    assert few.goodness(trained[:4], LABELS[:4], 1.0) <= few.goodness(trained[:4], LABELS[:4], 0.5) + 1 - 0.125


def test_without_validation_rows_to_speak_of_start_and_training_count_the_same():
    assert start(INFORMED[:1]).best_share(INFORMED[:1], LABELS[:1]) == pytest.approx(0.5)


def test_a_mixed_head_gives_the_mixture_of_logits():
    torch.manual_seed(0)
    model = RegressionModel(None, Settings(encoder="none"), Sizes(3, 1, 1, 0, 0, side_features=5))
    features, weights = torch.randn(7, 5), torch.randn(6, 3)
    at_start = features @ weights[:-1] + weights[-1]
    trained = model.side_logits(features)
    Start(at_start.numpy(), weights).mix_into(model, 0.3)
    np.testing.assert_allclose(
        model.side_logits(features).numpy(), (at_start + 0.3 * (trained - at_start)).numpy(), atol=1e-5
    )
