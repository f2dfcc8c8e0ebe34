"""The desk, without HTTP around it."""

import numpy as np
import pytest

import saft
from saft.online.live import Interaction
from saft.server.service import Desk, UnknownKeyError, described
from saft.server.store import Filter
from tests.serving.conftest import N

ROW = Interaction("somebody", "something", "quite good")


@pytest.fixture
def desk(model_folder, tmp_path):
    made = Desk(saft.load(model_folder), tmp_path / "kept.sqlite", "model")
    yield made
    made.close()


def test_rows_of_training_without_a_label_wait_in_the_queue(desk):
    waiting, _ = desk.page(Filter(labelled=False), "oldest", 100, None)
    assert [one.key for one in waiting] == [f"t{number}" for number in range(250, N)]
    expected = desk.live.probabilities([desk.live.case_of(250)])[0]
    np.testing.assert_allclose(list(waiting[0].judged.probabilities.values()), expected, atol=1e-4)


def test_a_start_that_is_killed_on_the_way_is_made_good_by_the_next(model_folder, tmp_path, monkeypatch):
    def killed(*_given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Desk, "_keep", killed)
        with pytest.raises(KeyboardInterrupt):
            Desk(saft.load(model_folder), tmp_path / "kept.sqlite", "model")
    again = Desk(saft.load(model_folder), tmp_path / "kept.sqlite", "model")
    assert again.store.count(Filter(labelled=False)) == 50
    again.close()
    once_more = Desk(saft.load(model_folder), tmp_path / "kept.sqlite", "model")
    assert once_more.store.same_model
    once_more.close()


def test_the_rarest_class_is_the_suspicious_one_unless_somebody_says_otherwise(desk, model_folder, tmp_path):
    assert desk.suspicious == desk.classes[int(desk.live.label_totals.argmin())]
    other = Desk(saft.load(model_folder), tmp_path / "other.sqlite", "model", "genuine")
    first, second = other.page(Filter(), "suspicious", 2, None)[0]
    assert first.judged.probabilities["genuine"] >= second.judged.probabilities["genuine"]
    other.close()
    with pytest.raises(saft.InputError, match="There is no class"):
        Desk(saft.load(model_folder), tmp_path / "third.sqlite", "model", "nonsense")


def test_an_unknown_class_is_refused_before_anything_is_kept(desk):
    before = len(desk.store), len(desk.live)
    with pytest.raises(saft.InputError, match="There is no class 'odd'"):
        desk.add([ROW, Interaction("a", "b", "c", label="odd")])
    assert (len(desk.store), len(desk.live)) == before


def test_what_cannot_be_written_is_not_in_the_network_either(desk, monkeypatch):
    def full(*_given):
        raise OSError("disk full")

    monkeypatch.setattr(desk.store, "add", full)
    with pytest.raises(OSError, match="disk full"):
        desk.add([ROW])
    assert len(desk.live) == N


def test_a_verdict_makes_open_neighbours_be_judged_again(desk):
    keys = desk.add([ROW, Interaction("somebody", "another", "fine"), Interaction("somebody", "third", "bad")])
    before = desk.find(keys[1]).judged
    around = desk.decide(keys[0], "spam", "kim")
    assert set(around) == {keys[1], keys[2]}
    assert desk.find(keys[1]).judged == before
    desk.judge_again(around)
    assert desk.find(keys[1]).judged != before
    assert desk.find(keys[0]).interaction.label == "spam"


def test_a_verdict_that_is_taken_back_leaves_the_label_that_was_there_before(desk):
    (key,) = desk.add([Interaction("somebody", "something", "good", label="genuine")])
    known = desk.live.interaction(3).label
    for one, before in ((key, "genuine"), ("t3", known), ("t260", None)):
        desk.decide(one, "spam")
        assert desk.find(one).interaction.label == "spam"
        desk.decide(one, None)
        assert desk.find(one).interaction.label == before
        assert desk.live.interaction(desk.number_of(one)).label == before


@pytest.mark.parametrize("key", ["", "n", "t", "x1", "n0", "n999", f"t{N}", "t-1", "n1e3", "t" + "9" * 30, "n½"])
def test_keys_that_nobody_gave_out_are_unknown(desk, key):
    with pytest.raises(UnknownKeyError):
        desk.find(key)


def test_the_model_describes_itself(desk):
    facts = described(desk.live.classifier)
    assert facts["interactions"] == N
    assert facts["labelled"] == 250
    assert 0 <= facts["valid_macro_f1"] <= 1
