"""How texts are written, against a loop over their characters."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saft.features import style
from saft.features.style import LARGEST, NUMBERS, StyleModel, measure

TEXTS = ["Hello World! How are you? Fine.\nOk 42", "", "   ", "ÄÖÜ straße №1 …", "a a A b", "WHY?!? 100% sure!!"]


def by_hand(text: str) -> list[float]:
    words = text.lower().split()
    sentences = 0
    for before, character in zip(" " + text, text, strict=False):
        sentences += character in ".!?" and before not in ".!?"
    letters, number = max(len(text), 1), max(len(words), 1)
    return [
        math.log1p(len(text)),
        math.log1p(len(words)),
        sum(not character.isspace() for character in text) / number,
        sum(character.isupper() for character in text) / letters,
        sum(character.isdigit() for character in text) / letters,
        sum(not character.isalnum() and not character.isspace() for character in text) / letters,
        math.log1p(text.count("?")),
        math.log1p(text.count("!")),
        len(set(words)) / number,
        math.log1p(text.count("\n")),
        math.log1p(sentences),
    ]


def test_numbers_are_those_of_a_loop_over_characters():
    found = measure(pl.Series(TEXTS))
    assert found.shape == (len(TEXTS), len(NUMBERS))
    np.testing.assert_allclose(found, [by_hand(text) for text in TEXTS], atol=1e-5)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40))
def test_numbers_of_any_plain_text_are_those_of_the_loop(text):
    np.testing.assert_allclose(measure(pl.Series([text]))[0], by_hand(text), atol=1e-5)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_texts_give_finite_numbers(texts):
    series = pl.Series(texts, dtype=pl.String)
    found = StyleModel.fit(series).transform(series)
    assert found.shape == (len(texts), len(NUMBERS))
    assert np.isfinite(found).all()


def test_numbers_are_standardised_by_the_texts_of_fit_and_clipped():
    model = StyleModel.fit(pl.Series(TEXTS))
    found = model.transform(pl.Series(TEXTS))
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-4)
    assert np.abs(model.transform(pl.Series(["?" * 100_000]))).max() == LARGEST
    np.testing.assert_array_equal(model.transform(pl.Series(TEXTS[:1])), found[:1])  # whatever stands beside it
    same = StyleModel.fit(pl.Series(["one", "one"]))
    assert not same.transform(pl.Series(["one"])).any()


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_many_texts_are_measured_some_at_a_time(monkeypatch, at_once):
    expected = measure(pl.Series(TEXTS))
    monkeypatch.setattr(style, "AT_ONCE", at_once)
    np.testing.assert_array_equal(measure(pl.Series(TEXTS)), expected)
