"""DeBERTa+GCN on a small DeBERTa with random weights, and RoBERTa in its place."""

import numpy as np
import pytest
import torch

import saft
from saft.features.tokens import load_tokenizer
from saft.methods import find


def folder_with(model, tiny_encoder, folder) -> str:
    model.save_pretrained(folder)
    load_tokenizer(tiny_encoder).save_pretrained(folder)
    return str(folder)


def small(family: str) -> torch.nn.Module:
    from transformers import DebertaV2Config, DebertaV2Model, RobertaConfig, RobertaModel

    torch.manual_seed(0)
    sizes = {
        "vocab_size": 2000,
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    if family == "roberta":
        return RobertaModel(RobertaConfig(**sizes, max_position_embeddings=64))
    return DebertaV2Model(DebertaV2Config(**sizes, relative_attention=True, pos_att_type=["p2c", "c2p"]))


@pytest.mark.parametrize("family", ["deberta", "roberta"])
def test_vectors_are_those_of_the_named_encoder(family, toy, toy_settings, tiny_encoder, tmp_path):
    model = small(family).eval()
    encoder = folder_with(model, tiny_encoder, tmp_path / family)
    method = find("deberta_gcn").make(toy_settings, {"encoder": encoder})
    found, tokenizer = method.features(toy), load_tokenizer(encoder)
    for e in (0, 17, 80):
        ids = torch.tensor([tokenizer(toy.texts[e])["input_ids"]])
        with torch.inference_mode():
            expected = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(found[e], expected, atol=2e-3)  # kept in half precision


def test_it_trains_on_these_vectors(toy, toy_settings, tiny_encoder, tmp_path):
    parts = saft.split(toy, seed=0)
    encoder = folder_with(small("deberta"), tiny_encoder, tmp_path / "deberta")
    method = find("deberta_gcn").make(toy_settings, {"encoder": encoder})
    probabilities = method.fit(toy.hiding(parts.test), train=parts.train, valid=parts.valid).predict_proba(
        toy, parts.test
    )
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
