"""Settings are checked where they are made; the error for an unknown one names the nearest known one.

Covers: keywords.
"""

import typing
from dataclasses import fields

import pytest

import saft
from saft import structure
from saft.keywords import SettingsKeywords
from saft.learning.sampling import WEIGHTS
from saft.model.readout import READOUTS
from saft.settings import (
    AS_PRINTED,
    CENTRALITIES,
    DEFAULT_PRESET,
    DISTANCES,
    HELP,
    PRESET_HELP,
    PRESETS,
    STRUCTURE_ONLY,
    TEXT_ONLY,
    DataSettings,
    ModelSettings,
    SamplingSettings,
    Settings,
    TrainingSettings,
    preset_of,
    preset_settings,
)  # fmt: skip


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epocs": 3}, "has no setting 'epocs'. Did you mean 'epochs'?"),
        ({"epochs": "3"}, "epochs has to be a whole number; got '3'"),
        ({"epochs": True}, "epochs has to be a whole number; got True"),
        ({"epochs": -1}, "epochs has to be at least 0; got -1"),
        ({"dropout": 2}, "dropout has to be at least 0 and at most 0.99; got 2.0"),
        ({"dropout": float("nan")}, "dropout has to be at least 0"),
        ({"labels": "yes"}, "labels has to be true or false"),
        ({"fusion": "papr"}, "fusion cannot be 'papr'. Did you mean 'paper'? Known are residual, paper, none."),
        ({"fusion": "paper"}, "cache_neighbours=True needs fusion='residual'"),
        ({"fusion": "residual", "centrality": "none", "sampling": "centrality"}, "needs the centrality embedding"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_it_may_be(values, message):
    with pytest.raises(saft.InputError) as caught:
        Settings.of(values)
    assert message in str(caught.value)


def test_every_setting_has_a_line_of_help():
    assert set(HELP) == {setting.name for setting in fields(Settings)}
    assert all(text.endswith((".", ")")) and "\n" not in text for text in HELP.values())


def test_the_choices_are_the_names_that_other_modules_define():
    assert set(DISTANCES) == {*structure.DISTANCES, "none"}
    assert set(CENTRALITIES) == {*structure.CENTRALITIES, "sketch", "none"}
    choices = {setting.name: setting.metadata["choices"] for setting in fields(Settings)}
    assert set(choices["sampling"]) == set(WEIGHTS)


def test_presets_go_from_the_quickest_to_the_defaults_each_with_a_sentence_of_help():
    assert list(PRESETS) == list(PRESET_HELP) == ["fast", "balanced", "best"]
    assert Settings.of(PRESETS[DEFAULT_PRESET]) == Settings()
    assert all(text.endswith(".") and "\n" not in text for text in PRESET_HELP.values())
    assert [Settings.of(PRESETS[name]).preset for name in PRESETS] == list(PRESETS)
    assert [Settings.of(PRESETS[name]).trains_encoder for name in PRESETS] == [False, False, True]
    assert preset_of({}) == "best"


def test_an_unknown_preset_is_refused_with_the_nearest_name():
    with pytest.raises(saft.InputError, match=r"no preset 'bets'\. Did you mean 'best'\?"):
        preset_settings("bets")
    with pytest.raises(saft.InputError, match="no preset 3"):
        preset_settings(3)


def test_a_preset_takes_the_place_of_another_and_leaves_the_rest():
    settings = Settings.of(PRESETS["fast"] | {"rounds": 3})
    assert settings.with_preset("best") == Settings(rounds=3)
    assert settings.with_preset("balanced", rounds=1) == Settings.of(PRESETS["balanced"] | {"rounds": 1})
    assert Settings(encoder="other").with_preset("balanced").encoder == "other"


def test_the_named_variants_are_valid_and_integers_are_taken_for_numbers():
    for preset in (AS_PRINTED, TEXT_ONLY, STRUCTURE_ONLY):
        assert Settings.of(preset).as_dict().items() >= preset.items()
    assert Settings(delta=2).delta == 2.0
    assert Settings().changed(rounds=3).rounds == 3


def test_the_keywords_of_the_classifier_are_the_settings():
    assert typing.get_type_hints(SettingsKeywords) == typing.get_type_hints(Settings)


def test_a_group_holds_its_settings_and_checks_them():
    groups = (DataSettings, ModelSettings, SamplingSettings, TrainingSettings)
    names = [setting.name for group in groups for setting in fields(group)]
    assert names == [setting.name for setting in fields(Settings)]
    assert all(isinstance(Settings(), group) for group in groups)
    with pytest.raises(saft.InputError, match="epochs has to be at least 0"):
        TrainingSettings(epochs=-1)


def test_the_readouts_that_can_be_chosen_are_those_of_the_model():
    choices = {setting.name: setting.metadata["choices"] for setting in fields(Settings)}
    assert set(choices["readout"]) == set(READOUTS)


def test_help_is_a_whole_sentence():
    assert [name for name, text in HELP.items() if len(text.split()) < 4 or not text.endswith(".")] == []
