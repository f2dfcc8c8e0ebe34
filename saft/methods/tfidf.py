"""TF-IDF: which words occur, weighed down by how many texts they occur in; logistic regression.

Sparck Jones: A Statistical Interpretation of Term Specificity and its Application in Retrieval. Journal of
Documentation 28, 1972.

    x_e[w] ∝ (1 + log count of w in e) · (log((1 + n)/(1 + texts with w)) + 1),   ‖x_e‖ = 1;   softmax(W x_e + b)

The 2,000 most frequent words, learnt from training texts only. The matrix stays sparse. How strongly W is pulled to
zero is chosen on the validation rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import polars as pl

from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError
from saft.learning.callbacks import Callback
from saft.methods._card import Method
from saft.methods._logistic import Logistic
from saft.settings import Settings

MOST_WORDS = 2000
WORD = r"(?u)\b\w+\b"  # words of one letter count too: in some languages they are words


def learn_words(texts: pl.Series) -> Any:
    """A fitted vectoriser: texts → sparse rows."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(max_features=MOST_WORDS, sublinear_tf=True, token_pattern=WORD, dtype=np.float32)
    try:
        return words.fit(texts.to_list())
    except ValueError as error:
        raise InputError("There is not one word in the training texts, so words cannot be counted.") from error


class TfIdf:
    def __init__(self, settings: Settings, callbacks: Iterable[Callback]) -> None:
        self.settings = settings

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        parts = [network.take(rows) for rows in (train, valid)]
        self.words_ = learn_words(parts[0].texts)
        train_part, valid_part = ((self.words_.transform(part.texts.to_list()), part.labels) for part in parts)
        self.logistic_ = Logistic(network.n_classes).fit(train_part, valid_part)
        self.n_parameters_ = self.logistic_.n_parameters_
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        return self.logistic_.predict_proba(self.words_.transform(network.take(interactions).texts.to_list()))


METHOD = Method(title="TF-IDF", paper="Sparck Jones 1972", build=TfIdf, reads_with_encoder=False)
