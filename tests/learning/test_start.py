"""The start of a model, and how much of what training adds to it is kept. Covers: learning.start."""

import numpy as np
import pytest
import torch
from torch.nn import functional

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
    assert start(4 * NOISE[::-1]).choose(INFORMED, LABELS)[0] > 0.9
    assert start(INFORMED).choose(4 * NOISE[::-1], LABELS)[0] < 0.1


@pytest.mark.parametrize("rows", [5, 40, 400])
def test_the_share_is_that_of_the_likeliest_pair_of_weights_which_few_rows_leave_near_one_half(rows):
    trained, labels = (NOISE[::-1] + np.eye(3, dtype=np.float32)[LABELS])[:rows], LABELS[:rows]
    begun = Start(INFORMED[:rows], torch.zeros(1, 3))
    best, least = None, np.inf
    for a in np.arange(0, 3, 0.02):
        for b in np.arange(0, 3, 0.02):
            logits = torch.from_numpy(a * begun.logits + b * trained)
            loss = float(functional.cross_entropy(logits, torch.from_numpy(labels), reduction="sum"))
            loss += (a - 0.5) ** 2 + (b - 0.5) ** 2
            if loss < least:
                best, least = b / max(a + b, 1e-9), loss
    share, goodness = begun.choose(trained, labels)
    assert share == pytest.approx(best, abs=0.02)
    assert goodness == pytest.approx(-least / rows, abs=1e-3)


def test_a_training_that_is_merely_bolder_is_not_better_than_the_start():
    begun = start(INFORMED)
    assert begun.choose(8 * INFORMED, LABELS)[1] <= begun.choose(INFORMED, LABELS)[1] + 0.01


def test_without_validation_rows_start_and_training_count_the_same():
    assert start(INFORMED[:0]).choose(INFORMED[:0], LABELS[:0])[0] == 0.5
    assert start(INFORMED[:1]).choose(INFORMED[:1], LABELS[:1])[0] == pytest.approx(0.5, abs=1e-3)


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
