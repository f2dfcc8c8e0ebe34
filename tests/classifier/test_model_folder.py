"""A model that is saved and loaded: nothing changes, nothing is lost, nothing else is overwritten."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import saft
from saft import SaftClassifier
from saft.classifier import folder as model_folder

NEW = [
    {"user": "somebody new", "item": "something new", "text": "lovely"},
    {"user": "somebody new", "item": "another", "text": "it broke"},
]


def test_what_is_loaded_predicts_as_what_was_saved(network, parts, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = saft.load(tmp_path / "model")
    for rows in (network.take(parts.test), NEW):
        np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    assert again.settings == fitted.settings
    assert again.report() == fitted.report()
    assert again.classes_.to_list() == fitted.classes_.to_list()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_no_test_label_and_no_pickle_is_in_the_saved_folder(network, parts, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    stored = pl.read_parquet(tmp_path / "model" / "interactions.parquet")["label"].to_numpy()
    assert (stored[parts.test] == -100).all()
    assert (stored[parts.valid] == network.labels[parts.valid]).all()
    assert {path.suffix for path in (tmp_path / "model").rglob("*.*")} <= {".json", ".safetensors", ".parquet"}


@pytest.mark.parametrize("changes", [
    {"fusion": "none", "labels": False}, {"words": False}, {"cache_neighbours": False, "messages": "gau"},
    {"nodes": "trained"}, {"full_batch": True}, {"trained_layers": 3},
    {"distance": "none", "centrality": "none", "readout": "gated"}, {"sampling": "centrality", "centrality": "sketch"},
])  # fmt: skip
def test_every_variant_trains_saves_loads_and_predicts_new_rows(network, tiny_settings, tmp_path, changes):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 1} | changes).fit(network)
    classifier.save(tmp_path / "model")
    rows = [*NEW, {"user": network.user_ids[0], "item": network.item_ids[0], "text": "again"}]
    np.testing.assert_array_equal(saft.load(tmp_path / "model").predict_proba(rows), classifier.predict_proba(rows))


def test_label_types_survive(tiny_settings, tmp_path, network):
    frame = network.to_frame()
    for dtype, values in ((pl.Int64, [3, 5, 9]), (pl.Boolean, [True, False, False]), (pl.Float64, [0.5, 1.5, 2.0])):
        labels = pl.Series("label", [values[code] for code in network.labels], dtype=dtype)
        classifier = SaftClassifier(**tiny_settings | {"epochs": 1}).fit(frame.with_columns(labels))
        classifier.save(tmp_path / str(dtype))
        table = saft.load(tmp_path / str(dtype)).predict(frame.drop("label")[:5])
        assert table["prediction"].dtype == dtype


def test_incomplete_mixed_up_and_newer_model_folders_are_refused(fitted, tmp_path):
    folder = tmp_path / "model"
    with pytest.raises(saft.InputError, match="There is no model folder"):
        saft.load(folder)
    fitted.save(folder)
    for name in ("weights.safetensors", "users.parquet", "encoder/tokenizer.json"):
        shutil.copytree(folder, tmp_path / "broken", dirs_exist_ok=True)
        (tmp_path / "broken" / name).unlink()
        with pytest.raises(saft.InputError, match=f"is incomplete: {name} is missing"):
            saft.load(tmp_path / "broken")
        shutil.copy(folder / "model.json", tmp_path / "broken" / name)
        with pytest.raises(saft.InputError, match="is not the file that was saved"):
            saft.load(tmp_path / "broken")
        shutil.rmtree(tmp_path / "broken")
    facts = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(facts | {"format": 99, "saft": "9.0"}))
    with pytest.raises(saft.InputError, match=r"saft 9.0 in a newer format \(99\).*Update saft"):
        saft.load(folder)
    (folder / "model.json").write_text("{")
    with pytest.raises(saft.InputError, match="is damaged"):
        saft.load(folder)
    (folder / "model.json").unlink()
    with pytest.raises(saft.InputError, match="holds no model"):
        saft.load(folder)


def test_saving_replaces_a_model_but_nothing_else(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(saft.InputError, match="holds something else"):
        fitted.save(tmp_path / "other")
    with pytest.raises(saft.InputError, match="is a file"):
        fitted.save(tmp_path / "other" / "letter.txt")

    def fails(folder):
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError):
        fitted.save(tmp_path / "new", also=fails)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "other"]
    assert (tmp_path / "other" / "letter.txt").read_text() == "mine"


@pytest.mark.parametrize("exchanges", [True, False], ids=["exchanged", "by two renames"])
def test_a_model_that_cannot_be_replaced_stays_where_it_was(fitted, tmp_path, monkeypatch, exchanges):
    fitted.save(tmp_path / "model")
    before = (tmp_path / "model" / "model.json").read_text()
    rename = Path.rename

    def full(path, target):
        if path.name == "new":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    def cannot(one, other):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    monkeypatch.setattr(model_folder, "exchanged", cannot if exchanges else lambda one, other: False)
    with pytest.raises(saft.InputError, match="No space left on device"):
        fitted.save(tmp_path / "model")
    assert (tmp_path / "model" / "model.json").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
