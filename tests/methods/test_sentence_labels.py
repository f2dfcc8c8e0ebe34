"""Sentence+LABELS: whose vectors it reads, and what its regression sees."""

import numpy as np
import pytest

import saft
from saft.features.style import NUMBERS
from saft.learning.prediction import predict_logits
from saft.methods import find
from saft.methods._text_vectors import text_vectors


@pytest.fixture(scope="module")
def fitted(toy, toy_settings):
    parts = saft.split(toy, seed=0)
    return find("sentence_labels").make(toy_settings).fit(toy.hiding(parts.test), parts.train, parts.valid)


def test_the_upper_sentence_vector_is_the_mean_over_the_tokens_of_the_last_layer_and_no_layer_is_trained(fitted, toy):
    read = fitted.assembly.layers.vectors(fitted.assembly.features.tokens)
    np.testing.assert_allclose(read[:, -1], text_vectors(toy.texts, fitted.settings, "mean"), atol=5e-3)
    assert not any(parameter.requires_grad for parameter in fitted.assembly.model.encoder.parameters())


def test_logits_are_a_linear_map_of_both_readers_log_odds_counts_of_labels_and_style(fitted, toy):
    state, loader = fitted.assembly.featurizer.state_, fitted.loader(toy)
    rows = np.flatnonzero(~toy.showing(fitted.train).is_labelled)
    vectors = fitted.assembly.layers.vectors(fitted.assembly.features.tokens)
    readers = state.ngrams.log_odds(toy.texts), state.sentences.log_odds(vectors)  # fitted to all labels
    counts = loader.evidence.features()[:, loader.evidence.groups()["labels"]]
    seen = np.hstack([*readers, counts, state.style.transform(toy.texts)])[rows]
    assert loader.side_features.shape[1] == 2 * 2 + 2 * (2 + 1) + len(NUMBERS)
    head = fitted.assembly.model.head
    expected = seen @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    np.testing.assert_allclose(predict_logits(fitted.assembly.model, loader, rows), expected, atol=1e-4)
