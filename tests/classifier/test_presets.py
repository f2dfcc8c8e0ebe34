"""Presets of the classifier: what is given overrules them, what is kept are settings, and all of them work alike."""

import numpy as np
import pytest
from sklearn.base import clone

import saft
from saft import SaftClassifier
from saft.settings import PRESETS, Settings

NEW = [{"user": "somebody new", "item": "something new", "text": "lovely"}]


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(300)


def settings_for(preset: str, tiny_settings: dict) -> dict:
    """The tiny encoder, where the preset has one."""
    return {name: value for name, value in tiny_settings.items() if name not in PRESETS[preset]}


def test_a_preset_sets_what_it_says_and_settings_that_are_given_overrule_it():
    assert SaftClassifier(preset="fast").settings == Settings(encoder="none")
    assert SaftClassifier(preset="balanced", epochs=2).settings == Settings(trained_layers=0, epochs=2)
    assert SaftClassifier(preset="fast", encoder="other").settings == Settings(encoder="other")
    assert SaftClassifier().settings == SaftClassifier(preset="best").settings == Settings()


def test_an_unknown_preset_is_refused_with_the_nearest_name():
    with pytest.raises(
        saft.InputError, match=r"no preset 'fst'\. Did you mean 'fast'\? Known are fast, balanced, best"
    ):
        SaftClassifier(preset="fst")
    with pytest.raises(saft.InputError, match="no preset 'x'"):
        SaftClassifier().set_params(preset="x")


@pytest.mark.parametrize("preset", PRESETS)
def test_parameters_are_the_settings_so_that_a_clone_is_the_same(preset):
    classifier = SaftClassifier(preset=preset, rounds=3)
    assert "preset" not in classifier.get_params()
    assert classifier.get_params()["rounds"] == 3
    assert clone(classifier).settings == classifier.settings


def test_another_preset_takes_the_place_of_the_present_one_and_leaves_what_was_chosen():
    classifier = SaftClassifier(preset="fast", epochs=2)
    assert clone(classifier).set_params(preset="balanced").settings == Settings(trained_layers=0, epochs=2)
    assert classifier.set_params(preset="best", rounds=1).settings == Settings(epochs=2, rounds=1)
    chosen = SaftClassifier(encoder="other").set_params(preset="balanced")
    assert chosen.settings == Settings(encoder="other", trained_layers=0)
    assert chosen.set_params(preset="best").settings == Settings(encoder="other")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_trained_saved_loaded_explained_and_embeds(network, tiny_settings, tmp_path, preset):
    classifier = SaftClassifier(preset=preset, **settings_for(preset, tiny_settings)).fit(network)
    classifier.save(tmp_path / "model")
    again = saft.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(NEW), classifier.predict_proba(NEW))
    assert again.settings.preset == preset
    assert str(again.report()) == str(classifier.report())
    assert again.embed(NEW).shape[0] == 1
    assert saft.explain(again, NEW[0]).label in network.classes


@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_a_preset_without_training_says_so_instead_of_counting_epochs(network, tiny_settings, preset):
    settings = settings_for(preset, tiny_settings) | {"valid_share": 0.1}
    report = SaftClassifier(preset=preset, **settings).fit(network).report()
    assert not report.trains_encoder
    assert str(report).startswith("Fitted in ")
    assert "a regression, no encoder was trained. Validation: Macro-F1" in str(report)
    assert "epoch" not in str(report)
