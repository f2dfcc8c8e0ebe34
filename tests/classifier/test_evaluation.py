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
from saft.metrics import score, softmax
from saft.settings import TEXT_ONLY


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
        "without known labels", "without the graph",
    ]  # fmt: skip
    text_only = saft.SaftClassifier(**tiny_settings | TEXT_ONLY).fit(network)
    assert [name for name, _, _ in what_removing_costs(text_only, rows)] == ["everything", "without text"]


@pytest.mark.parametrize("changes", [{"encoder": "none"}, {"trained_layers": 0}])
def test_of_a_model_without_a_trained_encoder_the_parts_of_its_evidence_are_removed(tiny_settings, changes):
    network = saft.demo_network(900)  # fewer rows say too little about words
    parts = saft.split(network, seed=0)
    classifier = saft.SaftClassifier(**tiny_settings | changes).fit(network.hiding(parts.test))
    removed = {name: macro for name, macro, _ in what_removing_costs(classifier, network.take(parts.test))}
    assert list(removed) == [
        "everything", "without text", "without n-grams", "without structure", "without messages",
        "without known labels", "without the graph",
    ]  # fmt: skip
    assert removed["without text"] < removed["everything"]


def logits_with(fitted, rows, evidence=None, **changes) -> np.ndarray:
    """Of these rows, with other features or other evidence in their place."""
    whole, numbers = fitted.loader_for(rows)
    features = replace(whole.features, **changes)
    loader = BatchLoader(
        features, whole.labels, whole.n_classes, whole.settings, whole.cache, evidence=evidence or whole.evidence,
        trees=whole.trees,
    )  # fmt: skip
    return predict_logits(fitted.model_, loader, numbers)


def logits_of(fitted, rows, name: str) -> np.ndarray:
    whole, numbers = fitted.loader_for(rows)
    return predict_logits(fitted.model_, evaluation._variants(fitted, whole, numbers)[name], numbers)


def zeroed(values: np.ndarray, numbers: np.ndarray, columns: slice = slice(None)) -> np.ndarray:
    changed = values.copy()
    changed[numbers, columns] = 0
    return changed


def test_removing_text_is_predicting_rows_whose_text_is_empty(network, parts, fitted):
    """Literally: tokens of the same rows in a network in which their texts are empty; readers say nothing of them."""
    rows = network.take(parts.test)
    texts = network.texts.to_list()
    for row in parts.test:
        texts[row] = ""
    empty = fitted.assembly_.featurizer.transform(replace(network, texts=pl.Series(texts)))
    whole, numbers = fitted.loader_for(rows)
    known = whole.evidence
    silent = replace(
        known,
        log_odds=zeroed(known.log_odds, numbers),
        alike={side: zeroed(weights, numbers) for side, weights in known.alike.items()},
        likeness={side: zeroed(cosines, numbers) for side, cosines in known.likeness.items()},
        own_context=zeroed(known.own_context, numbers),
        style=zeroed(known.style, numbers),
    )
    expected = logits_with(fitted, rows, silent, tokens=empty.tokens)
    np.testing.assert_allclose(logits_of(fitted, rows, "without text"), expected, atol=1e-4)
    removed = {name: (macro, micro) for name, macro, micro in what_removing_costs(fitted, rows)}
    scores = score(rows.labels, softmax(expected, fitted.temperature_))
    assert removed["without text"] == pytest.approx((scores.macro_f1, scores.micro_f1))


def test_without_text_nothing_of_the_text_is_left(network, parts, fitted):
    """Whatever readers and sentence vectors say of these rows, the result is the same: none of it is read."""
    rows = network.take(parts.test)
    whole, numbers = fitted.loader_for(rows)
    log_odds, vectors = whole.features.log_odds.copy(), whole.features.vectors.copy()
    log_odds[:, numbers] = log_odds[:, numbers[::-1]]
    vectors[numbers] = vectors[numbers[::-1]]
    other = replace(whole.features, log_odds=log_odds, vectors=vectors)
    quiet = whole.settings.changed(neighbour_words=False)  # these rows are neighbours to each other
    first, second = (
        BatchLoader(features, whole.labels, whole.n_classes, quiet, whole.cache) for features in (whole.features, other)
    )
    assert (first.side_features[numbers] != second.side_features[numbers]).any()
    left = [evaluation._variants(fitted, loader, numbers)["without text"] for loader in (first, second)]
    np.testing.assert_array_equal(left[0].side_features[numbers], left[1].side_features[numbers])
    np.testing.assert_array_equal(left[0].features.tokens.flat, left[1].features.tokens.flat)


def test_removing_ngrams_leaves_tokens_and_sentence_vectors(network, parts, fitted):
    rows = network.take(parts.test)
    whole, numbers = fitted.loader_for(rows)
    without = zeroed(whole.evidence.log_odds, numbers, slice(network.n_classes))
    expected = logits_with(fitted, rows, replace(whole.evidence, log_odds=without))
    found = logits_of(fitted, rows, "without n-grams")
    np.testing.assert_allclose(found, expected, atol=0.02)  # frozen states are rounded to half precision
    assert (found != predict_logits(fitted.model_, whole, numbers)).any()


def test_without_known_labels_predictions_do_not_depend_on_labels(network, parts, fitted):
    rows = network.take(parts.test)
    for name in ("without known labels", "without the graph"):
        whole, numbers = fitted.loader_for(rows)
        before = predict_logits(fitted.model_, evaluation._variants(fitted, whole, numbers)[name], numbers)
        whole.labels = np.where(whole.labels < 0, whole.labels, (whole.labels + 1) % network.n_classes)
        whole._given_evidence = replace(
            whole.evidence,
            labels={side: counts[:, ::-1] for side, counts in whole.evidence.labels.items()},
            alike={side: weights[:, ::-1] for side, weights in whole.evidence.alike.items()},
        )
        del whole.__dict__["evidence"]  # computed anew from what is given
        after = predict_logits(fitted.model_, evaluation._variants(fitted, whole, numbers)[name], numbers)
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_what_is_not_removed_is_read_from_what_the_frozen_layers_have_said(network, parts, fitted):
    whole, numbers = fitted.loader_for(network.take(parts.test))
    for name, loader in evaluation._variants(fitted, whole, numbers).items():
        assert (loader.texts is whole.texts) == (name != "without text")
