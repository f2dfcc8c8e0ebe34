"""A trained model on one page that opens anywhere, and as the card that lies beside its files.

The page needs nothing but itself: no scripts, no fonts, no pictures from elsewhere. Texts come from strangers, so
everything is escaped, and the page forbids the browser to run or to load anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from saft.classifier.fit_report import kept_weights
from saft.metrics import macro_f1, reliability, score
from saft.settings import NO_ENCODER, PRESET_HELP, preset_of
from saft.writing import replacing

if TYPE_CHECKING:
    from jinja2 import Environment

ERRORS_SHOWN = 20
TEXT_SHOWN = 300  # characters
ID_SHOWN = 80
FEW = 10  # a bin of fewer rows says little about calibration
COMMAND = "saft predict MODEL new.csv --out predictions.csv"


@dataclass(frozen=True, eq=False)
class ReportFacts:
    """The content of the page and the card."""

    title: str  # for example "saft model trained on reviews.csv"
    classes: list[str]
    part: str  # which rows were scored: "test" or "validation"
    labels: np.ndarray  # (n,) class codes of the scored rows
    probabilities: np.ndarray  # (n, C) calibrated
    uncalibrated: np.ndarray  # (n, C) before temperature scaling
    temperature: float
    rows: pl.DataFrame  # n rows: user, item, text
    history: list[dict[str, float]]  # one per epoch; the fields of EpochRecord
    removals: list[tuple[str, float, float]]  # what the model saw, Macro-F1, Micro-F1; first: everything
    network: list[tuple[str, str]]  # figures of the network the model was trained on
    settings: dict[str, Any]
    best_epoch: int
    seconds: float  # training time
    version: str  # of saft
    start: tuple[float, float] = (math.nan, math.nan)  # validation Macro-F1 and Micro-F1 before the first step

    def __post_init__(self) -> None:
        shape = (len(self.labels), len(self.classes))
        if self.probabilities.shape != shape or self.uncalibrated.shape != shape or self.rows.height != shape[0]:
            raise ValueError(f"{shape[0]:,} labels of {shape[1]} classes need as many probabilities and rows")


@dataclass(frozen=True)
class Axis:
    """A scale of a drawing: ``low`` stands at pixel ``start``, ``high`` at pixel ``end``."""

    low: float
    high: float
    start: float
    end: float
    ticks: list[float]

    def at(self, value: float) -> float:
        return round(self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start), 1)


def write_report(path: str | Path, facts: ReportFacts) -> None:
    """The model on one HTML page without anything outside of it."""
    page = _environment(autoescape=True).get_template("report.html.jinja").render(_contents(facts))
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def write_card(path: str | Path, facts: ReportFacts) -> None:
    """The model card as a Markdown file."""
    with replacing(path) as temporary:
        temporary.write_text(model_card(facts), encoding="utf-8")


def model_card(facts: ReportFacts) -> str:
    """What the model is for, how good it is and where its limits are, in Markdown."""
    # Markdown has no autoescape: `finalize` takes its place, for every value that the template shows.
    environment = _environment(autoescape=False, finalize=markdown)
    return environment.get_template("model_card.md.jinja").render(_contents(facts))


def _environment(**options: Any) -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(  # noqa: S701 (both callers say how they escape)
        loader=PackageLoader("saft.classifier"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
    environment.filters |= {"percent": percent, "points": points, "short": shorten}
    return environment


def confident_errors(facts: ReportFacts, most: int = ERRORS_SHOWN) -> list[dict[str, Any]]:
    """The wrong predictions the model was surest of, surest first: where labels or model deserve a look."""
    predictions = facts.probabilities.argmax(axis=1)
    wrong = np.flatnonzero(predictions != facts.labels)
    surest = wrong[np.argsort(-facts.probabilities[wrong].max(axis=1), kind="stable")][:most]
    return [
        {
            "truth": facts.classes[facts.labels[row]],
            "prediction": facts.classes[predictions[row]],
            "confidence": float(facts.probabilities[row, predictions[row]]),
            "of_truth": float(facts.probabilities[row, facts.labels[row]]),
            "text": shorten(facts.rows["text"][row], TEXT_SHOWN),
            "user": shorten(facts.rows["user"][row], ID_SHOWN) or "–",
            "item": shorten(facts.rows["item"][row], ID_SHOWN) or "–",
        }
        for row in surest.tolist()
    ]


def shorten(text: object, most: int) -> str:
    """The text on one line, cut to ``most`` characters."""
    line = " ".join(str("" if text is None else text).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def percent(share: float) -> str:
    return f"{100 * share:.1f}%" if math.isfinite(share) else "–"


def points(difference: float) -> str:
    """A difference of shares in percentage points, with its sign: ``−4.2``."""
    rounded = round(100 * difference, 1) + 0.0  # no "−0.0"
    return f"{rounded:+.1f}".replace("-", "−") if rounded else "±0.0"


def markdown(value: object) -> str:
    """The value as Markdown that shows it literally, on one line: also in a table, and if it holds HTML."""
    line = " ".join(str(value).split())
    line = re.sub(r"([\\`*\[\]<>|])", r"\\\1", line)
    return re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\_", line)  # inside of a word an underscore means nothing


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _contents(facts: ReportFacts) -> dict[str, Any]:
    """What the templates show, computed."""
    return {
        "facts": facts,
        "n": len(facts.labels),
        "after": score(facts.labels, facts.probabilities),
        "before": score(facts.labels, facts.uncalibrated),
        "commonest": _commonest(facts),
        "errors": confident_errors(facts),
        "wrong": int((facts.probabilities.argmax(axis=1) != facts.labels).sum()),
        "curves": _curves(facts),
        "calibration": [
            ("Before", _calibration(facts.labels, facts.uncalibrated)),
            ("After", _calibration(facts.labels, facts.probabilities)),
        ],
        "removals": _removals(facts),
        "epochs": len(facts.history),
        "kept": kept_weights(facts.best_epoch, len(facts.history), _trains_encoder(facts)),
        "preset": preset_of(facts.settings),
        "preset_help": PRESET_HELP[preset_of(facts.settings)],
        "has_encoder": facts.settings.get("encoder") != NO_ENCODER,
        "trains_encoder": _trains_encoder(facts),
        "seconds": duration(facts.seconds),
        "origin": _origin(facts),
        "sureness": _sureness(facts.temperature),
        "few": FEW,
        "command": COMMAND,
    }


def _commonest(facts: ReportFacts) -> tuple[str, float] | None:
    """The most frequent class, and the Macro-F1 of always answering it: what a score has to be compared with."""
    if not len(facts.labels):
        return None
    code = int(np.bincount(facts.labels).argmax())
    return facts.classes[code], macro_f1(facts.labels, np.full_like(facts.labels, code), len(facts.classes))


def _trains_encoder(facts: ReportFacts) -> bool:
    return facts.settings.get("encoder") != NO_ENCODER and facts.settings.get("trained_layers") != 0


def _origin(facts: ReportFacts) -> str:
    trains = _trains_encoder(facts)
    if facts.part == "validation":
        chosen = "the best epoch and the temperature" if trains else "the temperature"
        return (
            f"The validation rows also chose {chosen}, so expect somewhat lower scores on rows the model has never met."
        )
    chosen = "the epoch or the temperature" if trains else "the temperature"
    return f"The labels of the {facts.part} rows took no part in training, nor in choosing {chosen}."


def _sureness(temperature: float) -> str:
    if 0.95 <= temperature <= 1.05:
        return f"The temperature {temperature:.2f} changes almost nothing: the model was about as sure as it was right."
    was = "surer than it was right" if temperature > 1 else "less sure than it was right"
    return (
        f"On validation rows the model was {was}; dividing its logits by the temperature {temperature:.2f} corrects it."
    )


def _removals(facts: ReportFacts) -> list[dict[str, Any]]:
    """Scores of what the model saw, and the points they differ from having seen everything; none if not measured."""
    if not facts.removals or not np.isfinite([entry[1:] for entry in facts.removals]).all():
        return []
    _, all_macro, all_micro = facts.removals[0]
    return [
        {"name": name, "macro": macro, "micro": micro, "d_macro": macro - all_macro, "d_micro": micro - all_micro}
        for name, macro, micro in facts.removals
    ]


def _curves(facts: ReportFacts) -> list[dict[str, Any]]:
    """Drawings of what changed from epoch to epoch, without those that have nothing to draw."""
    if not _trains_encoder(facts):
        return []
    drawings = [
        {"title": "Training loss", "shares": False} | _lines(facts, {"loss": "loss"}),
        {"title": "Validation scores", "shares": True}
        | _lines(facts, {"Macro-F1": "valid_macro_f1", "Micro-F1": "valid_micro_f1"}),
    ]
    return [drawing for drawing in drawings if drawing["lines"]]


def _lines(facts: ReportFacts, keys: dict[str, str]) -> dict[str, Any]:
    lines = {}
    start = {"epoch": 0, "valid_macro_f1": facts.start[0], "valid_micro_f1": facts.start[1]}
    history = [start, *facts.history]
    for name, key in keys.items():
        found = [(row["epoch"], row[key]) for row in history if math.isfinite(row.get(key, math.nan))]
        if found:
            lines[name] = found
    epochs = [epoch for line in lines.values() for epoch, _ in line]
    values = [value for line in lines.values() for _, value in line]
    return {
        "lines": lines,
        "x": _axis(epochs, 52, 424, whole=True) if lines else None,
        "y": _axis(values, 196, 16) if lines else None,
        "best": facts.best_epoch if facts.best_epoch in epochs else None,
    }


def _axis(values: Sequence[float], start: float, end: float, whole: bool = False) -> Axis:
    """A scale that holds the values, with ticks at round numbers; a scale of whole numbers does not go beyond them."""
    low, high = min(values), max(values)
    if low == high:
        low, high = (low - 1, high + 1) if whole else (max(low - 0.05, 0.0), high + 0.05)
    rough = (high - low) / (6 if whole else 4)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
    step = max(step, 1.0) if whole else step
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [round(place * step, 10) for place in range(first, last + 1)]
    if whole:
        return Axis(low, high, start, end, [tick for tick in ticks if low <= tick <= high])
    return Axis(ticks[0], ticks[-1], start, end, ticks)


def _calibration(labels: np.ndarray, probabilities: np.ndarray) -> list[dict[str, Any]]:
    """The bins that hold rows: where they are, how sure, how often right, how many, and their share of the largest."""
    found = reliability(labels, probabilities)
    largest = max(int(found.count.max()), 1)
    return [
        {
            "place": place,
            "confidence": float(found.confidence[place]),
            "accuracy": float(found.accuracy[place]),
            "count": int(found.count[place]),
            "height": int(found.count[place]) / largest,
            "few": bool(found.count[place] < FEW),
        }
        for place in np.flatnonzero(found.count).tolist()
    ]
