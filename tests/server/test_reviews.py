"""Verdicts, claims and second opinions of several people, on both kinds of database.

Covers: server.claims, server.identity.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import saft
from saft.online.live import Interaction
from saft.server import audit, ledger
from saft.server.claims import ClaimedError
from saft.server.identity import canonical_time, digest_of, draw_of
from saft.server.mirror import UnknownKeyError
from saft.server.queue import Filter
from saft.server.team import Caller, NotAllowedError
from tests.server.conftest import N, serve

KIM, LEE, MAX = (Caller(name, "review") for name in ("kim", "lee", "max"))
BOSS = Caller("boss")
OPEN = Filter(labelled=False)


@pytest.fixture
def service(model_folder, where):
    made = serve(model_folder, where)
    yield made
    made.close()


def label(service, key: str, by: Caller = BOSS) -> str | None:
    return service.find(key, by).interaction.label


def test_what_an_interaction_is_does_not_depend_on_how_its_time_is_written():
    same = ["2024-05-31T12:30:00Z", "2024-05-31T14:30:00+02:00", "2024-05-31 12:30:00.000", "2024-05-31T12:30:00"]
    assert len({digest_of(Interaction("a", "b", "c", time=one)) for one in same}) == 1
    others = [
        Interaction("a", "b", "c"),
        Interaction("a", "bc", ""),
        Interaction("ab", "", "c"),
        Interaction("a", "b", "C"),
    ]
    digests = {digest_of(one) for one in others}
    assert len(digests) == 4
    assert digest_of(Interaction("a", "b", "c", "spam", attributes={"user": {"age": 3}})) in digests
    # Written out, so that it stays what it is: verdicts of years hang on it.
    written = Interaction("ann", "Lampe", "schön", time="2024-05-31T12:30:00")
    assert digest_of(written) == "4b5b1261d2b11b73d61b9bcf7c241c4f3ad5dbb8fa1c35d72964c23f83604bd7"
    assert canonical_time("soon") == "soon"
    assert canonical_time("9999-12-31T23:59:59-23:00") == "9999-12-31T23:59:59-23:00"
    assert all(0 <= draw_of(one) < 1 for one in digests)


def test_undo_goes_back_one_step_at_a_time_and_history_tells_all_of_it(service):
    for given, by in (("spam", KIM), ("genuine", LEE)):
        service.reviews.judge(["t260"], given, by, note=f"says {by.name}")
    for expected in ("spam", None, None):
        service.reviews.take_back("t260", BOSS)
        assert label(service, "t260") == expected
        assert service.live.interaction(260).label == expected
    told = [(one.label, one.reviewer, one.note, one.taken_back_by) for one in service.reviews.history("t260", KIM)]
    assert told == [("spam", "kim", "says kim", "boss"), ("genuine", "lee", "says lee", "boss")]
    assert service.reviews.history("t3", KIM) == []


def test_only_who_administers_may_take_back_what_another_said(service):
    service.reviews.judge(["t260"], "spam", KIM)
    with pytest.raises(NotAllowedError, match="somebody else's"):
        service.reviews.take_back("t260", LEE)
    assert label(service, "t260") == "spam"
    service.reviews.take_back("t260", KIM)
    assert label(service, "t260") is None


def test_many_are_judged_in_one_step_and_taken_back_in_one(service):
    keys = service.add([Interaction("spammer", f"thing {number}", "buy") for number in range(12)])
    service.add([Interaction("spammer 2", "thing 0", "fine")])
    service.reviews.judge(keys[:1], "genuine", LEE)
    judged = service.reviews.judge_open(Filter(of_user="spammer"), "spam", KIM, note="a ring")
    assert judged.keys == keys[1:]
    assert [label(service, key) for key in keys] == ["genuine"] + ["spam"] * 11
    assert service.count(Filter(user="spammer", labelled=False)) == 1  # the other user's
    service.reviews.judge(keys[5:6], "suspicious", LEE)
    back = service.reviews.take_back_batch(judged.batch, KIM)
    assert set(back.keys) == set(keys[1:])
    assert [label(service, key) for key in keys] == ["genuine"] + [None] * 4 + ["suspicious"] + [None] * 6
    with pytest.raises(UnknownKeyError, match="nothing is left"):
        service.reviews.take_back_batch(judged.batch, KIM)
    assert service.reviews.judge_open(Filter(of_user="nobody"), "spam", KIM).keys == []
    one = service.reviews.judge_open(Filter(of_user="spammer 2", of_item="thing 0"), "spam", KIM)
    assert service.reviews.take_back_batch(one.batch, KIM).keys == one.keys
    service.reviews.claim(Filter(user="spammer 2"), "oldest", 1, [], 10, LEE)
    with pytest.raises(ClaimedError, match="lee is reviewing it"):
        service.reviews.judge_open(Filter(of_user="spammer 2"), "spam", KIM)
    with pytest.raises(saft.InputError, match="There is no class"):
        service.reviews.judge_open(Filter(of_user="nobody"), "odd", KIM)


def test_a_claimed_interaction_is_nobody_elses_until_the_time_is_up(service):
    ours = [one.key for one in service.reviews.claim(OPEN, "oldest", 3, [], 10, KIM)]
    assert ours == ["t250", "t251", "t252"]
    assert [one.key for one in service.reviews.claim(OPEN, "oldest", 2, [], 10, LEE)] == ["t253", "t254"]
    assert service.find("t250").claimed_by == "kim"
    with pytest.raises(ClaimedError, match="kim is reviewing it, for at most 10 more minutes"):
        service.reviews.judge(["t250"], "spam", LEE)
    judged = service.reviews.judge(["t250", "t255"], "spam", LEE)
    assert (judged.keys, judged.left_out) == (["t255"], ("t250",))
    # Ahead: besides those that are held. A page that was opened anew gets its own again.
    assert [one.key for one in service.reviews.claim(OPEN, "oldest", 1, ours, 10, KIM)] == ["t256"]
    assert [one.key for one in service.reviews.claim(OPEN, "oldest", 4, [], 10, KIM)] == [*ours, "t256"]
    service.reviews.judge(["t250"], "spam", KIM)
    assert service.find("t250").claimed_by is None
    service.reviews.release("t251", LEE)  # not hers
    assert service.find("t251").claimed_by == "kim"
    service.reviews.release("t251", KIM)
    assert [one.key for one in service.reviews.claim(OPEN, "oldest", 1, ["t253", "t254"], 10, LEE)] == ["t251"]
    service.reviews.claim(OPEN, "oldest", 0, ["t252"], 0, KIM)  # renewed, for no time at all
    assert [one.key for one in service.reviews.claim(OPEN, "oldest", 1, [], 10, MAX)] == ["t252"]


def test_ten_reviewers_at_once_get_no_interaction_twice_and_lose_no_verdict(model_folder, where):
    """Each through a server of their own where the database allows it, else in turns through one."""
    shared = where.startswith("postgresql")
    services = [serve(model_folder, where) for _ in range(3 if shared else 1)]
    names = [Caller(f"reviewer {number}", "review") for number in range(10)]
    locks = [ThreadPoolExecutor(1) for _ in services]  # a service is one thread's, as the worker has it
    got: dict[str, list[str]] = {name.name: [] for name in names}

    def review(number: int) -> None:
        by, place = names[number], number % len(services)
        service, thread = services[place], locks[place]
        while found := thread.submit(service.reviews.claim, OPEN, "suspicious", 2, [], 10, by).result():
            for one in found:
                thread.submit(service.reviews.judge, [one.key], service.classes[number % 3], by).result()
                got[by.name].append(one.key)

    with ThreadPoolExecutor(10) as people:
        list(people.map(review, range(10)))
    keys = [key for some in got.values() for key in some]
    assert sorted(keys) == [f"t{number}" for number in range(250, N)]
    for service in services:
        service.refresh()
        assert service.count(OPEN) == 0
        for number, by in enumerate(names):
            for key in got[by.name]:
                assert service.find(key).interaction.label == service.classes[number % 3]
                assert service.live.interaction(int(key[1:])).label == service.classes[number % 3]
        assert {one.reviewer for key in keys for one in service.reviews.history(key, BOSS)} <= {n.name for n in names}
    with services[0].database.reading() as connection:
        assert len(ledger.standing_of_all(connection)) == len(keys)
        told = [one["detail"]["ids"] for one in audit.entries(connection) if one["action"] == "verdict"]
    assert len({key for some in told for key in some}) == len(told) == len(keys)
    for service, lock in zip(services, locks, strict=True):
        service.close()
        lock.shutdown()


class TestSecondOpinion:
    @pytest.fixture
    def service(self, model_folder, where):
        made = serve(model_folder, where, second_opinion=1.0)
        yield made
        made.close()

    def test_the_second_reviewer_is_not_told_the_first_verdict_anywhere(self, service):
        key, near = service.add([Interaction("ann", "lamp", "bright"), Interaction("ann", "rug", "soft")])
        service.reviews.judge([key], "spam", KIM, note="copied")
        assert label(service, key, KIM) == "spam"
        seen = service.find(key, LEE)
        assert (seen.interaction.label, seen.reviewed, seen.disputed) == (None, False, False)
        assert service.reviews.history(key, LEE) == []
        assert [one.interaction.label for one in service.neighbours(near, 5, LEE)["user"]] == [None]
        assert [one.interaction.label for one in service.neighbours(near, 5, KIM)["user"]] == ["spam"]
        assert {one.interaction.label for one in service.explain(near, LEE).neighbours} == {None}
        assert service.count(Filter(label="spam", user="ann"), LEE) == service.count(Filter(reviewed=True), LEE) == 0
        assert service.count(Filter(label="spam", user="ann"), KIM) == 1
        for by, waits in ((KIM, 1), (LEE, 2)):
            assert service.count(Filter(user="ann", labelled=False), by) == waits

    def test_two_who_disagree_make_a_dispute_and_a_third_one_settles_it(self, service):
        [key] = service.add([Interaction("ann", "lamp", "bright")])
        lamps, disputes = Filter(item="lamp", labelled=False), Filter(disputed=True)
        service.reviews.judge([key], "spam", KIM)
        assert [one.key for one in service.reviews.claim(lamps, "oldest", 9, [], 10, KIM)] == []
        assert [one.key for one in service.reviews.claim(lamps, "oldest", 9, [], 10, LEE)] == [key]
        service.reviews.judge([key], "genuine", LEE)
        assert service.count(lamps, MAX) == 0
        assert [one.key for one in service.page(disputes, "oldest", 9, None, MAX)[0]] == [key]
        assert len(service.reviews.history(key, MAX)) == 2
        assert service.reviews.claim(disputes, "oldest", 9, [], 10, KIM) == []  # has an opinion already
        assert [one.key for one in service.reviews.claim(disputes, "oldest", 9, [], 10, MAX)] == [key]
        service.reviews.judge([key], "spam", MAX)
        assert service.count(disputes) == 0
        service.reviews.take_back(key, MAX)
        assert service.count(disputes) == 1

    def test_a_verdict_that_is_taken_back_asks_for_one_again(self, service):
        service.reviews.judge(["t260"], "spam", KIM)
        service.reviews.take_back("t260", KIM)
        assert service.count(Filter(labelled=False), KIM) == 50

    def test_labels_that_came_with_an_interaction_need_no_second_opinion(self, service):
        [key] = service.add([Interaction("ann", "lamp", "bright", "spam")])
        assert service.count(Filter(user="ann", labelled=False), KIM) == 0
        service.reviews.judge([key], "genuine", KIM)
        assert service.count(Filter(user="ann", labelled=False), LEE) == 0


def test_the_share_that_gets_a_second_opinion_is_the_same_after_a_restart(model_folder, where):
    service = serve(model_folder, where, second_opinion=0.3)
    keys = [one.key for one in service.page(OPEN, "oldest", 100, None)[0]]
    for key in keys:
        service.reviews.judge([key], "genuine", KIM)
    again = {one.key for one in service.page(OPEN, "oldest", 100, None, LEE)[0]}
    drawn = {key for key in keys if draw_of(digest_of(service.live.interaction(int(key[1:])))) < 0.3}
    assert again == drawn
    assert 5 < len(drawn) < 25
    service.close()
    service = serve(model_folder, where)
    assert {one.key for one in service.page(OPEN, "oldest", 100, None, LEE)[0]} == drawn
    service.close()
    service = serve(model_folder, where, second_opinion=0.0)
    assert service.count(OPEN, LEE) == 0
    assert label(service, keys[0], LEE) == "genuine"
    service.close()


def test_a_claim_ends_by_itself(service, monkeypatch):
    service.reviews.claim(OPEN, "oldest", 1, [], 10, KIM)
    later = time.time() + 601
    monkeypatch.setattr(time, "time", lambda: later)
    assert service.reviews.judge(["t250"], "spam", LEE).keys == ["t250"]
