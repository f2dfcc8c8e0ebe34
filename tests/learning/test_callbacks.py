"""Callbacks: all of a list are called, in order, with the trainer's state."""

import pytest

from saft.learning.callbacks import Callback, CallbackList, EpochRecord, TrainerState

RECORD = EpochRecord(1, 0.5, 0.6, 0.7, 2.0, 100.0)


class Recorder(Callback):
    def __init__(self, calls: list) -> None:
        self.calls = calls

    def on_epoch_begin(self, state):
        self.calls.append(("begin", state))

    def on_step_end(self, state):
        self.calls.append(("step", state))

    def on_epoch_end(self, state, record):
        self.calls.append(("end", record))

    def on_message(self, message):
        self.calls.append(("message", message))


def test_every_callback_of_a_list_is_called_in_order():
    first, second, state = [], [], TrainerState()
    callbacks = CallbackList([Recorder(first), Callback(), Recorder(second)])
    callbacks.on_epoch_begin(state)
    callbacks.on_step_end(state)
    callbacks.on_epoch_end(state, RECORD)
    callbacks.on_message("half way")
    assert first == second == [("begin", state), ("step", state), ("end", RECORD), ("message", "half way")]
    assert len(list(CallbackList(callbacks))) == 3


def test_a_state_counts_steps_and_starts_every_epoch_from_zero():
    state = TrainerState(epochs=2, rows_per_epoch=30)
    state.count(rows=20, loss=1.0, seconds=0.1)
    state.count(rows=10, loss=4.0, seconds=0.2)
    assert (state.step, state.rows, state.seconds) == (2, 30, 0.2)
    assert state.mean_loss == pytest.approx(2.0)
    state.finish_epoch()
    assert (state.epoch, state.step, state.rows, state.mean_loss, state.seconds) == (1, 0, 0, 0.0, 0.0)
