"""How far reviewers agree: Cohen's kappa of two of them, and Krippendorff's alpha of all."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any


@dataclass(frozen=True)
class Pair:
    reviewers: tuple[str, str]
    both: int  # interactions that both have judged
    agreed: int
    kappa: float  # nan where chance cannot be told from agreement: both always gave one and the same class


@dataclass(frozen=True)
class Agreement:
    judged: int  # interactions with a verdict
    judged_twice: int  # by different reviewers
    disputed: int
    alpha: float
    pairs: list[Pair]


def agreement(standing: Iterable[Any], disputed: int) -> Agreement:
    """Of verdicts in order (interaction, reviewer, label); each reviewer's last one on an interaction counts."""
    opinions: dict[int, dict[str, str]] = {}
    for verdict in standing:
        opinions.setdefault(verdict.interaction, {})[verdict.reviewer or ""] = verdict.label
    twice = sum(len(given) > 1 for given in opinions.values())
    return Agreement(len(opinions), twice, disputed, krippendorff_alpha(opinions.values()), _pairs(opinions.values()))


def krippendorff_alpha(units: Iterable[Mapping[str, str]]) -> float:
    """1 − observed / expected disagreement, for nominal values: reviewer → label for every unit (Krippendorff 2011).

    Units with one value say nothing. nan if there are none with more, or if all values are the same.
    """
    values = [Counter(unit.values()) for unit in units if len(unit) > 1]
    totals: Counter[str] = sum(values, Counter())
    n = totals.total()
    # Pairs of unlike values within a unit, each unit weighed by 1 / (its values − 1); and among all values.
    observed = sum(_unlike(counts) / (counts.total() - 1) for counts in values)
    expected = _unlike(totals) / (n - 1) if n > 1 else 0.0
    return 1 - observed / expected if expected else math.nan


def _unlike(counts: Counter[str]) -> int:
    """Ordered pairs of different values."""
    return counts.total() ** 2 - sum(count**2 for count in counts.values())


def _pairs(units: Iterable[Mapping[str, str]]) -> list[Pair]:
    judged: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for unit in units:
        for one, other in combinations(sorted(unit), 2):
            judged.setdefault((one, other), []).append((unit[one], unit[other]))
    return [_pair(names, labels) for names, labels in sorted(judged.items())]


def _pair(names: tuple[str, str], labels: list[tuple[str, str]]) -> Pair:
    from sklearn.metrics import cohen_kappa_score

    ours, theirs = zip(*labels, strict=True)
    kappa = math.nan if len({*ours, *theirs}) == 1 else float(cohen_kappa_score(ours, theirs))
    return Pair(names, len(labels), sum(one == other for one, other in labels), kappa)
