"""What is told about a model: figures on rows it has not learnt from, and what they rest on."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import saft
from saft.classifier import evaluation
from saft.classifier.evaluation import report_facts, what_removing_costs
from saft.learning.loader import BatchLoader
from saft.learning.prediction import predict_logits
from saft.metrics import Scores, score, softmax
from saft.settings import TEXT_ONLY


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(400)


@pytest.fixture(scope="module")
def parts(network):
    return saft.split(network)


@pytest.fixture(scope="module")
def fitted(network, parts, tiny_settings):
    classifier = saft.SaftClassifier(**tiny_settings | {"seed": 2}).fit(
        network.hiding(parts.test), train=parts.train, valid=parts.valid
    )
    assert classifier.report().best_epoch > 0  # at the start, parts other than side features have no effect
    return classifier


def test_facts_are_those_of_the_scored_rows(network, parts, fitted):
    rows = network.take(parts.test)
    facts = report_facts(fitted, rows, "test", "title")
    np.testing.assert_array_equal(facts.labels, rows.labels)
    np.testing.assert_allclose(facts.probabilities, fitted.predict_proba(rows), atol=1e-6)
    assert facts.rows["text"].to_list() == rows.texts.to_list()
    assert len(facts.history) == 2
    assert facts.start == (fitted.report().start_macro_f1, fitted.report().start_micro_f1)
    assert facts.removals[0][0] == "everything"
    assert facts.removals[0][1] == pytest.approx(fitted.score(rows))


def test_every_part_that_the_model_reads_is_removed_once(network, parts, fitted, tiny_settings):
    rows = network.take(parts.test)
    names = [name for name, _, _ in what_removing_costs(fitted, rows)]
    assert names == [
        "everything", "without text", "without n-grams", "without structure", "without messages",
        "without known labels",
    ]  # fmt: skip
    text_only = saft.SaftClassifier(**tiny_settings | TEXT_ONLY).fit(network)
    assert [name for name, _, _ in what_removing_costs(text_only, rows)] == ["everything", "without text"]


def predicted_with(fitted, rows, **changes) -> Scores:
    """Scores on these rows with other features in their place."""
    whole, numbers = fitted.loader_for(rows)
    features = replace(whole.features, **{name: change(whole.features, numbers) for name, change in changes.items()})
    loader = BatchLoader(features, whole.labels, whole.n_classes, whole.settings, whole.cache)
    return score(rows.labels, softmax(predict_logits(fitted.model_, loader, numbers), fitted.temperature_))


def test_removing_text_is_predicting_rows_whose_text_is_empty(network, parts, fitted):
    """Literally: tokens and log-odds of the same rows in a network in which their texts are empty."""
    rows = network.take(parts.test)
    texts = network.texts.to_list()
    for row in parts.test:
        texts[row] = ""
    empty = fitted.assembly_.featurizer.transform(replace(network, texts=pl.Series(texts)))
    without_odds = np.zeros_like(empty.ngram_log_odds)  # nothing is known of the class of an empty text
    expected = predicted_with(
        fitted,
        rows,
        tokens=lambda features, numbers: empty.tokens,
        ngram_log_odds=lambda features, numbers: np.where(
            np.isin(np.arange(len(features)), numbers)[:, None], without_odds, features.ngram_log_odds
        ),
    )
    removed = {name: (macro, micro) for name, macro, micro in what_removing_costs(fitted, rows)}
    assert removed["without text"] == pytest.approx((expected.macro_f1, expected.micro_f1))


def test_without_text_nothing_of_the_text_is_left(network, parts, fitted):
    """Other texts in the same rows, and n-grams of other texts, give the same scores: none of it is read."""
    rows = network.take(parts.test)
    whole, numbers = fitted.loader_for(rows)
    other = replace(whole.features, ngram_log_odds=whole.features.ngram_log_odds[::-1].copy())
    changed = BatchLoader(other, whole.labels, whole.n_classes, whole.settings, whole.cache)
    first, second = (
        predict_logits(fitted.model_, evaluation._variants(fitted, loader, numbers)["without text"], numbers)
        for loader in (whole, changed)
    )
    np.testing.assert_array_equal(first, second)


def test_removing_ngrams_leaves_the_tokens(network, parts, fitted):
    rows = network.take(parts.test)
    expected = predicted_with(
        fitted, rows, ngram_log_odds=lambda features, numbers: np.zeros_like(features.ngram_log_odds)
    )
    removed = {name: macro for name, macro, _ in what_removing_costs(fitted, rows)}
    assert removed["without n-grams"] == pytest.approx(expected.macro_f1)
