"""What must be true of every method in the folder. A method is found by its file; no list has to be kept."""

from pathlib import Path

import numpy as np
import pytest

import saft
from saft.data.joining import join
from saft.methods import find, names
from saft.metrics import macro_f1

NAMES = [
    "attre2vec", "bert", "bert_graphsage", "bert_labels", "bert_ngrams_labels", "bert_nodes", "boosted",
    "causal_lm_gcn", "correct_smooth", "deberta_gcn", "eagle", "edgeformers", "giant", "glem_gnn", "glem_lm",
    "graphformers", "ngrams_labels", "saft", "saft_balanced", "saft_fast", "saft_gau", "saft_lga", "sbert_gcn",
    "sentence_labels", "simteg", "ter_aer_hkpr", "ter_aer_ppr", "tfidf", "tfidf_nodes",
]  # fmt: skip


@pytest.fixture(scope="module")
def fitted(toy, toy_settings):
    """name → (fitted method, its probabilities of the test rows), each trained once."""
    parts, done = saft.split(toy, seed=0), {}

    def fit(name: str):
        if name not in done:
            method = find(name).make(toy_settings, {"encoder": toy_settings["encoder"]})
            hidden = toy.hiding(parts.test)
            method.fit(hidden, train=parts.train, valid=parts.valid)
            done[name] = method, method.predict_proba(hidden, parts.test)
        return done[name]

    return fit


@pytest.fixture(scope="module")
def parts(toy):
    return saft.split(toy, seed=0)


def test_the_rivals_of_the_paper_those_of_a_sceptic_and_saft_are_all_there():
    assert names() == NAMES


@pytest.mark.parametrize("name", names())
def test_it_has_a_card_a_docstring_with_its_formula_and_a_test_of_its_own(name):
    import importlib

    card = find(name)
    assert card.title
    assert card.paper
    docstring = importlib.import_module(f"saft.methods.{name}").__doc__ or ""
    assert len(docstring) > 150
    own = Path(__file__).parent / f"test_{name}.py"
    assert own.is_file()
    assert "def test_" in own.read_text()


@pytest.mark.parametrize("name", names())
def test_probabilities_have_a_row_for_each_interaction_and_add_up_to_one(name, fitted, parts):
    method, probabilities = fitted(name)
    assert probabilities.shape == (len(parts.test), 2)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert method.n_parameters_ > 0


@pytest.mark.parametrize("name", names())
def test_it_beats_the_majority_class_on_a_separable_network_with_three_components(name, fitted, parts, toy):
    truth, predicted = toy.labels[parts.test], fitted(name)[1].argmax(axis=1)
    majority = np.full(len(truth), np.bincount(toy.labels[parts.train]).argmax())
    assert macro_f1(truth, predicted, 2) > macro_f1(truth, majority, 2) + 0.2


@pytest.mark.parametrize("name", names())
def test_the_same_seed_gives_the_same_prediction_and_labels_outside_of_training_change_nothing(
    name, fitted, parts, toy, toy_settings
):
    """The second training gets a network whose test labels are not hidden, but wrong: a method that uses them fails."""
    from dataclasses import replace

    labels = toy.labels.copy()
    labels[parts.test] = 1 - labels[parts.test]
    method = find(name).make(toy_settings, {"encoder": toy_settings["encoder"]})
    wrong = replace(toy, labels=labels)
    again = method.fit(wrong, train=parts.train, valid=parts.valid).predict_proba(wrong, parts.test)
    np.testing.assert_array_equal(again, fitted(name)[1])


OTHER_CHOICES = [
    (name, option, value) for name in names() for option, values in find(name).options.items() for value in values[1:]
]


@pytest.mark.parametrize(("name", "option", "value"), OTHER_CHOICES)
def test_every_choice_it_offers_can_be_trained_and_makes_a_difference(
    name, option, value, fitted, parts, toy, toy_settings
):
    own = {"encoder": toy_settings["encoder"], option: value}
    hidden = toy.hiding(parts.test)
    method = find(name).make(toy_settings, own).fit(hidden, train=parts.train, valid=parts.valid)
    probabilities = method.predict_proba(hidden, parts.test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    if name != "glem_lm":  # which may keep the language model as it was before the round
        assert np.abs(probabilities - fitted(name)[1]).max() > 1e-4


@pytest.mark.parametrize("name", names())
def test_new_users_items_and_interactions_can_be_predicted_without_training_again(name, fitted, parts, toy):
    rows = [
        {"user": "nobody knows", "item": "0-1", "text": "lovely perfect"},
        {"user": "0-1", "item": "nor this", "text": "broken awful it is"},
        {"user": "two", "item": "strangers", "text": ""},
    ]
    with pytest.warns(saft.InputWarning, match="has no text in row 3"):
        new = saft.read(rows, labelled=False)
    grown = join(toy.hiding(parts.test), new)
    probabilities = fitted(name)[0].predict_proba(grown, np.arange(len(toy), len(grown)))
    assert probabilities.shape == (3, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
