"""Model folders of every kind of model: what is loaded is what was saved. (Damaged ones: see test_estimator.)"""

import json

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.classifier.storage import ENCODER, FACTS, NGRAMS, SENTENCES, STRUCTURE, TREES, WEIGHTS
from saft.online.live import LiveNetwork

N = 300
NEW = [
    {"user": "somebody new", "item": "something new", "text": "lovely"},
    {"user": "somebody new", "item": "another", "text": "it broke"},
]
KINDS = {
    "no encoder": {"encoder": "none"},
    "no trained layer": {"trained_layers": 0},
    "default": {},
    "all layers trained": {"trained_layers": 3},
    "no readers": {"ngrams": False, "sentences": False},
    "neither labels nor likeness": {"labels": False, "alike_texts": False, "neighbour_words": False},
}


@pytest.fixture(scope="module")
def network():
    """The last rows have no label."""
    return saft.demo_network(N).hiding(np.arange(250, N))


@pytest.fixture(scope="module", params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def fitted(kind, network, tiny_settings):
    return SaftClassifier(**tiny_settings | {"epochs": 1} | KINDS[kind]).fit(network)


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    fitted.save(folder)
    return folder


def test_what_is_loaded_predicts_as_what_was_saved(network, fitted, folder):
    again = saft.load(folder)
    known = {"user": network.user_ids[0], "item": network.item_ids[0], "text": "again"}
    for rows in (network, NEW, [known], network.take(np.arange(5))):
        np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    np.testing.assert_array_equal(again.embed(NEW), fitted.embed(NEW))
    assert again.settings == fitted.settings


def test_a_folder_says_which_rows_had_a_label_that_the_model_was_not_shown(network, folder):
    assert np.flatnonzero(saft.load(folder).network_.withheld_rows).tolist() == list(range(250, N))
    assert network.withheld_rows.sum() == 50


def test_side_features_are_those_of_before(fitted, folder):
    again = saft.load(folder).assembly_
    np.testing.assert_array_equal(again.loader().side_features, fitted.assembly_.loader().side_features)
    assert again.model.state_dict().keys() == fitted.model_.state_dict().keys()


def test_what_is_loaded_can_be_saved_and_explained(network, fitted, folder, tmp_path):
    again = saft.load(folder)
    again.save(tmp_path / "copy")
    np.testing.assert_array_equal(saft.load(tmp_path / "copy").predict_proba(NEW), fitted.predict_proba(NEW))
    live = LiveNetwork(again)
    for asked in (3, N - 1, NEW[0]):
        found = saft.explain(live, asked)
        rows = network.take(np.array([asked])) if isinstance(asked, int) else [asked]
        np.testing.assert_allclose(list(found.probabilities.values()), again.predict_proba(rows)[0], atol=1e-4)
        assert found.words


def test_a_folder_holds_what_its_kind_of_model_needs(kind, folder):
    names = {path.name for path in folder.iterdir()}
    assert {FACTS, WEIGHTS} <= names
    assert (ENCODER in names) == (kind != "no encoder")
    assert (NGRAMS in names) == (kind != "no readers")
    assert (SENTENCES in names) == (kind not in ("no encoder", "all layers trained", "no readers"))
    assert STRUCTURE in names
    assert (TREES in names) == (saft.load(folder).assembly_.trees is not None)


def test_a_model_of_an_older_format_is_refused_with_what_to_do(folder, tmp_path):
    (tmp_path / "old").mkdir()
    facts = json.loads((folder / FACTS).read_text())
    (tmp_path / "old" / FACTS).write_text(json.dumps(facts | {"format": 2}))
    with pytest.raises(saft.InputError, match=r"format \(2\) that is no longer read\. Train the model again"):
        saft.load(tmp_path / "old")
