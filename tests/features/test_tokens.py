"""Texts are tokenised once, cut, and padded only as far as needed."""

import numpy as np
import polars as pl
import pytest

import saft
from saft.features.tokens import load_tokenizer, tokenise

TEXTS = pl.Series(["the kettle broke", "", "lovely", "it works as it should and looks good in the hall"])


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder):
    return load_tokenizer(tiny_encoder)


def test_tokens_are_those_of_the_tokenizer_and_padding_is_masked(tokenizer):
    tokens = tokenise(TEXTS, tokenizer, 8)
    expected = tokenizer(TEXTS.to_list(), truncation=True, max_length=8, padding=True, return_tensors="np")
    ids, mask = tokens.padded(np.arange(4))
    assert np.array_equal(ids, expected["input_ids"])
    assert np.array_equal(mask, expected["attention_mask"])
    assert tokens.padded(np.array([1, 2]))[0].shape == (2, 3)
    assert tokens.lengths.tolist() == expected["attention_mask"].sum(axis=1).tolist()


def test_added_texts_come_last_and_replaced_texts_keep_their_position(tokenizer):
    first, more = tokenise(TEXTS[:2], tokenizer, 8), tokenise(TEXTS[2:], tokenizer, 8)
    both = first.followed_by(more)
    assert np.array_equal(both.flat, tokenise(TEXTS, tokenizer, 8).flat)
    blank = tokenise(pl.Series([""]), tokenizer, 8)
    replaced = both.with_text(np.array([0, 3]), blank.flat)
    assert np.array_equal(replaced.flat, tokenise(pl.Series(["", "", "lovely", ""]), tokenizer, 8).flat)


def test_a_text_of_a_million_characters_is_cut_and_progress_is_reported(tokenizer):
    finished = []
    tokens = tokenise(pl.Series(["word " * 200_000, "x"]), tokenizer, 16, finished.append)
    assert tokens.lengths.tolist() == [16, 3]
    assert sum(finished) == 2


def test_an_encoder_without_its_tokenizer_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(saft.InputError, match="without its tokenizer"):
        load_tokenizer(str(tmp_path))
