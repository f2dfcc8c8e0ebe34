"""SAFT as it ships, among its rivals."""

import numpy as np

import saft
from saft.methods import find


def test_it_predicts_what_the_classifier_with_the_same_labels_predicts(toy, toy_settings):
    parts = saft.split(toy, seed=0)
    hidden = toy.hiding(parts.test)
    method = find("saft").make(toy_settings).fit(hidden, train=parts.train, valid=parts.valid)
    classifier = saft.SaftClassifier(**toy_settings).fit(hidden, train=parts.train, valid=parts.valid)
    network = classifier.network_.hiding(parts.valid)  # in a comparison validation labels are not known
    expected = method.predict_proba(hidden, parts.test)
    loader = classifier.assembly_.loader(network)
    from saft.learning.prediction import predict_logits
    from saft.metrics import softmax

    np.testing.assert_allclose(softmax(predict_logits(classifier.model_, loader, parts.test)), expected, atol=1e-6)
