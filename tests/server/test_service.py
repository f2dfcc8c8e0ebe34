"""The service without HTTP."""

import numpy as np
import pytest

import saft
from saft.online.live import Interaction
from saft.server.mirror import Mirror, UnknownKeyError
from saft.server.queue import Filter
from saft.server.service import model_facts
from saft.server.team import Caller
from tests.server.conftest import N, serve

KIM = Caller("kim")
ROW = Interaction("somebody", "something", "quite good")


@pytest.fixture
def service(model_folder, tmp_path):
    made = serve(model_folder, tmp_path / "kept.sqlite")
    yield made
    made.close()


def test_rows_of_training_without_a_label_wait_in_the_queue(service):
    waiting, _ = service.page(Filter(labelled=False), "oldest", 100, None)
    assert [one.key for one in waiting] == [f"t{number}" for number in range(250, N)]
    expected = service.live.probabilities([service.live.ego_graph_of(250)])[0]
    np.testing.assert_allclose(list(waiting[0].prediction.probabilities.values()), expected, atol=1e-4)


def test_a_start_that_is_killed_on_the_way_is_completed_by_the_next(model_folder, tmp_path, monkeypatch):
    def killed(*_given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Mirror, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            serve(model_folder, tmp_path / "kept.sqlite")
    again = serve(model_folder, tmp_path / "kept.sqlite")
    assert again.store.count(Filter(labelled=False)) == 50
    again.close()
    once_more = serve(model_folder, tmp_path / "kept.sqlite")
    assert once_more.store.same_model
    once_more.close()


def test_the_rarest_class_is_the_suspicious_one_unless_another_is_given(service, model_folder, tmp_path):
    assert service.suspicious == service.classes[int(service.live.label_totals.argmin())]
    other = serve(model_folder, tmp_path / "other.sqlite", suspicious="genuine")
    first, second = other.page(Filter(), "suspicious", 2, None)[0]
    assert first.prediction.probabilities["genuine"] >= second.prediction.probabilities["genuine"]
    other.close()
    with pytest.raises(saft.InputError, match="There is no class"):
        serve(model_folder, tmp_path / "third.sqlite", suspicious="nonsense")


def test_an_unknown_class_is_refused_before_anything_is_stored(service):
    before = len(service.store), len(service.live)
    with pytest.raises(saft.InputError, match="There is no class 'odd'"):
        service.add([ROW, Interaction("a", "b", "c", label="odd")])
    assert (len(service.store), len(service.live)) == before


def test_an_interaction_that_cannot_be_written_is_not_in_the_network_either(service, monkeypatch):
    def full(*_given):
        raise OSError("disk full")

    monkeypatch.setattr(service.store, "add", full)
    with pytest.raises(OSError, match="disk full"):
        service.add([ROW])
    assert len(service.live) == N


def test_neighbours_of_a_verdict_that_have_no_label_are_predicted_again(service):
    keys = service.add([ROW, Interaction("somebody", "another", "fine"), Interaction("somebody", "third", "bad")])
    before = service.find(keys[1]).prediction
    around = service.reviews.judge(keys[:1], "spam", KIM).around
    assert set(around) == {keys[1], keys[2]}
    assert service.find(keys[1]).prediction == before
    service.predict_again(around)
    assert service.find(keys[1]).prediction != before
    assert service.find(keys[0]).interaction.label == "spam"


def test_a_verdict_that_is_taken_back_leaves_the_label_that_was_there_before(service):
    (key,) = service.add([Interaction("somebody", "something", "good", label="genuine")])
    known = service.live.interaction(3).label
    for one, before in ((key, "genuine"), ("t3", known), ("t260", None)):
        service.reviews.judge([one], "spam", KIM)
        assert service.find(one).interaction.label == "spam"
        service.reviews.take_back(one, KIM)
        assert service.find(one).interaction.label == before
        assert service.live.interaction(service.mirror.number_of(one)).label == before


@pytest.mark.parametrize("key", ["", "n", "t", "x1", "n0", "n999", f"t{N}", "t-1", "n1e3", "t" + "9" * 30, "n½"])
def test_keys_that_were_never_given_out_are_unknown(service, key):
    with pytest.raises(UnknownKeyError):
        service.find(key)


def test_the_facts_of_a_model_are_those_of_its_training(service):
    facts = model_facts(service.live.classifier)
    assert facts["interactions"] == N
    assert facts["labelled"] == 250
    assert facts["valid_macro_f1"] is None  # it was trained without validation rows, and JSON has no nan
