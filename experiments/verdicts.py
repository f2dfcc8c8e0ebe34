"""Comparisons of scores: how far SAFT is ahead of the best rival, and what each part of SAFT brings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from experiments.measured import SCORES, Measured

OURS = ("saft", "saft_lga", "saft_gau")
SIMPLE = "ngrams_labels"  # what takes seconds and no encoder
ENOUGH = 3  # splits for a verdict; two differences may be equal by chance, and p is then zero
CHANCE = 0.05  # a part helps if p of the one-sided test is below this


@dataclass(frozen=True)
class Difference:
    """Between two rows, paired over the seeds that both have."""

    each: tuple[float, ...]  # the first minus the second, seed by seed

    @property
    def seeds(self) -> int:
        return len(self.each)

    @property
    def mean(self) -> float:
        return float(np.mean(self.each)) if self.each else math.nan

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds; nan for one seed."""
        return float(np.std(self.each, ddof=1)) if self.seeds > 1 else math.nan

    def p(self, alternative: str = "two-sided") -> float:
        """Of a paired t-test; nan for one seed. ``greater`` tests whether the first is ahead."""
        from scipy.stats import ttest_1samp

        if self.seeds > 1 and not self.spread:  # the test divides by it
            return 0.0 if self.mean > 0 or (self.mean < 0 and alternative == "two-sided") else 1.0
        return float(ttest_1samp(self.each, 0, alternative=alternative).pvalue) if self.seeds > 1 else math.nan

    @property
    def helps(self) -> bool:
        return self.p("greater") < CHANCE

    def __str__(self) -> str:
        sign = "+" if self.mean >= 0 else "−"
        return f"{sign}{abs(self.mean):.2f}" + (f" ± {self.spread:.2f}" if self.seeds > 1 else "")


def paired(ours: dict[int, float], theirs: dict[int, float]) -> Difference:
    """Ours minus theirs."""
    return Difference(tuple(ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())))


def against_rivals(one: Measured) -> list[list[str]]:
    """A line per network and form of SAFT: its difference from the best rival in each score."""
    lines = []
    for network in one.networks:
        for ours in OURS:
            if rivals_of(one, network) and (network, ours) in one.cells:
                cells = [_described(one, against_best(one, network, ours, score)) for score, _ in SCORES]
                lines.append([f"{network}: {one.row(ours).title}", *cells])
    return lines


def over_all_cases(one: Measured) -> list[list[str]]:
    """A line per share of labelled rows, and one for all: see :data:`experiments.report.ALTOGETHER`."""
    shares = sorted({network.labelled for network in one.table.networks if network.labelled is not None}, reverse=True)
    networks = {
        f"{share:.0%}": [case.title for case in one.table.networks if case.labelled == share] for share in shares
    }
    networks["all"] = [title for titles in networks.values() for title in titles]
    lines = []
    for share, titles in networks.items():
        leads = {score: [against_best(one, title, "saft", score)[1] for title in titles] for score, _ in SCORES}
        known = [[lead.mean for lead in found if lead.seeds] for found in leads.values()]
        if all(known):
            simple = [paired(*(one.values(title, row, "macro_f1") for row in ("saft", SIMPLE))) for title in titles]
            over_simple = [lead.mean for lead in simple if lead.seeds]
            cells = [f"{sum(lead > 0 for lead in found)} of {len(found)}" for found in known]
            behind = " / ".join(f"{max(-min(found), 0.0):.2f}" for found in known)
            lines.append([share, *cells, behind, f"{np.mean(over_simple):+.2f}" if over_simple else "–"])
    return lines


def rivals_of(one: Measured, network: str) -> list[str]:
    """Rows with a result on this network that are no form of SAFT."""
    return [
        row.name for row in one.table.rows if not row.method.startswith("saft") and (network, row.name) in one.cells
    ]


def against_best(one: Measured, network: str, ours: str, score: str) -> tuple[str, Difference]:
    """The rival that ours is least ahead of, on the splits that both have, and by how much; nobody if there is none."""
    values = one.values(network, ours, score)
    found = {rival: paired(values, one.values(network, rival, score)) for rival in rivals_of(one, network)}
    known = {rival: difference for rival, difference in found.items() if difference.seeds}
    if not known:
        return "", Difference(())
    return min(known.items(), key=lambda pair: pair[1].mean)


def _described(one: Measured, found: tuple[str, Difference]) -> str:
    rival, difference = found
    if not difference.seeds:
        return "–"
    chance = f", p = {difference.p():.3f}" if difference.seeds > 1 else ""
    return f"{difference} against {one.row(rival).title}{chance}"


def what_parts_bring(one: Measured) -> list[list[str]]:
    """A line per row that leaves a part out: what is lost without it on each network, and the verdict."""
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
    """By Macro-F1, the score of early stopping; testing both scores would make a false positive likelier."""
    macro = {network: pair[0] for network, pair in lost.items()}
    if any(found.seeds < ENOUGH for found in macro.values()):
        return "too few splits to tell"
    where = [network for network, found in macro.items() if found.helps]
    if where:
        return "helps" if len(where) == len(macro) else f"helps on {', '.join(where)}"
    together = Difference(tuple(value for found in macro.values() for value in found.each))
    return "helps, all networks taken together" if together.helps else "brings nothing that chance does not"
