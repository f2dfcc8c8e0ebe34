"""Frozen vectors: cached, found again, and never those of other texts or settings."""

import numpy as np
import polars as pl
import pytest

from saft.methods import _text_vectors
from saft.methods._text_vectors import text_vectors
from saft.settings import Settings

TEXTS = pl.Series(["it is lovely", "", "broken", "the lamp is the best for a room"])


@pytest.fixture
def settings(tiny_encoder, tmp_path, monkeypatch) -> Settings:
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    return Settings(encoder=tiny_encoder, max_length=8)


def test_vectors_do_not_depend_on_which_texts_are_encoded_together(settings):
    together = text_vectors(TEXTS, settings, "mean")
    for e, text in enumerate(TEXTS):
        np.testing.assert_allclose(text_vectors(pl.Series([text]), settings, "mean")[0], together[e], atol=2e-3)


def test_they_are_computed_once_and_the_same_when_found_again(settings, monkeypatch):
    first = text_vectors(TEXTS, settings, "mean")
    monkeypatch.setattr(_text_vectors, "encode", lambda *_: pytest.fail("computed again"))
    np.testing.assert_array_equal(text_vectors(TEXTS, settings, "mean"), first)


@pytest.mark.parametrize("other", [{"pooling": "first"}, {"layers": 2}, {"max_length": 4}, {"texts": TEXTS[:3]}])
def test_another_pooling_cut_length_or_text_is_another_file(settings, tmp_path, other):
    text_vectors(TEXTS, settings, "mean")
    texts, pooling = other.pop("texts", TEXTS), other.pop("pooling", "mean")
    text_vectors(texts, settings.changed(**other), pooling)
    assert len(list((tmp_path / "vectors").glob("*.npy"))) == 2


def test_another_encoder_in_the_same_folder_gives_other_vectors(settings, tmp_path):
    import shutil

    from transformers import AutoModel

    folder = tmp_path / "encoder"
    shutil.copytree(settings.encoder, folder)
    before = text_vectors(TEXTS, settings.changed(encoder=str(folder)), "mean")
    model = AutoModel.from_pretrained(folder)
    model.encoder.layer[0].output.dense.weight.data.mul_(3)
    model.save_pretrained(folder)
    assert np.abs(text_vectors(TEXTS, settings.changed(encoder=str(folder)), "mean") - before).max() > 0.01
