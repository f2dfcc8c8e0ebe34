"""Logistic regression with a class without a training row."""

import numpy as np

from saft.methods._logistic import Logistic


def test_a_class_without_a_training_row_has_probability_zero_and_its_column():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 3))
    labels = np.where(features[:, 0] > 0, 2, 0)
    model = Logistic(4).fit((features[:40], labels[:40]), (features[40:], labels[40:]))
    probabilities = model.predict_proba(features)
    assert probabilities.shape == (60, 4)
    assert not probabilities[:, [1, 3]].any()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (probabilities.argmax(axis=1) == labels).mean() > 0.9
