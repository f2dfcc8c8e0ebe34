"""TF-IDF against its formula."""

import numpy as np
import polars as pl
import pytest

import saft
from saft.methods import find
from saft.methods.tfidf import learn_words

TEXTS = ["a lamp a lamp", "the rug", "a rug and the lamp lamp lamp"]


def test_weights_are_the_formula_written_out():
    words = learn_words(pl.Series(TEXTS))
    found = words.transform(TEXTS).toarray()
    vocabulary = words.get_feature_names_out()
    expected = np.zeros((3, len(vocabulary)))
    for e, text in enumerate(TEXTS):
        for w, word in enumerate(vocabulary):
            count, texts = text.split().count(word), sum(word in other.split() for other in TEXTS)
            if count:
                expected[e, w] = (1 + np.log(count)) * (np.log((1 + 3) / (1 + texts)) + 1)
        expected[e] /= np.linalg.norm(expected[e])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert "a" in vocabulary


def test_words_are_learnt_from_training_texts_only(toy, toy_settings):
    parts = saft.split(toy, seed=0)
    method = find("tfidf").make(toy_settings).fit(toy.hiding(parts.test), train=parts.train, valid=parts.valid)
    written = set(" ".join(toy.take(parts.train).texts).split())
    assert set(method.words_.get_feature_names_out()) == written


def test_texts_without_a_single_word_are_refused_with_a_sentence():
    with pytest.raises(saft.InputError, match="not one word"):
        learn_words(pl.Series(["", "…"]))
