"""Multinomial logistic regression on features, its strength of regularisation chosen on the validation rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from saft.metrics import macro_f1

STRENGTHS = (0.1, 1.0, 10.0)  # C of scikit-learn: larger is less regularised
MOST_STEPS = 500


class Logistic:
    """Columns of probabilities are all classes, also those without a training row."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def fit(self, train: tuple[Any, np.ndarray], valid: tuple[Any, np.ndarray]) -> Self:
        """From (features, labels) of training and of validation rows."""
        from sklearn.linear_model import LogisticRegression

        best = -1.0
        for strength in STRENGTHS if len(valid[1]) else (1.0,):
            model = LogisticRegression(C=strength, max_iter=MOST_STEPS).fit(*train)
            score = macro_f1(valid[1], model.predict(valid[0]), self.n_classes) if len(valid[1]) else 0.0
            if score > best:
                best, self.model_ = score, model
        self.n_parameters_ = self.model_.coef_.size + self.model_.intercept_.size
        return self

    def predict_proba(self, features: Any) -> np.ndarray:
        result = np.zeros((features.shape[0], self.n_classes))
        result[:, self.model_.classes_] = self.model_.predict_proba(features)
        return result
