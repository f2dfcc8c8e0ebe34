"""Which interactions of a busy node texts are compared with, after any number of changes, against choosing anew."""

import numpy as np
import polars as pl
import pytest

from saft.data.network import HIDDEN
from saft.features import gathering
from saft.online.compared import ComparedMembers
from saft.online.growing import GrowingArray, GrowingSide

NODES, MOST, SEED = 3, 8, 5


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    monkeypatch.setattr(gathering, "MOST_COMPARED", MOST)


def a_side(rng, rows: int) -> tuple[GrowingSide, GrowingArray]:
    nothing = np.empty((NODES, 0))
    nodes = rng.choice(NODES, rows, p=[0.7, 0.25, 0.05])
    side = GrowingSide(pl.Series(["a", "b", "c"]), nodes, nothing, nothing, nothing, nothing)
    return side, GrowingArray(np.where(rng.random(rows) < 0.3, rng.integers(0, 2, rows), HIDDEN).astype(np.int32))


def chosen_anew(side: GrowingSide, labels: GrowingArray, code: int, number: int, without: int | None) -> list[int]:
    members = [one for one in side.members(code).tolist() if one != without]
    visible = labels.values
    if number == len(visible):
        visible = np.append(visible, np.int32(HIDDEN))
        if len(members) >= MOST:
            members.append(number)
    found = gathering.compared(np.array(members, np.int64), visible, SEED)
    return sorted(set(found.tolist()) - {number})


@pytest.mark.parametrize("start", [0, 12, 60])
def test_after_any_changes_they_are_those_that_would_be_chosen_anew(start):
    rng = np.random.default_rng(start)
    side, labels = a_side(rng, start)
    compared = ComparedMembers(side, labels, SEED)
    for _ in range(400):
        code = int(rng.choice(NODES, p=[0.7, 0.25, 0.05]))
        if rng.random() < 0.4 or not len(labels):
            number = len(labels)
            labels.append(np.array([HIDDEN], np.int32))
            side.append(number, code)
            compared.added(code, number)
        else:
            number = int(rng.integers(len(labels)))
            labels.values[number] = rng.choice([HIDDEN, 0, 1])
            compared.relabelled(int(side.nodes.values[number]), number)
        members = side.members(code)
        asked = [len(labels), *members[:1].tolist(), *members[-1:].tolist()]
        left_out = [None, *rng.permutation(members)[:1].tolist()]
        for one in asked:
            for without in left_out:
                if one != without:
                    found = compared.others(code, one, without)
                    assert sorted(found.tolist()) == chosen_anew(side, labels, code, one, without)


def test_a_busy_node_is_looked_through_once(monkeypatch):
    rng = np.random.default_rng(0)
    side, labels = a_side(rng, 60)
    compared, looked = ComparedMembers(side, labels, SEED), []
    members = GrowingSide.members
    monkeypatch.setattr(GrowingSide, "members", lambda side, code: looked.append(code) or members(side, code))
    for _ in range(5):
        compared.others(0, len(labels))
        number = len(labels)
        labels.append(np.array([HIDDEN], np.int32))
        side.append(number, 0)
        compared.added(0, number)
    assert looked == [0]
