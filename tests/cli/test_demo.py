"""SAFT learns more than the same encoder learns from the text alone. Averages over seeds, with the margin stated."""

import numpy as np
import pytest

import saft
from saft.cli.demo import CONTESTANTS, SMALL, contest, unlabelled
from saft.settings import TEXT_ONLY


def mean_score(network, seeds, settings) -> float:
    """Mean test Macro-F1, in points, over seeds that draw both the split and the model."""
    scores = []
    for seed in seeds:
        parts = saft.split(network, seed=seed)
        classifier = saft.SaftClassifier(**settings, seed=seed)
        classifier.fit(network.hiding(parts.test), train=parts.train, valid=parts.valid)
        scores.append(100 * classifier.score(network.take(parts.test)))
    return float(np.mean(scores))


@pytest.mark.slow
def test_on_the_embedded_network_saft_beats_the_same_encoder_on_text_alone_by_five_points():
    network, settings = saft.demo_network(600), SMALL | {"epochs": 2}
    assert mean_score(network, (0, 1), settings) > mean_score(network, (0, 1), settings | TEXT_ONLY) + 5


@pytest.mark.long
@pytest.mark.parametrize(("name", "margin"), [("rotten_tomatoes", 1)])
def test_on_a_sample_of_a_real_network_saft_beats_text_alone(shared_data, name, margin):
    network = saft.read(shared_data / f"{name}.parquet")
    busiest = np.argsort(-network.user_degrees[network.users], kind="stable")[:1500]
    network = network.take(np.sort(busiest))
    settings = SMALL | {"epochs": 3}
    assert mean_score(network, (0, 1), settings) > mean_score(network, (0, 1), settings | TEXT_ONLY) + margin


def test_the_demonstration_compares_text_structure_and_both_together():
    assert list(CONTESTANTS) == ["text only", "structure only", "SAFT"]


def test_the_page_of_the_demonstration_begins_with_interactions_of_known_shoppers_that_nobody_has_labelled():
    known, new = saft.demo_network(600, 0), unlabelled(saft.demo_network(600, 1), 50)
    assert new.columns == ["user", "item", "text", "time"]
    assert new.height == 50
    assert new["user"].is_in(known.user_ids.to_list()).mean() > 0.9


def test_a_contestant_is_scored_on_rows_whose_labels_it_has_not_seen(tiny_settings, monkeypatch):
    monkeypatch.setattr("saft.cli.demo.SMALL", tiny_settings)
    network = saft.demo_network(300)
    result = contest(network, "structure only", seed=0)
    stored = result.classifier.network_
    assert len(stored.labelled()) == 240
    assert result.scores.macro_f1 == pytest.approx(result.classifier.score(result.test))
