"""Stored rows: in order, whole or not at all, and across models."""

import sqlite3

import numpy as np
import pytest

import saft
from saft.online.live import Interaction
from saft.server.store import Filter, Store, StoredPrediction


def row(number: int) -> Interaction:
    return Interaction(f"u{number % 3}", f"i{number % 4}", f"text {number}", attributes={"user": {"age": number}})


def predicted(share: float) -> StoredPrediction:
    return StoredPrediction(
        "good" if share < 0.5 else "bad", {"good": 1 - share, "bad": share}, max(share, 1 - share), share
    )


def filled(path, count: int = 10, model: str = "one") -> Store:
    store = Store(path, model)
    store.mark_current()
    shares = [((7 * number) % count) / count for number in range(count)]
    states = np.arange(count * 4, dtype=np.float16).reshape(count, 4)
    store.add([row(number) for number in range(count)], [predicted(share) for share in shares], states, [None] * count)
    return store


def test_added_rows_come_back_as_they_were(tmp_path):
    store = filled(tmp_path / "x.sqlite")
    assert len(store) == 10
    found = store.find("n4")
    assert found.interaction == row(3)
    assert (found.key, found.reviewed) == ("n4", False)
    assert store.find("n11") is None
    assert store.find("t1") is None
    portions = list(store.added(at_once=4))
    assert [len(portion) for portion in portions] == [4, 4, 2]
    serial, interaction, state = portions[1][0]
    assert (serial, interaction) == (5, row(4))
    assert np.frombuffer(state, np.float16).tolist() == [16, 17, 18, 19]


def test_a_failure_in_the_middle_stores_nothing(tmp_path):
    store = filled(tmp_path / "x.sqlite")
    broken = [row(1), Interaction(None, "i", "t")]
    with pytest.raises(sqlite3.IntegrityError):
        store.add(broken, [predicted(0.1)] * 2, np.zeros((2, 4), np.float16), [None] * 2)
    assert len(store) == 10
    assert store.add([row(1)], [predicted(0.1)], np.zeros((1, 4), np.float16), [None])[0].startswith("n")


@pytest.mark.parametrize("order", ["suspicious", "uncertain", "newest", "oldest"])
def test_pages_follow_each_other(tmp_path, order):
    store = filled(tmp_path / "x.sqlite", 23)
    keys, after = [], None
    while True:
        page, after = store.page(Filter(), order, 5, after)
        keys += [one.key for one in page]
        if after is None:
            break
    whole, _ = store.page(Filter(), order, 100, None)
    assert keys == [one.key for one in whole]
    assert len(set(keys)) == 23


def test_the_last_verdict_counts_and_all_are_kept(tmp_path):
    store = filled(tmp_path / "x.sqlite")
    store.add_verdict("n2", "bad", "kim")
    store.add_verdict("n2", "good", "lee")
    assert store.find("n2").interaction.label == "good"
    assert store.count(Filter(reviewed=True)) == store.count(Filter(label="good")) == 1
    store.add_verdict("n2", None, "lee")
    assert store.count(Filter(reviewed=True)) == 0
    assert store.verdicts() == 3


def test_another_model_keeps_added_rows_and_drops_rows_of_training(tmp_path):
    store = filled(tmp_path / "x.sqlite")
    store.add([row(1)], [predicted(0.2)], np.zeros((1, 4), np.float16), [17])
    assert store.find("t17") is not None
    store.close()
    assert Store(tmp_path / "x.sqlite", "one").same_model
    other = Store(tmp_path / "x.sqlite", "two")
    assert not other.same_model
    assert len(other) == 10
    assert other.find("t17") is None
    other.close()
    assert not Store(tmp_path / "x.sqlite", "two").same_model  # its start was not completed


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "x.sqlite").write_bytes(b"something else " * 100)
    with pytest.raises(saft.InputError, match="cannot be used"):
        Store(tmp_path / "x.sqlite", "one")
    newer = Store(tmp_path / "y.sqlite", "one")
    newer._database.execute("UPDATE facts SET value='99' WHERE name='format'")
    newer.close()
    with pytest.raises(saft.InputError, match="newer saft"):
        Store(tmp_path / "y.sqlite", "one")
