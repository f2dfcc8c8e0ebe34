"""What is stored comes into the network of whichever model serves, and of every server, once and in the same order."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

import saft
from saft import SaftClassifier
from saft.online.live import Interaction
from saft.server.queue import Filter
from saft.server.team import Caller
from tests.server.conftest import N, serve, serving, unlabelled

KIM = Caller("kim")
ROWS = [Interaction(f"newcomer {number % 2}", f"thing {number % 3}", f"text {number}") for number in range(5)]
ASKED = Interaction("newcomer 1", "thing 2", "how is it?")


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return unlabelled(np.arange(250, N)).to_frame()


@pytest.fixture(scope="module")
def trained(tiny_settings, tmp_path_factory):
    """Train on a table; returns the folder."""

    def train(frame: pl.DataFrame):
        folder = tmp_path_factory.mktemp("models") / "model"
        SaftClassifier(**tiny_settings).fit(saft.read(frame)).save(folder)
        return folder

    return train


@pytest.fixture(scope="module")
def other_model(trained, frame):
    """Trained on the rows in another order, without one class."""
    return trained(frame.reverse().filter(pl.col("label").is_null() | (pl.col("label") != "spam")))


def asked(service) -> np.ndarray:
    return service.predict([ASKED])[0].probabilities


def test_verdicts_outlive_a_model_with_other_rows_and_classes(model_folder, other_model, where):
    service = serve(model_folder, where)
    keys = service.add(ROWS)
    for key, label in (("t260", "spam"), ("t261", "genuine"), (keys[0], "spam"), (keys[1], "genuine"), ("t3", "spam")):
        service.reviews.judge([key], label, KIM)
    service.reviews.judge(["t261"], "suspicious", KIM)
    judged = {key: service.find(key).interaction for key in ("t260", "t261", "t3", *keys)}
    before = asked(service)
    service.close()

    other = serve(other_model, where, "other")
    assert not {"spam"} & set(other.classes)
    rows, _ = other.page(Filter(reviewed=True), "oldest", 100, None)
    kept = {(one.interaction.user, one.interaction.text): one for one in rows}
    for one in judged.values():
        if one.label is not None:
            assert kept[one.user, one.text].interaction.label == one.label
    assert [other.mirror.knows_class(kept[one.user, one.text].interaction.label) for one in rows_of(judged, keys)] == [
        False, True, False, True,
    ]  # fmt: skip
    assert other.live.interaction(other.mirror.number_of(keys[1])).label == "genuine"
    assert other.live.interaction(other.mirror.number_of(keys[0])).label is None  # a class it does not know
    assert len(other.reviews.history(kept[judged["t261"].user, judged["t261"].text].key, KIM)) == 2
    other.close()

    again = serve(model_folder, where)
    assert {key: again.find(key).interaction for key in judged} == judged
    np.testing.assert_allclose(asked(again), before, atol=1e-6)
    again.close()


def rows_of(judged, keys):
    return [judged["t260"], judged["t261"], judged[keys[0]], judged[keys[1]]]


def test_what_came_in_and_was_then_trained_on_is_in_the_network_once(model_folder, trained, frame, where):
    service = serve(model_folder, where)
    keys = service.add([*ROWS, ROWS[0]])
    service.reviews.judge(keys[:1], "spam", KIM)
    service.close()
    new = pl.DataFrame([{"user": one.user, "item": one.item, "text": one.text, "label": "spam"} for one in ROWS[:2]])
    other = serve(trained(pl.concat([frame.drop("time"), new], how="diagonal")), where, "other")
    # Two of the six are rows of training now; the repeated one is another interaction than the first.
    assert len(other.live) == N + 2 + 4
    assert [other.mirror.number_of(key) for key in keys[:2]] == [N, N + 1]
    assert other.key_of(N) == keys[0]
    assert other.find(keys[1]).interaction.label == "spam"  # as the table says; nobody has judged it
    waiting = {one.key for one in other.page(Filter(labelled=False), "oldest", 200, None)[0]}
    assert waiting & set(keys) == set(keys[2:])
    other.reviews.judge(keys[1:2], "genuine", KIM)
    assert other.live.interaction(N + 1).label == "genuine"
    other.reviews.take_back(keys[1], KIM)
    assert other.live.interaction(N + 1).label == "spam"
    other.close()


def test_rows_whose_labels_the_analyst_had_are_not_asked_for(tiny_settings, tmp_path, frame):
    network = saft.read(frame).hiding(np.arange(200, 230))  # as `saft train` holds out rows for its report
    SaftClassifier(**tiny_settings).fit(network, train=np.arange(150), valid=np.arange(150, 190)).save(
        tmp_path / "model"
    )
    service = serve(tmp_path / "model", tmp_path / "kept.sqlite")
    waiting, _ = service.page(Filter(labelled=False), "oldest", 300, None)
    assert [one.key for one in waiting] == [f"t{number}" for number in range(250, N)]
    service.reviews.judge(["t210"], "spam", KIM)
    service.reviews.take_back("t210", KIM)
    assert service.count(Filter(labelled=False)) == 50
    service.close()


def test_two_servers_on_one_database_take_over_what_the_other_added_and_give_equal_answers(model_folder, postgres):
    where = postgres.new_database()
    one, other = (serve(model_folder, where) for _ in range(2))
    first = one.add(ROWS[:2])
    second = other.add([Interaction("newcomer 0", "thing 2", "in between", label="spam")])
    third = one.add(ROWS[2:])
    other.reviews.judge([first[1]], "spam", KIM)  # the other has not refreshed yet, and knows it all the same
    one.reviews.judge([second[0], "t270"], "genuine", KIM)
    for service in (one, other):
        service.refresh()
    assert [one.mirror.number_of(key) for key in (*first, *second, *third)] == list(range(N, N + 6))
    assert [other.mirror.number_of(key) for key in (*first, *second, *third)] == list(range(N, N + 6))
    questions = [ASKED, Interaction("newcomer 0", "thing 0", "and this?"), one.live.interaction(270)]
    for ours, theirs in zip(one.predict(questions), other.predict(questions), strict=True):
        np.testing.assert_allclose(ours.probabilities, theirs.probabilities, atol=1e-6)
    third_server = serve(model_folder, where)
    np.testing.assert_allclose(asked(third_server), asked(one), atol=1e-6)
    assert one.live.interaction(270).label == other.live.interaction(270).label == "genuine"
    for service in (one, other, third_server):
        service.close()


def test_servers_that_start_at_once_on_an_empty_database_agree(model_folder, postgres):
    where = postgres.new_database()
    with ThreadPoolExecutor(3) as pool:
        services = list(pool.map(lambda _: serve(model_folder, where), range(3)))
    assert [service.count(Filter(labelled=False)) for service in services] == [50] * 3
    for service in services:
        service.close()


@pytest.mark.slow
def test_two_processes_see_what_the_other_stored_within_a_second(model_folder, postgres):
    where = postgres.new_database()
    rows = [{"user": "newcomer", "item": f"thing {number}", "text": f"text {number}"} for number in range(4)]
    with serving(model_folder, where) as one, serving(model_folder, where) as other:
        [first] = one.client.post("/interactions", json={"interactions": rows[:1]}).json()["ids"]
        [second] = other.client.post("/interactions", json={"interactions": rows[1:2]}).json()["ids"]
        other.client.post("/labels", json={"id": first, "label": "spam"})
        one.client.post("/labels", json={"id": "t250", "label": "genuine"})
        time.sleep(1)
        asked = {"interactions": [rows[2], rows[0], {"user": "newcomer", "item": "thing 1", "text": "hm"}]}
        answers = [server.client.post("/predict", json=asked).json()["predictions"] for server in (one, other)]
        for ours, theirs in zip(*answers, strict=True):
            assert ours["known_user"]
            for name, share in ours["probabilities"].items():
                assert theirs["probabilities"][name] == pytest.approx(share, abs=1e-6)
        for key in (first, second, "t250"):
            seen = [server.client.get(f"/interactions/{key}").json() for server in (one, other)]
            assert seen[0] == seen[1]
        near = [server.client.get(f"/neighbours/{second}").json()["by_user"] for server in (one, other)]
        assert [[each["id"] for each in rows] for rows in near] == [[first], [first]]


def test_servers_of_two_models_share_a_database(model_folder, other_model, postgres):
    where = postgres.new_database()
    one, other = serve(model_folder, where), serve(other_model, where, "other")
    [key] = one.add(ROWS[:1])
    assert other.find(key).prediction.probabilities.keys() == {"genuine", "suspicious"}
    one.reviews.judge(["t250"], "spam", KIM)
    other.reviews.judge([key], "genuine", KIM)
    one.refresh()
    assert one.live.interaction(one.mirror.number_of(key)).label == "genuine"
    for service in (one, other):
        service.close()
