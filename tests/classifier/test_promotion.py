"""Promotion: the new folder and the old one change places in one step, and the old one is kept."""

import pytest

from saft import InputError
from saft.classifier import promotion
from saft.classifier.promotion import exchange, free_name, promote


@pytest.fixture
def folders(tmp_path):
    for name in ("served", "served-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.json").write_text(name)
    return tmp_path / "served-2", tmp_path / "served"


def content(folder) -> str:
    return (folder / "model.json").read_text()


def test_the_new_model_is_where_the_old_one_was_and_the_old_one_is_kept_under_a_name_that_says_so(folders):
    new, served = folders
    kept = promote(new, served)
    assert (content(served), content(kept)) == ("served-2", "served")
    assert kept.name.startswith("served.replaced-")
    assert not new.exists()


def test_two_promotions_in_one_second_keep_both_models(folders, tmp_path):
    new, served = folders
    first = promote(new, served)
    new.mkdir()
    (new / "model.json").write_text("third")
    second = promote(new, served)
    assert (content(first), content(second), content(served)) == ("served", "served-2", "third")


@pytest.mark.parametrize("in_steps", [False, True])
def test_folders_exchange_their_names_also_where_the_file_system_cannot_do_it_in_one_step(
    folders, in_steps, monkeypatch
):
    if in_steps:
        monkeypatch.setattr(promotion, "exchanged", lambda one, other: False)
    exchange(*folders)
    assert [content(folder) for folder in folders] == ["served", "served-2"]
    assert sorted(folder.name for folder in folders[0].parent.iterdir()) == ["served", "served-2"]


def test_a_promotion_that_cannot_be_is_told_in_a_sentence_and_changes_nothing(folders):
    new, served = folders
    with pytest.raises(InputError, match="cannot take the place"):
        promote(new.with_name("missing"), served)
    assert (content(new), content(served)) == ("served-2", "served")


def test_a_name_that_is_taken_is_not_given_again(folders):
    served = folders[1]
    first = free_name(served, "replaced")
    first.mkdir()
    assert free_name(served, "replaced") != first
