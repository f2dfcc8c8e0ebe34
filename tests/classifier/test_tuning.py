"""What is searched: rates and forms of the model where an encoder is trained, else what the regression reads."""

import pytest

import saft
from saft.classifier.tuning import SPACE, space, tune, useful_trials
from saft.settings import PRESETS


def test_where_an_encoder_is_trained_everything_is_searched_that_is_not_fixed():
    assert set(space({})) == set(SPACE)
    assert set(space({"rounds": 1})) == set(SPACE) - {"rounds"}
    assert useful_trials({}, 1000) == 1000


def test_where_none_is_trained_only_what_the_regression_reads_is_searched():
    assert set(space(PRESETS["fast"])) == {"labels", "neighbour_words"}
    assert set(space(PRESETS["balanced"])) == {"labels", "neighbour_words", "alike_texts"}
    assert set(space(PRESETS["balanced"] | {"sentences": False})) == {"labels", "neighbour_words"}
    assert space(PRESETS["fast"] | {"ngrams": False}) == {}  # without labels there would be nothing left to read
    assert useful_trials(PRESETS["fast"], 20) == 4
    assert useful_trials(PRESETS["balanced"], 20) == 8
    assert useful_trials(PRESETS["balanced"], 3) == 3


def test_every_combination_is_tried_once_the_defaults_first_and_the_best_is_returned():
    network, tried = saft.demo_network(300), []
    parts = saft.split(network)
    fixed = PRESETS["fast"] | {"seed": 1}
    found = tune(
        network.hiding(parts.test), parts.train, parts.valid, fixed, 20,
        lambda number, score, settings: tried.append((score, settings)),
    )  # fmt: skip
    switches = [(settings["labels"], settings["neighbour_words"]) for _, settings in tried]
    assert switches == [(True, True), (True, False), (False, True), (False, False)]
    assert found == max(tried, key=lambda one: one[0])[1]


def test_there_has_to_be_something_to_search_and_something_to_compare_by():
    network = saft.demo_network(300)
    parts = saft.split(network)
    fixed = PRESETS["fast"] | {"labels": True, "neighbour_words": True}
    with pytest.raises(saft.InputError, match="nothing to search"):
        tune(network, parts.train, parts.valid, fixed, 2)
    with pytest.raises(saft.InputError, match="raise valid_share"):
        tune(network, parts.train, parts.valid[:0], {}, 2)
