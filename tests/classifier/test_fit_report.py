"""What is reported of a training: in words, and as JSON without nan."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from saft.classifier.fit_report import FitReport
from saft.learning.callbacks import EpochRecord, TrainerState

EPOCH = EpochRecord(1, 0.3, 0.7, 0.8, 2.0, 50.0)
UNSCORED = EpochRecord(2, 0.2, math.nan, math.nan, 2.0, 50.0)


@pytest.fixture
def report() -> FitReport:
    state = TrainerState(epochs=3, epoch=1, best_epoch=1, best_score=0.7, history=[EPOCH, UNSCORED])
    logits = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    return FitReport.of(state, logits, np.array([0, 1, 1]), temperature=1.5, seconds=12.3)


def test_scores_are_those_of_the_validation_rows(report):
    assert report.valid_micro_f1 == pytest.approx(2 / 3)
    assert str(report).startswith("1 epoch in 12 s, best after epoch 1. Validation: Macro-F1 66.7%, Micro-F1 66.7%,")


def test_the_outcome_is_said_in_words(report):
    assert "best before the first epoch: no epoch was better" in str(replace(report, best_epoch=0))
    assert "not trained" in str(replace(report, best_epoch=0, epochs=0))
    assert "(interrupted)" in str(replace(report, interrupted=True))
    assert "Without validation rows nothing was scored" in str(replace(report, valid_macro_f1=math.nan))


def test_a_regression_is_not_described_by_epochs(report):
    regression = replace(report, best_epoch=0, epochs=0, trains_encoder=False)
    assert str(regression).startswith("Fitted in 12 s: a regression, no encoder was trained. Validation: Macro-F1")
    assert regression.kept == "a regression, no encoder was trained"
    assert FitReport.from_json(regression.to_json()).trains_encoder is False


def test_json_holds_no_nan_and_reads_back(report):
    text = json.dumps(report.to_json(), allow_nan=False)
    again = FitReport.from_json(json.loads(text))
    assert math.isnan(again.start_macro_f1)
    assert math.isnan(again.history[1].valid_macro_f1)
    assert again.history[0] == EPOCH
    assert again.temperature == report.temperature
