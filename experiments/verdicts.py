"""What the scores say: who is ahead of whom and by how much, and what each part of SAFT brings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from experiments.measured import SCORES, Measured

OURS = ("saft", "saft_lga", "saft_gau")
ENOUGH = 3  # splits to say whether a difference is more than chance; two may differ by nothing at all


@dataclass(frozen=True)
class Difference:
    """Between two rows, paired over the seeds that both have."""

    mean: float
    spread: float  # standard deviation over the seeds; nan for one seed
    p: float  # of a paired t-test; nan for one seed
    seeds: int

    @property
    def stands_out(self) -> bool:
        """Whether the first is ahead by more than the seeds differ; few seeds cannot tell."""
        return self.seeds >= ENOUGH and self.mean > self.spread

    def __str__(self) -> str:
        sign = "+" if self.mean >= 0 else "−"
        return f"{sign}{abs(self.mean):.2f}" + (f" ± {self.spread:.2f}" if self.seeds > 1 else "")


def paired(ours: dict[int, float], theirs: dict[int, float]) -> Difference:
    """Ours minus theirs."""
    from scipy.stats import ttest_rel

    seeds = sorted(ours.keys() & theirs.keys())
    differences = np.array([ours[seed] - theirs[seed] for seed in seeds])
    if len(seeds) < 2:
        return Difference(float(differences.mean()) if len(seeds) else math.nan, math.nan, math.nan, len(seeds))
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if not spread:  # the test divides by it
        return Difference(mean, 0.0, 0.0 if mean else 1.0, len(seeds))
    p = ttest_rel([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]).pvalue
    return Difference(mean, spread, float(p), len(seeds))


def against_rivals(one: Measured) -> list[list[str]]:
    """A line per network and form of SAFT: how it stands to the best rival in each score."""
    lines = []
    for network in one.networks:
        rivals = [row.name for row in one.table.rows if row.name not in OURS and (network, row.name) in one.cells]
        for ours in OURS:
            if rivals and (network, ours) in one.cells:
                cells = [_against_best(one, network, ours, rivals, score) for score, _ in SCORES]
                lines.append([f"{network}: {one.row(ours).title}", *cells])
    return lines


def _against_best(one: Measured, network: str, ours: str, rivals: list[str], score: str) -> str:
    means = one.means(network, score)
    best = max(rivals, key=lambda row: means[row])
    found = paired(one.values(network, ours, score), one.values(network, best, score))
    if not found.seeds:
        return "–"
    return f"{found} against {one.row(best).title}" + (f", p = {found.p:.3f}" if found.seeds > 1 else "")


def what_parts_bring(one: Measured) -> list[list[str]]:
    """A line per row that leaves a part out: what is lost without it on each network, and what that means."""
    lines = []
    for row in one.table.rows:
        lost = {
            network: [
                paired(one.values(network, row.whole, score), one.values(network, row.name, score))
                for score, _ in SCORES
            ]
            for network in one.networks
        }
        known = {network: pair for network, pair in lost.items() if pair[0].seeds}
        if row.whole and known:
            cells = [" / ".join(map(str, pair)) if network in known else "–" for network, pair in lost.items()]
            lines.append([row.title, *cells, _what_it_brings(known)])
    return lines


def _what_it_brings(lost: dict[str, list[Difference]]) -> str:
    if any(pair[0].seeds < ENOUGH for pair in lost.values()):
        return "too few splits to tell"
    where = [network for network, pair in lost.items() if any(found.stands_out for found in pair)]
    if not where:
        return "brings nothing here"
    return "helps" if len(where) == len(lost) else f"helps on {', '.join(where)}"
