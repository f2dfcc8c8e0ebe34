"""What was measured, beside what was published: docs/results.md, its figures, and the table of the README.

Nothing here is typed by hand: everything follows from the tables' plans and the JSON lines of their runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.figures import draw
from experiments.measured import SCORES, Measured, measured
from experiments.results import FOLDER, Result
from experiments.tables import Network, Row, Table, names, read_table
from experiments.verdicts import against_rivals, over_all_cases, what_parts_bring
from saft.errors import InputError
from saft.writing import replacing

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- results: written by `python -m experiments report` -->", "<!-- end of results -->"
AGAINST = (
    "SAFT against the best rival of each column: points ahead (+) or behind (−), mean ± standard deviation over "
    "splits, and p of a paired t-test where there are several."
)
ALTOGETHER = (
    "The same by share of labelled rows: in how many cases SAFT is ahead of all rivals, how far it is behind where it "
    "is furthest (Macro-F1 / Micro-F1), and by how many points of Macro-F1 it leads N-grams+LABELS in the mean."
)
BROUGHT = (
    "What each part brings: points that are lost without it, Macro-F1 / Micro-F1, mean ± standard deviation over "
    "splits. A part helps where chance alone would bring as much Macro-F1 in less than one of twenty tries (one-sided "
    "paired t-test over the splits of a network, else over those of all networks)."
)
CASES = "cases"  # the table that the README shows


def write(root: Path = ROOT, folder: Path = FOLDER) -> list[Path]:
    """The report, its figures and the README's table; the paths that were written."""
    tables = sorted(map(read_table, names()), key=lambda table: table.place)
    all_measured = [measured(table, folder) for table in tables]
    pictures = root / "docs" / "results"
    paths, parts = [], [_preface(all_measured)]
    for one in all_measured:
        picture = pictures / f"{one.table.name}.png"
        drawn = draw(one, picture)
        paths += [picture] if drawn else []
        parts.append(section(one, f"results/{picture.name}" if drawn else None))
    report = root / "docs" / "results.md"
    _replace(report, "\n\n".join(parts) + "\n")
    readme = root / "README.md"
    _replace(readme, between_marks(readme.read_text(encoding="utf-8"), readme_table(all_measured), readme.name))
    return [report, *paths, readme]


def section(one: Measured, picture: str | None) -> str:
    """A table of the report."""
    table = one.table
    parts = [f"## {table.title}", " ".join([f"The paper: {table.paper}.", table.remark]).strip()]
    if one.networks:
        parts.append(score_table(one) if table.kind != "time" else time_table(one))
    else:
        parts.append("Not run here yet.")
    if picture:
        parts.append(f"![{table.title}]({picture})")
    if compared := against_rivals(one) if any(row.name == "saft" and not row.results for row in table.rows) else []:
        parts.append(f"{AGAINST}\n\n{markdown(['', *(name for _, name in SCORES)], compared)}")
    if altogether := over_all_cases(one) if compared else []:
        heads = ["labelled", *(f"ahead in {name}" for _, name in SCORES), "furthest behind", "over N-grams+LABELS"]
        parts.append(f"{ALTOGETHER}\n\n{markdown(heads, altogether)}")
    if brought := what_parts_bring(one):
        parts.append(f"{BROUGHT}\n\n{markdown(['', *one.networks, ''], brought)}")
    if table.published:
        parts.append(published_table(table))
    parts += [f"Failed: {result['method']} on {result['dataset']}: {result['reason']}" for result in _once(one.failed)]
    if one.outdated:
        parts.append(f"{one.outdated} results with other settings than the table has now are not shown.")
    return "\n\n".join(parts)


def score_table(one: Measured) -> str:
    """Markdown: a line per row, mean ± standard deviation over seeds; the best of each column is bold."""
    heads = [f"{network} {name}" for network in one.networks for _, name in SCORES]
    best = {
        (network, score): max(one.means(network, score).values(), default=math.nan)
        for network in one.networks
        for score, _ in SCORES
    }
    lines = []
    for row in one.table.rows:
        cells = []
        for network in one.networks:
            for score, _ in SCORES:
                values = one.shared_values(network, row.name, score)
                cells.append(_cell(values, bool(values) and np.mean(values) == best[network, score]))
        if any(cell != "–" for cell in cells):
            lines.append([row.title, *cells])
    seeds = one.counts()
    note = "One split" if seeds == [1] else f"Mean ± standard deviation over {_range(seeds)} splits"
    return f"{markdown(['', *heads], lines)}\n\n{note}, per cent."


def time_table(one: Measured) -> str:
    lines = []
    for row in one.table.rows:
        values = [list(one.values(network, row.name, "seconds_per_epoch").values()) for network in one.networks]
        lines.append([row.title, *(f"{np.mean(cell):.0f} s" if cell else "–" for cell in values)])
    return markdown(["seconds per epoch", *one.networks], lines)


def published_table(table: Table) -> str:
    """The paper's figures, on the paper's networks, in the shape of what was measured."""
    unit = "minutes per epoch on an A100" if table.kind == "time" else " / ".join(name for _, name in SCORES)
    lines = []
    for row in table.rows:
        cells = [" / ".join(map(_printed, rows.get(row.name, ()))) or "–" for rows in table.published.values()]
        if any(cell != "–" for cell in cells):
            lines.append([row.title, *cells])
    return f"Published, {unit}:\n\n{markdown(['', *table.published], lines)}"


def readme_table(all_measured: Sequence[Measured]) -> str:
    """Macro-F1 of the cases: a column per network, and in each cell one figure per share of labelled rows."""
    cases = next((one for one in all_measured if one.table.name == CASES), None)
    if cases is None or not cases.networks:
        return "No results yet."
    measured_ones = [network for network in cases.table.networks if network.title in cases.networks]
    columns: dict[str, list[Network]] = {}
    for network in measured_ones:
        columns.setdefault(network.name, []).append(network)
    best = {one.title: max(cases.means(one.title, "macro_f1").values()) for one in measured_ones}
    lines = []
    for row in cases.table.rows:
        cells = [" / ".join(_short(cases, one.title, row, best) for one in ones) for ones in columns.values()]
        lines.append([row.title, *cells, _mean_of_cases(cases, row)])
    body = markdown(["Macro-F1", *columns, "mean"], lines)
    shares = ", ".join(f"{one.labelled:.0%}" for one in next(iter(columns.values())) if one.labelled is not None)
    counts = cases.counts()
    splits = "one split" if counts == [1] else f"{_range(counts)} splits"
    return (
        f"{body}\n\nWith {shares} of the rows labelled for training, mean of {splits}; – stands "
        "where nothing was run yet. Micro-F1, spreads, other tables and what was published: "
        "[docs/results.md](docs/results.md)."
    )


def _mean_of_cases(one: Measured, row: Row) -> str:
    """Over all cases, for rows that have them all."""
    means = [one.means(network, "macro_f1").get(row.name, math.nan) for network in one.networks]
    return "–" if np.isnan(means).any() else f"{np.mean(means):.1f}"


def _short(one: Measured, network: str, row: Row, best: Mapping[str, float]) -> str:
    values = one.shared_values(network, row.name, "macro_f1")
    if not values:
        return "–"
    text = f"{np.mean(values):.1f}"
    return f"**{text}**" if np.mean(values) == best[network] else text


def between_marks(text: str, new: str, name: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"{name} has no place for the results: a line {BEGIN} and a line {END}.")
    return f"{before}{begin}\n\n{new}\n\n{end}{after}"


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rule = ["---"] + ["---:"] * (len(heads) - 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *lines))


def _preface(all_measured: Sequence[Measured]) -> str:
    results = [result for one in all_measured for runs in one.cells.values() for result in runs.values()]
    torch = ", ".join(sorted({result["versions"]["torch"] for result in results}))
    known = f"{len(results)} results, with torch {torch}." if results else "There are no results yet."
    return (
        "# Results\n\nWritten by `python -m experiments report` from `experiments/results/`; do not edit. How methods "
        f"are compared, and what was tried: [experiments.md](experiments.md).\n\n{known}"
    )


def _cell(values: Sequence[float], best: bool) -> str:
    if not values:
        return "–"
    text = f"{np.mean(values):.2f}" + (f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else "")
    return f"**{text}**" if best else text


def _printed(value: float | str) -> str:
    """As the paper has it."""
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.2f}"
    return str(value)


def _range(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _once(failed: Sequence[Result]) -> list[Result]:
    """One failure for each row and reason."""
    return list({(result["method"], result["reason"]): result for result in failed}.values())


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
