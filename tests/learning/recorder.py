"""Trainings under observation: what a callback was told, scores that validation is made to give, and weights."""

import torch

from saft.learning import trainer
from saft.learning.callbacks import Callback
from saft.learning.start import Start


class Recorder(Callback):
    """Keeps everything; raises Ctrl-C after some steps if asked to."""

    def __init__(self, stop_after=None):
        self.records, self.messages, self.steps, self.stop_after = [], [], 0, stop_after

    def on_step_end(self, state):
        self.steps += 1
        if self.stop_after is not None and self.steps >= self.stop_after:
            raise KeyboardInterrupt

    def on_message(self, message):
        self.messages.append(message)

    def on_epoch_end(self, state, record):
        self.records.append(record)


def score_as(monkeypatch, *scores, share: float = 1.0):
    """Let validation have these scores, one after the other, and this share of every epoch be kept; the first score is
    that of the start."""
    given, latest = iter(scores), [0.0]

    def choose(*_) -> tuple[float, float]:
        latest[0] = next(given)
        return share, latest[0]

    monkeypatch.setattr(Start, "choose", choose)
    monkeypatch.setattr(trainer, "macro_f1", lambda *_: latest[0])


def weights(classifier) -> dict[str, torch.Tensor]:
    return classifier.model_.state_dict()
