"""Progress, against counts and formulas written out."""

import math
from collections import namedtuple
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saft.server import ledger
from saft.server.progress import days, judged_and_predicted, model_progress, reviewers
from saft.server.team import Caller
from tests.server.conftest import serve

Verdict = namedtuple("Verdict", "interaction reviewer label at")
PAIRS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abc")), max_size=30)  # the model has no "d"
KIM, LEE = Caller("kim", "review"), Caller("lee", "review")


def literal_wilson(right: int, count: int) -> tuple[float, float]:
    """Wilson (1927): the shares from which the observed one is 1.96 standard deviations away."""
    z, share = 1.959963984540054, right / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return middle - half, middle + half


@given(PAIRS)
def test_scores_are_those_counted_by_hand(pairs):
    known = [(said, predicted) for said, predicted in pairs if said != "d"]
    found = model_progress(pairs, ["a", "b", "c"])
    assert found.judged == len(known)
    right = sum(said == predicted for said, predicted in known)
    if not known:
        assert all(math.isnan(value) for value in (found.accuracy, found.low, found.high, found.macro_f1))
        return
    assert found.accuracy == pytest.approx(right / len(known))
    assert (found.low, found.high) == pytest.approx(literal_wilson(right, len(known)), abs=1e-9)
    for one in found.classes:
        hits = sum(said == predicted == one.name for said, predicted in known)
        assert one.judged == sum(said == one.name for said, _ in known)
        assert one.predicted == sum(predicted == one.name for _, predicted in known)
        assert one.recall == (pytest.approx(hits / one.judged) if one.judged else None)
        assert one.precision == (pytest.approx(hits / one.predicted) if one.predicted else None)


def test_verdicts_are_counted_by_day_in_utc_and_by_reviewer():
    def at(text: str) -> float:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()

    times = ["2026-01-30T23:59:59", "2026-01-31T00:00:00", "2026-01-31T12:00:00", "2026-02-02T01:00:00"]
    names = ["kim", None, "kim", "lee"]
    standing = [Verdict(row, name, "a", at(time)) for row, (name, time) in enumerate(zip(names, times, strict=True))]
    counted = [(one.day, one.verdicts) for one in days(standing)]
    assert counted == [("2026-01-30", 1), ("2026-01-31", 2), ("2026-02-02", 1)]
    told = [(one.name, one.verdicts, one.last) for one in reviewers(standing)]
    assert told == [("kim", 2, at(times[2])), (None, 1, at(times[1])), ("lee", 1, at(times[3]))]
    assert (days([]), reviewers([])) == ([], [])


def test_compared_is_what_was_judged_and_what_nobody_waits_for(model_folder, where):
    service = serve(model_folder, where)
    classes = service.classes
    for key, label in (("t250", classes[0]), ("t251", classes[1]), ("t3", classes[0])):  # the model learnt from row 3
        service.reviews.judge([key], label, KIM)
    service.reviews.judge(["t252"], classes[0], KIM)
    service.reviews.take_back("t252", KIM)
    predicted = {key: service.find(key).prediction.label for key in ("t250", "t251")}
    assert sorted(pairs_of(service)) == sorted([(classes[0], predicted["t250"]), (classes[1], predicted["t251"])])
    with service.database.reading() as connection:
        assert len(ledger.standing_of_all(connection)) == 3
    service.close()


def test_a_first_opinion_does_not_move_the_score_before_the_second_is_given(model_folder, where):
    service = serve(model_folder, where, second_opinion=1.0)
    service.reviews.judge(["t250"], service.classes[0], KIM)
    assert pairs_of(service) == []
    service.reviews.judge(["t250"], service.classes[1], LEE)
    assert [said for said, _ in pairs_of(service)] == [service.classes[1]]
    service.close()


def pairs_of(service) -> list[tuple[str, str]]:
    with service.database.reading() as connection:
        return judged_and_predicted(connection, service.store.model)
