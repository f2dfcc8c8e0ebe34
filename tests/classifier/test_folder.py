"""A model folder is replaced in one step, by one process at a time, and what killed ones left is mended or cleared."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import saft
from saft.classifier import folder as folders
from saft.classifier.folder import CHECKPOINT, FACTS, claimed, recover, replacing_folder
from saft.learning.checkpoint import STATE


def write(folder: Path, content: str) -> None:
    with replacing_folder(folder) as new:
        (new / FACTS).write_text(content)
        (new / "encoder").mkdir()
        (new / "encoder" / "config.json").write_text(content)


@pytest.fixture(params=[True, False], ids=["exchanged", "by two renames"])
def exchanges(request, monkeypatch) -> bool:
    if not request.param:
        monkeypatch.setattr(folders, "exchanged", lambda one, other: False)
    return request.param


@pytest.fixture
def model(tmp_path) -> Path:
    return tmp_path / "model"


def test_the_new_one_takes_the_place_of_the_old_one_and_nothing_is_left_beside_it(model, exchanges):
    for content in ("first", "second"):
        write(model, content)
        assert (model / FACTS).read_text() == content
        assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_this_system_exchanges_folders_in_one_step(tmp_path):
    """If not, there would be a moment without a model."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert folders.exchanged(tmp_path / "one", tmp_path / "other")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["other"]


def test_files_are_for_their_owner_alone(model):
    write(model, "x")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (model, *model.rglob("*"))}
    assert modes == {"model": 0o700, "encoder": 0o700, FACTS: 0o600, "config.json": 0o600}


def test_an_error_leaves_the_old_one(model, exchanges):
    write(model, "first")

    def fails():
        with replacing_folder(model) as new:
            (new / FACTS).write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert (model / FACTS).read_text() == "first"
    assert [path.name for path in model.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("kind", [OSError, saft.InputError])
def test_a_full_disk_is_a_sentence_that_names_no_temporary_folder(model, kind):
    def fails():
        with replacing_folder(model) as new:
            file = f"{new / 'report.html'}"
            raise (
                OSError(28, "No space left", file) if kind is OSError else kind(f"Cannot write {file}: No space left.")
            )

    with pytest.raises(saft.InputError, match=r"Cannot write .*No space left\.") as caught:
        fails()
    assert ".model-" not in str(caught.value)


def test_a_model_whose_replacement_was_killed_between_two_renames_is_brought_back(model):
    write(model, "old")
    left = model.with_name(".model-a1b2c3d4")
    (left / "new").mkdir(parents=True)
    model.rename(left / "old")
    recover(model)
    assert (model / FACTS).read_text() == "old"
    with claimed(model):
        assert not left.exists()


def test_what_killed_savings_of_this_model_left_is_cleared_and_nothing_else(model):
    write(model, "x")
    for name in (".model-a1b2c3d4", ".model-b-a1b2c3d4", ".other-a1b2c3d4", ".model-mine"):
        (model.parent / name / "new").mkdir(parents=True)
    with claimed(model):
        pass
    assert sorted(path.name for path in model.parent.iterdir()) == [
        ".model-b-a1b2c3d4", ".model-mine", ".other-a1b2c3d4", "model",
    ]  # fmt: skip


def test_a_second_training_or_saving_into_one_folder_is_told_so(model):
    with claimed(model), ThreadPoolExecutor() as other:
        write(model, "the holder may save")
        with pytest.raises(saft.InputError, match="Another process trains or saves a model in"):
            other.submit(write, model, "second").result()
    assert (model / FACTS).read_text() == "the holder may save"


def test_a_link_stays_a_link_to_the_folder_that_is_replaced(model):
    write(model, "old")
    link = model.with_name("link")
    link.symlink_to(model)
    write(link, "new")
    assert link.is_symlink()
    assert (model / FACTS).read_text() == "new"


def test_a_folder_that_cannot_be_replaced_is_refused_before_anything_is_done(model, monkeypatch):
    model.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == model)
    with pytest.raises(saft.InputError, match="is a mount point"), claimed(model):
        pytest.fail("claimed")
    (model / "letter.txt").write_text("mine")
    monkeypatch.undo()
    with pytest.raises(saft.InputError, match=r"holds something else \(letter\.txt …\)"), claimed(model):
        pytest.fail("claimed")
    with pytest.raises(saft.InputError, match=r"Cannot write|is a file"), claimed(model / "letter.txt" / "deeper"):
        pytest.fail("claimed")


@pytest.mark.parametrize("beside", [(), (FACTS,), (".tmpAbC123", ".checkpoint-a1b2c3d4.safetensors")])
def test_a_checkpoint_of_an_earlier_version_moves_to_its_folder(model, beside):
    model.mkdir()
    for name in ("checkpoint.safetensors", *beside):
        (model / name).write_text(name)
    with claimed(model):
        assert (model / CHECKPOINT / STATE).read_text() == "checkpoint.safetensors"
    assert {path.name for path in model.iterdir()} == {CHECKPOINT} | ({FACTS} & set(beside))


def test_a_folder_of_somebody_else_that_looks_like_one_with_a_checkpoint_is_left_alone(model):
    model.mkdir()
    for name in (".tmpAbC123", "checkpoint.safetensors", "letter.txt"):
        (model / name).write_text(name)
    with pytest.raises(saft.InputError, match="holds something else"), claimed(model):
        pytest.fail("claimed")
    assert len(list(model.iterdir())) == 3
