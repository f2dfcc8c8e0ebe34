"""How long a training takes: the arithmetic against literal loops, and the sentence. No clock is compared with one."""

from dataclasses import replace

import numpy as np
import pytest

import saft
from saft.classifier import duration
from saft.classifier.assembly import Assembly
from saft.classifier.duration import (
    ADDED_TOKENS,
    BEGIN,
    BESIDE_LAYERS,
    EVALUATIONS,
    MOST_REMOVED_FROM,
    PER_FITTED,
    PER_READ,
    REMOVALS,
    SHARE_SOLVED,
    STRUCTURE_TOKENS,
    Estimate,
    Pace,
    Task,
    duration_line,
    in_words,
    measure,
    sentence,
)
from saft.features import fold_regressions, sentences
from saft.features.folds import fold_of_rows
from saft.features.ngrams import MOST_FITTED
from saft.learning.trainer import Trainer
from saft.settings import PRESETS, Settings

TASK = Task(rows=50, train=30, valid=5, scored=8, texts=40)
PACE = Pace(
    ngrams=0.4, forward=0.001, both_ways=0.003, evaluation=1e-6, layers=6, width=32, tokens=12.0, stored={4: 0.25}
)


def estimate(**changes) -> Estimate:
    return Estimate(Settings.of(changes), TASK, PACE)


def test_reading_costs_every_distinct_text_a_token_at_a_time_in_every_frozen_layer():
    expected = 0.0
    for _ in range(int(0.75 * TASK.texts)):  # a quarter is in the store
        for _ in range(int(PACE.tokens)):
            for _ in range(4):
                expected += PACE.forward
    assert estimate(trained_layers=2).reading() == pytest.approx(expected)
    assert estimate(encoder="none").reading() == 0
    assert estimate(trained_layers=6).reading() == 0
    assert estimate(trained_layers=9).reading() == 0
    in_all = TASK.texts * PACE.tokens * PACE.forward
    assert estimate(trained_layers=0).reading() == pytest.approx(5 * in_all)
    assert estimate(trained_layers=0, layers=6).reading() == pytest.approx(6 * in_all)


@pytest.mark.parametrize(
    ("changes", "added", "texts_per_row", "has_messages"),
    [
        ({}, ADDED_TOKENS, 1, False),
        ({"messages": "lga"}, ADDED_TOKENS, 1, True),
        ({"structure_tokens": True}, ADDED_TOKENS + STRUCTURE_TOKENS, 1, False),
        ({"fusion": "none"}, 0, 1, False),
        ({"messages": "gau", "cache_neighbours": False, "neighbours": 3}, ADDED_TOKENS, 7, True),
        ({"messages": "lga", "user_messages": False, "item_messages": False}, ADDED_TOKENS, 1, False),
    ],
)
def test_an_epoch_costs_training_rows_there_and_back_and_others_there(changes, added, texts_per_row, has_messages):
    there = back = 0.0
    for _ in range(int(PACE.tokens) + added):
        for _ in range(2):
            there += BESIDE_LAYERS * PACE.forward
            back += BESIDE_LAYERS * PACE.both_ways
    expected = 0.0
    for _ in range(3):  # epochs
        for _ in range(TASK.train):
            expected += texts_per_row * back
        for _ in range(TASK.valid):
            expected += there
        if has_messages:  # states of rows that are neither for training nor for validation
            for _ in range(TASK.rows - TASK.train - TASK.valid):
                expected += there
    expected += TASK.valid * there  # calibration
    if has_messages:
        expected += TASK.rows * there  # states by the best weights
    assert estimate(trained_layers=2, epochs=3, least_steps=1, **changes).training() == pytest.approx(expected)


def test_after_an_epoch_at_most_as_many_states_are_renewed_as_rows_were_trained():
    few = replace(TASK, rows=1000)
    one, two = (
        Estimate(Settings(messages="lga", trained_layers=2, epochs=epochs, least_steps=1), few, PACE)
        for epochs in (1, 2)
    )
    expected = few.train * one.there_and_back + (few.valid + few.train) * one.there
    assert two.training() - one.training() == pytest.approx(expected)


def test_where_rows_are_few_an_epoch_passes_over_them_as_often_as_the_trainer_does(tiny_settings):
    network = saft.demo_network(200)
    for size, least in ((32, 40), (32, 5), (7, 40), (7, 3), (7, 0)):
        settings = Settings.of(tiny_settings | {"batch_size": size, "least_steps": least, "labels": False})
        assembly, rows = Assembly.fresh(settings, network), np.arange(TASK.train)
        trainer = Trainer(assembly.model, assembly.loader(), rows, rows[:0], rows[:0], settings)
        assert trainer.state.rows_per_epoch == trainer.repeats * TASK.train
        once, given = (Estimate(settings.changed(least_steps=steps), TASK, PACE) for steps in (0, least))
        more = settings.epochs * (trainer.repeats - 1) * TASK.train * once.there_and_back
        assert given.training() - once.training() == pytest.approx(more)


def test_where_the_store_has_no_room_every_reading_of_a_row_runs_the_frozen_layers_too():
    needed = TASK.texts * PACE.tokens * PACE.width * 2
    settings = Settings(trained_layers=2)
    fits, does_not = (Estimate(settings, TASK, replace(PACE, room=room)) for room in (needed, needed - 1))
    again = PACE.tokens * 4 * PACE.forward
    assert does_not.there == pytest.approx(fits.there + again)
    assert does_not.there_and_back == pytest.approx(fits.there_and_back + again)


def test_linear_models_cost_by_the_rows_they_are_fitted_to_and_those_they_read():
    expected = PACE.ngrams * (BEGIN + TASK.train * PER_FITTED + TASK.rows * PER_READ)
    assert estimate(encoder="none").linear_models() == pytest.approx(expected)
    assert estimate(sentences=False).linear_models() == pytest.approx(expected)
    assert estimate(trained_layers=6).linear_models() == pytest.approx(expected)  # no frozen layer, no sentence vector
    more = 0.0
    for _ in range(duration.fold_regressions(TASK.train)):
        for _ in range(EVALUATIONS):
            more += SHARE_SOLVED * TASK.train * PACE.evaluation
    assert estimate(neighbour_words=False).linear_models() == pytest.approx(expected + more)
    assert estimate().linear_models() == pytest.approx(expected + more * (1 + 5 / 3))  # and again with two means


@pytest.mark.parametrize("many", [True, False])
def test_as_many_regressions_are_counted_as_a_model_of_sentence_vectors_solves(monkeypatch, many):
    solved = []
    monkeypatch.setattr(fold_regressions, "MANY", 0 if many else 10_000)
    monkeypatch.setattr(duration, "MANY", 0 if many else 10_000)
    monkeypatch.setattr(
        fold_regressions, "regress", lambda rows, turned, targets, start, *_: solved.append(len(rows)) or start
    )
    rng = np.random.default_rng(0)
    vectors, labels = rng.standard_normal((100, 2, 3), np.float32), rng.integers(3, size=100)
    sentences.SentenceModel.fit(vectors, labels, 3, fold_of_rows(100, 0), 0)
    assert len(solved) == pytest.approx(duration.fold_regressions(100), abs=6)
    assert np.mean(solved) == pytest.approx(SHARE_SOLVED * 100, abs=6)


def test_no_more_rows_are_fitted_than_a_linear_model_takes():
    large, larger = (replace(TASK, rows=10**6, train=train) for train in (MOST_FITTED, 10**6))
    assert Estimate(Settings(), large, PACE).linear_models() == Estimate(Settings(), larger, PACE).linear_models()


def test_the_report_predicts_the_scored_rows_once_whole_and_some_of_them_without_each_part():
    settings, many = Settings(), replace(TASK, scored=3 * MOST_REMOVED_FROM)
    one = Estimate(settings, many, PACE)
    assert one.report() == pytest.approx((many.scored + REMOVALS * MOST_REMOVED_FROM) * one.there)
    assert estimate(trained_layers=0).report() == 0


def test_several_trainings_read_the_texts_once_and_write_one_report():
    one = estimate()
    expected = 3 * (one.linear_models() + one.training()) + one.reading() + one.report()
    assert one.seconds(3) == pytest.approx(expected)


def test_a_quicker_preset_takes_less():
    fast, balanced, best = (estimate(**PRESETS[name]).seconds() for name in ("fast", "balanced", "best"))
    assert fast < balanced < best
    assert estimate(**PRESETS["balanced"]).training() == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.1, "5 seconds"), (12, "10 seconds"), (49, "50 seconds"), (55, "a minute"), (100, "2 minutes"),
        (560, "9 minutes"), (1000, "15 minutes"), (3100, "an hour"), (5400, "1.5 hours"), (36_000, "10 hours"),
    ],
)  # fmt: skip
def test_durations_are_rounded_as_roughly_as_they_are_known(seconds, words):
    assert in_words(seconds) == words


def test_the_sentence_names_quicker_presets_that_are_worth_it():
    assert sentence(360, {"balanced": 180, "fast": 10}) == (
        "About 6 minutes; --preset balanced would take about 3 minutes, fast 10 seconds."
    )
    assert sentence(200, {"balanced": 190, "fast": 10}) == "About 3 minutes; --preset fast would take about 10 seconds."
    assert sentence(4, {"balanced": 3, "fast": 1}) == "About 5 seconds."  # rounded, they are the same
    assert sentence(700, {}, trainings=21) == "About 10 minutes for 21 trainings."
    assert sentence(10, {}) == "About 10 seconds."


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(300)


def test_layers_tokens_and_what_the_store_has_are_measured(network, tiny_settings, tmp_path, monkeypatch):
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))  # other tests read the same texts
    best = Settings.of(tiny_settings | {"trained_layers": 2, "valid_share": 0.1})
    wanted = [best, best.with_preset("balanced"), best.with_preset("fast")]
    pace = measure(network, wanted)
    assert (pace.layers, pace.width) == (3, 32)
    assert 5 < pace.tokens <= 24
    assert min(pace.ngrams, pace.forward, pace.both_ways) > 0
    assert set(pace.stored.values()) <= {0.0}
    saft.SaftClassifier(**best.changed(epochs=0).as_dict()).fit(network)
    assert measure(network, wanted).stored == {1: 1.0, 3: 0.0}


def test_texts_are_cut_as_training_cuts_them_where_nothing_is_said_about_it(
    network, tiny_settings, tmp_path, monkeypatch
):
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    best = Settings.of(tiny_settings | {"trained_layers": 2, "max_length": 0, "layers": 2, "epochs": 0})
    best = best.with_preset("balanced")
    saft.SaftClassifier(**best.as_dict()).fit(network)
    assert measure(network, [best]).stored == {2: 1.0}


def test_no_encoder_is_loaded_where_no_settings_name_one(network, monkeypatch):
    monkeypatch.setattr(duration, "_with_encoder", None)
    assert measure(network, [Settings(encoder="none")]).layers == 0


def test_a_line_comes_back_for_every_preset_and_none_where_nothing_can_be_measured(network, tiny_settings):
    chosen = Settings.of(tiny_settings)
    quicker = {name: chosen.with_preset(name) for name in ("balanced", "fast")}
    assert duration_line(network, TASK, chosen, quicker, 1).startswith("About ")
    assert duration_line(network, TASK, chosen.changed(encoder="./nowhere"), {}, 1) is None


def test_measuring_does_not_change_what_is_trained(network, tiny_settings):
    chosen = Settings.of(tiny_settings | {"epochs": 1})
    before = saft.SaftClassifier(**chosen.as_dict()).fit(network).predict_proba(network)
    measure(network, [chosen])
    after = saft.SaftClassifier(**chosen.as_dict()).fit(network).predict_proba(network)
    assert (before == after).all()
