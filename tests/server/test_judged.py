"""What a store adds to a model's table: new rows with attributes and times, known rows with the last word on them."""

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.classifier.parts import parts_of, split_of
from saft.online.live import Interaction, LiveNetwork
from saft.server.database import Database
from saft.server.identity import digest_of
from saft.server.judged import _places, grown_by
from saft.server.service import ReviewService
from saft.server.team import Caller
from tests.server.conftest import serve

N = 300


@pytest.fixture(scope="module")
def table():
    """A demo network whose users have a country."""
    frame = saft.demo_network(N).to_frame()
    return saft.read(frame, user_table=[{"user": one, "country": f"c{len(one) % 3}"} for one in frame["user"].unique()])


@pytest.fixture(scope="module")
def trained(table, tiny_settings, tmp_path_factory):
    parts = parts_of(table, saft.split(table))
    split = split_of(parts)
    folder = tmp_path_factory.mktemp("judged") / "model"
    champion = SaftClassifier(**tiny_settings).fit(table.hiding(split.test), train=split.train, valid=split.valid)
    champion.save(folder)
    return folder, champion, parts


def grown_after(trained, where, work):
    folder, champion, parts = trained
    service = serve(folder, where)
    work(service)
    service.close()
    database = Database(where)
    try:
        return grown_by(champion, parts, database)
    finally:
        database.close()


NEW = Interaction("ann", "a new lamp", "öh", time="2024-05-31T12:30:00", attributes={"user": {"country": "xx"}})


def test_what_came_in_is_a_row_with_its_time_and_the_attributes_of_its_user(trained, where):
    grown = grown_after(trained, where, lambda service: service.add([NEW]))
    network = grown.network
    assert len(network) == N + 1
    assert network.texts[N] == "öh"
    assert str(network.times[N]).startswith("2024-05-31T12:30:00")
    assert network.user_attributes["country"][int(network.users[N])] == "xx"
    assert network.label_values()[N] is None
    assert not grown.changed.any()


def test_the_last_verdict_counts_with_its_reviewer_and_one_on_a_row_of_training_is_not_a_new_row(trained, where):
    def work(service):
        for label, name in (("spam", "kim"), ("genuine", "lee")):
            service.reviews.judge(["t7"], label, Caller(name))

    grown = grown_after(trained, where, work)
    assert len(grown.network) == N
    assert grown.network.label_values()[7] == "genuine"
    assert grown.parts["reviewer"][7] == "lee"
    assert grown.parts["decided"][7].endswith("Z")


def test_a_verdict_on_a_row_of_training_that_is_taken_back_leaves_the_label_of_the_table(trained, where, table):
    def work(service):
        service.reviews.judge(["t7"], "spam", Caller("kim"))
        service.reviews.take_back("t7", Caller("kim"))

    grown = grown_after(trained, where, work)
    assert grown.network.label_values()[7] == table.label_values()[7]
    assert not grown.changed.any()


def test_a_label_that_something_came_in_with_is_learnt_too(trained, where):
    labelled = Interaction("ann", "lamp", "bright", "spam")
    grown = grown_after(trained, where, lambda service: service.add([labelled]))
    assert grown.network.label_values()[N] == "spam"
    assert grown.parts["decided"][N] is None


def test_the_label_of_a_row_that_came_in_before_it_was_in_the_table_is_that_of_the_table(
    trained, where, table, tiny_settings
):
    """It came in without a label, while an earlier model served."""
    _, champion, parts = trained
    row, earlier = int(split_of(parts).train[-1]), table.take(np.arange(150))
    assert row >= len(earlier)
    values = (table.user_ids[int(table.users[row])], table.item_ids[int(table.items[row])], table.texts[row])
    service = ReviewService(LiveNetwork(SaftClassifier(**tiny_settings).fit(earlier)), where, "earlier")
    service.add([Interaction(*values, time=str(table.times[row]))])
    service.close()
    database = Database(where)
    grown = grown_by(champion, parts, database)
    database.close()
    assert len(grown.network) == N
    assert grown.network.label_values()[row] == table.label_values()[row]
    assert not grown.changed.any()


def test_places_of_rows_are_those_of_their_digests_counted_in_order(table):
    """The literal twin: every row by itself."""
    found = _places(table, {str(table.user_ids[int(user)]) for user in np.unique(table.users)})
    times = [str(time.astype("datetime64[s]")) for time in table.times]
    seen: dict[str, int] = {}
    for row in range(N):
        user, item = table.user_ids[int(table.users[row])], table.item_ids[int(table.items[row])]
        digest = digest_of(Interaction(str(user), str(item), table.texts[row], time=times[row]))
        assert found[digest, seen.get(digest, 0)] == row
        seen[digest] = seen.get(digest, 0) + 1
    assert len(found) == N
