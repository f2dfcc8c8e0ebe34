"""What is told about a model: figures on rows it has not learnt from, and what they rest on."""

import numpy as np
import pytest

import saft
from saft.classifier.evaluation import report_facts, what_removing_costs


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(400)


@pytest.fixture(scope="module")
def parts(network):
    return saft.split(network)


@pytest.fixture(scope="module")
def fitted(network, parts, tiny_settings):
    return saft.SaftClassifier(**tiny_settings | {"epochs": 6}).fit(
        network.hiding(parts.test), train=parts.train, valid=parts.valid
    )


def test_facts_are_those_of_the_scored_rows(network, parts, fitted):
    rows = network.take(parts.test)
    facts = report_facts(fitted, rows, "test", "title")
    np.testing.assert_array_equal(facts.labels, rows.labels)
    np.testing.assert_allclose(facts.probabilities, fitted.predict_proba(rows), atol=1e-6)
    assert facts.rows["text"].to_list() == rows.texts.to_list()
    assert len(facts.history) == 6
    assert facts.removals[0][0] == "everything"
    assert facts.removals[0][1] == pytest.approx(fitted.score(rows))


def test_every_part_that_the_model_sees_is_removed_once(network, parts, fitted, tiny_settings):
    rows = network.take(parts.test)
    names = [name for name, _, _ in what_removing_costs(fitted, rows)]
    assert names == ["everything", "without text", "without structure", "without messages", "without known labels"]
    text_only = saft.SaftClassifier(**tiny_settings | {"fusion": "none", "labels": False}).fit(network)
    assert [name for name, _, _ in what_removing_costs(text_only, rows)] == ["everything", "without text"]


def test_removing_text_is_predicting_the_rows_without_words(network, parts, fitted):
    """Literally: the same rows of a network in which they say nothing."""
    from dataclasses import replace

    import polars as pl

    from saft.learning.loader import BatchLoader
    from saft.learning.prediction import predict_logits
    from saft.metrics import score, softmax

    rows = network.take(parts.test)
    texts = network.texts.to_list()
    for row in parts.test:
        texts[row] = ""
    whole, numbers = fitted.loader_for(rows)
    tokens = fitted.assembly_.featurizer.transform(replace(network, texts=pl.Series(texts))).tokens
    loader = BatchLoader(
        replace(whole.features, tokens=tokens), whole.labels, whole.n_classes, whole.settings, whole.cache
    )
    scores = score(rows.labels, softmax(predict_logits(fitted.model_, loader, numbers), fitted.temperature_))
    removed = {name: macro for name, macro, _ in what_removing_costs(fitted, rows)}
    assert removed["without text"] == pytest.approx(scores.macro_f1)
