"""Databases of every earlier format are served with all that is in them."""

import sqlite3

import numpy as np
import pytest

import saft
from saft.online.live import Interaction, LiveNetwork
from saft.server import audit, migrations
from saft.server.database import Database
from saft.server.queue import Filter
from saft.server.team import Caller
from tests.server.conftest import N, serve
from tests.server.format_1 import Format1

KIM = Caller("kim")
CAME = [Interaction("ann", "lamp", f"text {number}", label) for number, label in enumerate([None, "genuine", None])]


@pytest.fixture(scope="module")
def live(model_folder) -> LiveNetwork:
    return LiveNetwork(saft.load(model_folder))


@pytest.fixture
def old(tmp_path, live):
    made = Format1(tmp_path / "kept.sqlite", "model", [str(name) for name in live.classes])
    states = live.message_states(CAME)
    for one, state in zip(CAME, states, strict=True):
        made.add(one, state=state)
    for number in range(250, N):
        made.add(live.interaction(number), number)
    yield made
    made.close()


def test_verdicts_of_the_same_model_are_kept_with_their_history(model_folder, tmp_path, old):
    old.judge("t260", "spam", "kim", 1.0)
    old.judge("t260", "genuine", "lee", 2.0)
    old.judge("n1", "spam", "kim")
    old.judge("n2", "spam", "kim")
    old.judge("n2", "suspicious", "kim")
    old.judge("n2", None, "lee")
    old.close()
    service = serve(model_folder, tmp_path / "kept.sqlite")
    labels = {key: service.find(key).interaction.label for key in ("t260", "n1", "n2", "n3", "t250")}
    assert labels == {"t260": "genuine", "n1": "spam", "n2": "genuine", "n3": None, "t250": None}
    assert [(one.label, one.reviewer, one.at) for one in service.reviews.history("t260", KIM)] == [
        ("spam", "kim", 1.0), ("genuine", "lee", 2.0),
    ]  # fmt: skip
    assert [(one.label, one.taken_back_by) for one in service.reviews.history("n2", KIM)] == [
        ("spam", "lee"), ("suspicious", "lee"),
    ]  # fmt: skip
    assert service.count(Filter(labelled=False)) == 49 + 1
    assert service.live.interaction(service.mirror.number_of("n1")).label == "spam"
    service.reviews.take_back("t260", Caller())
    assert service.find("t260").interaction.label == "spam"
    assert service.add(CAME[:1]) == [f"n{4 + 50}"]  # numbers go on where they were
    service.close()


def test_a_copy_is_made_before_and_its_name_says_of_which_format(model_folder, tmp_path, old):
    old.judge("t260", "spam", "kim")
    old.close()
    serve(model_folder, tmp_path / "kept.sqlite").close()
    [copy] = tmp_path.glob("kept.format-1-until-*.sqlite")
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT value FROM facts WHERE name='format'").fetchone() == ("1",)
        assert connection.execute("SELECT interaction, label FROM verdicts").fetchall() == [("t260", "spam")]
        assert connection.execute("SELECT label FROM interactions WHERE number=260").fetchone() == ("spam",)
    connection.close()
    serve(model_folder, tmp_path / "kept.sqlite").close()
    assert len(list(tmp_path.glob("kept.format-1-*"))) == 1  # nothing to change any more


def test_predictions_and_states_of_the_model_stay_as_they_were(model_folder, tmp_path, old, live):
    before = {row[0]: row[1:] for row in old.database.execute("SELECT serial, predicted, state FROM interactions")}
    old.close()
    service = serve(model_folder, tmp_path / "kept.sqlite")
    after = {one.serial: (one.prediction.label, one.state) for one in service.store.since(0, 100)}
    assert after == before
    service.close()


def test_keys_that_earlier_models_gave_to_other_rows_are_not_mistaken_for_todays(model_folder, tmp_path, old, live):
    old.judge("t260", "spam", "kim")
    old.judge("t255", "spam", "kim")
    old.judge("t256", "genuine", "lee")
    old.open_with("another")
    old.open_with("model")
    for number in range(250, N):
        old.add(live.interaction(number), number)
    old.judge("t255", "genuine", "lee")
    old.close()
    service = serve(model_folder, tmp_path / "kept.sqlite")
    labels = [service.find(key).interaction.label for key in ("t260", "t255", "t256")]
    assert labels == [None, "genuine", None]
    with service.database.reading() as connection:
        kept = [one for one in audit.entries(connection) if one["action"] == "verdict of an earlier model"]
    assert [(one["who"], one["detail"]["key"], one["detail"]["label"]) for one in kept] == [
        ("kim", "t260", "spam"), ("kim", "t255", "spam"), ("lee", "t256", "genuine"),
    ]  # fmt: skip
    service.close()


def test_verdicts_meet_another_model_right_after_the_migration(tiny_settings, tmp_path, old):
    old.judge("t260", "spam", "kim")
    old.close()
    frame = saft.demo_network(N).to_frame().reverse()
    saft.SaftClassifier(**tiny_settings).fit(saft.read(frame)).save(tmp_path / "model")
    service = serve(tmp_path / "model", tmp_path / "kept.sqlite", "other")
    [judged], _ = service.page(Filter(reviewed=True), "oldest", 10, None)
    assert (judged.key, judged.interaction.label) == (f"t{N - 1 - 260}", "spam")
    assert service.count(Filter(labelled=False)) == 2  # what came in; the table has labels for all others
    service.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(model_folder, tmp_path, old, monkeypatch):
    old.judge("t260", "spam", "kim")
    before = list(old.database.iterdump())

    def full(*_given, **_more):
        raise OSError("disk full")

    monkeypatch.setattr(migrations, "record", full)  # the last step
    with pytest.raises(OSError, match="disk full"):
        serve(model_folder, tmp_path / "kept.sqlite")
    assert list(old.database.iterdump()) == before


def test_a_database_that_no_start_was_completed_with_is_migrated_too(tmp_path, live):
    made = Format1(tmp_path / "kept.sqlite", "model", ["a", "b"])
    made.database.execute("DELETE FROM facts WHERE name='model'")
    made.close()
    database = Database(tmp_path / "kept.sqlite")
    with database.opening():
        assert database.check() == 2
    database.close()


def test_identical_rows_get_their_own_places(tmp_path, model_folder, live):
    made = Format1(tmp_path / "kept.sqlite", "model", [str(name) for name in live.classes])
    states = live.message_states(CAME[:1])
    for _ in range(3):
        made.add(CAME[0], state=np.asarray(states[0]))
    made.judge("n2", "spam")
    made.close()
    service = serve(model_folder, tmp_path / "kept.sqlite")
    assert [service.find(f"n{serial}").interaction.label for serial in (1, 2, 3)] == [None, "spam", None]
    service.close()
