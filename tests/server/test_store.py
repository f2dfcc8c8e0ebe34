"""Stored rows: in order, whole or not at all, and across models; the same on SQLite and PostgreSQL.

Covers: server.audit, server.ledger, server.queue, server.tables.
"""

import time

import numpy as np
import pytest
from sqlalchemy import delete, update
from sqlalchemy.exc import DBAPIError, IntegrityError

import saft
from saft.online.live import Interaction
from saft.server import audit, ledger, tables
from saft.server.database import Database
from saft.server.queue import Filter
from saft.server.store import Entry, Store, StoredPrediction


def row(number: int) -> Interaction:
    return Interaction(f"u{number % 3}", f"i{number % 4}", f"text {number}", attributes={"user": {"age": number}})


def predicted(share: float) -> StoredPrediction:
    return StoredPrediction(
        "good" if share < 0.5 else "bad", {"good": 1 - share, "bad": share}, max(share, 1 - share), share
    )


def entry(which: int, share: float = 0.1, state: float = 0, **more) -> Entry:
    return Entry(row(which), predicted(share), np.full(4, state, np.float16), **more)


@pytest.fixture
def opened(where):
    made = []

    def open_store(model: str = "one") -> Store:
        database = Database(where)
        made.append(database)
        with database.opening():
            return Store(database, model)

    yield open_store
    for database in made:
        database.close()


def filled(opened, count: int = 10) -> Store:
    store = opened()
    store.mark_current()
    store.add([entry(number, ((7 * number) % count) / count, number) for number in range(count)])
    return store


def judge(store: Store, serial: int, label: str, reviewer: str | None = "kim") -> None:
    with store.database.writing() as connection:
        ledger.judge(connection, [serial], label, reviewer)


def test_added_rows_come_back_as_they_were(opened):
    store = filled(opened)
    assert len(store) == 10
    found = store.find("n4")
    assert found.interaction == row(3)
    assert (found.key, found.reviewed, found.came) == ("n4", False, True)
    assert store.find("n11") is None
    assert store.find("t1") is None
    portion = store.since(4, 3)
    assert [one.serial for one in portion] == [5, 6, 7]
    assert portion[0].interaction == row(4)
    assert np.frombuffer(portion[0].state, np.float16).tolist() == [4, 4, 4, 4]


def test_a_failure_in_the_middle_stores_nothing(opened):
    store = filled(opened)
    broken = Entry(Interaction("u", "i", None), predicted(0.1), np.zeros(4, np.float16))
    with pytest.raises(IntegrityError):
        store.add([entry(1), broken])
    assert len(store) == 10
    assert store.add([entry(1)])[0].startswith("n")


def test_the_same_interaction_twice_is_stored_twice_each_with_its_own_verdicts(opened):
    store = opened()
    first, second = (int(key[1:]) for key in store.add([entry(1), entry(1)]))
    [third] = (int(key[1:]) for key in store.add([entry(1)]))
    judge(store, second, "bad")
    labels = [store.find(f"n{serial}").interaction.label for serial in (first, second, third)]
    assert labels == [None, "bad", None]
    assert [store.find(f"n{serial}").occurrence for serial in (first, second, third)] == [0, 1, 2]


def test_a_row_of_training_whose_place_is_taken_gets_the_next_one(opened):
    store = opened()
    store.add([entry(1)])
    assert store.add([entry(1, number=7)]) == ["t7"]
    assert store.find("t7").occurrence == 1


@pytest.mark.parametrize("after", ["nonsense", "1:x", ":", "1:99999999999999999999"])
def test_a_cursor_that_was_never_given_out_is_refused(opened, after):
    with pytest.raises(saft.InputError, match="`after` has to be"):
        opened().page(Filter(), "suspicious", 5, after)


@pytest.mark.parametrize("order", ["suspicious", "uncertain", "newest", "oldest"])
def test_pages_follow_each_other(opened, order):
    store = filled(opened, 23)
    keys, after = [], None
    while True:
        page, after = store.page(Filter(), order, 5, after)
        keys += [one.key for one in page]
        if after is None:
            break
    whole, _ = store.page(Filter(), order, 100, None)
    assert keys == [one.key for one in whole]
    assert len(set(keys)) == 23


def test_filters_find_parts_in_any_case_and_take_wildcards_literally(opened):
    store = opened()
    texts = ["Größe passt", "100% wool", "100 percent", "under_score", "underXscore"]
    store.add([Entry(Interaction("Ann Lee", f"Lamp {text}", text), predicted(0.1), np.zeros(4)) for text in texts])

    def found(**wanted):
        return [one.interaction.text for one in store.page(Filter(**wanted), "oldest", 9, None)[0]]

    assert found(text="GRÖSSE") == found(text="xyz") == []
    assert found(text="GRÖ") == ["Größe passt"]
    assert found(text="100%") == ["100% wool"]
    assert found(text="PERCENT") == ["100 percent"]
    assert found(item="R_S") == ["under_score"]
    assert found(user="nn l") == texts
    assert store.count(Filter(user="LEE", text="100")) == 2
    assert found(of_user="Ann") == []


def test_a_verdict_makes_the_interaction_wait_no_longer_and_undo_goes_back_one_step(opened):
    store = filled(opened)
    judge(store, 2, "bad")
    judge(store, 2, "good", "lee")
    assert store.find("n2").interaction.label == "good"
    assert store.count(Filter(reviewed=True)) == store.count(Filter(label="good")) == 1
    assert store.count(Filter(labelled=False)) == 9
    for label in ("bad", None):
        with store.database.writing() as connection:
            ledger.take_back(connection, ledger.standing(connection, 2)[-1:], "lee")
        assert store.find("n2").interaction.label == label
    assert store.count(Filter(reviewed=True)) == 0
    assert store.count(Filter(labelled=False)) == 10


def test_another_model_deletes_nothing_and_says_its_own(opened):
    store = filled(opened)
    store.add([entry(30, number=17)])
    judge(store, 11, "bad")
    other = opened("two")
    assert not other.same_model
    assert len(other) == 0
    assert [one.serial for one in other.since(0, 100)] == list(range(1, 12))
    assert {one.state for one in other.since(0, 100)} == {None}
    other.say([(serial, entry(serial)) for serial in range(1, 12)])
    other.mark_current()
    assert other.count(Filter(labelled=False)) == 10
    assert store.find("t17").interaction.label == other.find("n11").interaction.label == "bad"
    assert opened("two").same_model
    assert opened("one").same_model
    assert np.frombuffer(opened("one").since(0, 1)[0].state, np.float16).tolist() == [0] * 4


def test_what_two_earlier_models_said_is_removed(opened):
    for model in ("one", "two", "three"):
        store = opened(model)
        store.mark_current()
        time.sleep(0.01)
    assert [opened(model).same_model for model in ("two", "three", "one")] == [True, True, False]


def test_another_suspicious_class_sorts_the_queue_anew(opened, where):
    store = filled(opened)
    first = store.page(Filter(), "suspicious", 1, None)[0][0].key
    with store.database.opening():
        again = Store(store.database, "one", "good")
    assert again.page(Filter(), "suspicious", 10, None)[0][-1].key == first


@pytest.mark.parametrize("table", [tables.verdicts, tables.audit], ids=lambda table: table.name)
@pytest.mark.parametrize("change", [delete, lambda table: update(table).values(at=0.0)], ids=["delete", "update"])
def test_verdicts_and_the_audit_log_cannot_be_changed_afterwards(opened, table, change):
    store = filled(opened)
    judge(store, 1, "bad")
    with store.database.writing() as connection:
        audit.record(connection, "kim", "verdict")

    def changed():
        with store.database.writing() as connection:
            connection.execute(change(table))

    with pytest.raises(DBAPIError, match="only ever added to"):
        changed()
    assert store.find("n1").interaction.label == "bad"


def test_a_newer_format_is_refused(opened, where):
    filled(opened).database.set_fact("format", "99")
    with pytest.raises(saft.InputError, match="newer saft"):
        Database(where).check()
