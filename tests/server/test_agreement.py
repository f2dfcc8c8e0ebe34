"""Agreement of reviewers, against the definitions written out."""

import math
from collections import namedtuple
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saft.server.agreement import agreement, krippendorff_alpha

Verdict = namedtuple("Verdict", "interaction reviewer label")
UNITS = st.lists(st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz")), max_size=12)


def literal_alpha(units: list[dict[str, str]]) -> float:
    """Through the matrix of coincidences, as Krippendorff (2011) writes it down."""
    values = "xyz"
    coincidences = np.zeros((3, 3))
    for unit in units:
        for one, other in permutations(unit, 2):
            coincidences[values.index(unit[one]), values.index(unit[other])] += 1 / (len(unit) - 1)
    totals, n = coincidences.sum(axis=1), coincidences.sum()
    observed = sum(coincidences[c, k] for c in range(3) for k in range(3) if c != k)
    expected = sum(totals[c] * totals[k] for c in range(3) for k in range(3) if c != k) / (n - 1) if n > 1 else 0
    return 1 - observed / expected if expected else math.nan


@given(UNITS)
def test_alpha_is_that_of_the_matrix_of_coincidences(units):
    assert krippendorff_alpha(units) == pytest.approx(literal_alpha(units), nan_ok=True)


def test_alpha_of_krippendorffs_own_example():
    """Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", part B: two observers, nominal data."""
    ben = ["a", "a", "b", "b", "d", "c", "c", "c", "e", "d", "d", "a"]
    gerry = ["b", "a", "b", "b", "b", "c", "c", "c", "e", "d", "d", "d"]
    units = [{"ben": one, "gerry": other} for one, other in zip(ben, gerry, strict=True)]
    assert krippendorff_alpha(units) == pytest.approx(0.692, abs=5e-4)


def literal_kappa(ours: list[str], theirs: list[str]) -> float:
    n = len(ours)
    observed = sum(one == other for one, other in zip(ours, theirs, strict=True)) / n
    chance = sum(ours.count(label) / n * theirs.count(label) / n for label in {*ours, *theirs})
    return (observed - chance) / (1 - chance)


def test_kappa_of_two_counts_what_both_have_judged_and_each_ones_last_word():
    verdicts = [
        *[Verdict(unit, "kim", label) for unit, label in enumerate("xxyyzx")],
        *[Verdict(unit, "lee", label) for unit, label in enumerate("xyyyz")],
        Verdict(5, None, "x"),
        Verdict(0, "lee", "z"),
    ]
    found = agreement(verdicts, disputed=2)
    assert (found.judged, found.judged_twice, found.disputed) == (6, 6, 2)
    [nameless, pair] = found.pairs
    assert (pair.reviewers, pair.both, pair.agreed) == (("kim", "lee"), 5, 3)
    assert pair.kappa == pytest.approx(literal_kappa(list("xxyyz"), list("zyyyz")))
    assert nameless.reviewers == ("", "kim")
    assert math.isnan(nameless.kappa)  # nothing but x: agreement by chance cannot be told from agreement


def test_where_nobody_judged_twice_nothing_is_said():
    found = agreement([Verdict(1, "kim", "x"), Verdict(2, "lee", "x")], disputed=0)
    assert (found.judged, found.judged_twice, found.pairs) == (2, 0, [])
    assert math.isnan(found.alpha)
