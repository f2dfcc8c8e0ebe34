"""Champion and challenger: two models on the same rows, which is better and by how much, with a bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from saft.classifier.parts import split_of
from saft.classifier.retraining import Grown, as_known_by
from saft.data.joining import match_classes
from saft.data.network import TextualInteractionNetwork
from saft.metrics import macro_f1, micro_f1, softmax
from saft.writing import as_json, nan_to_null, replacing

if TYPE_CHECKING:
    from saft.classifier.estimator import SaftClassifier

RESAMPLES = 2000
CONFIDENCE = 0.95
JSON, PAGE = "comparison.json", "comparison.md"


@dataclass(frozen=True)
class Contest:
    """Macro-F1 of both models on the same rows; ``low`` to ``high`` holds the difference with 95 % confidence."""

    rows: int
    champion: float
    challenger: float
    champion_micro: float
    challenger_micro: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        return self.challenger - self.champion

    @property
    def verdict(self) -> str:
        if not self.rows:
            return "nothing to compare on"
        if not self.difference:
            return "equally good"
        winner = "the new model is better" if self.difference > 0 else "the old model is better"
        by = f"{winner} by {100 * abs(self.difference):.1f} points"
        return by if self.low > 0 or self.high < 0 else f"{by}, which may be chance: 0 is within the interval"


@dataclass(frozen=True)
class Comparison:
    """
    Args:
        everything: on all rows that neither model was trained on. It decides.
        held_out: on those of them that were held out from the old model.
        judged_since: on those that were judged since the old one was trained.
        started_from: what training began with, in words.
    """

    everything: Contest
    held_out: Contest
    judged_since: Contest
    new_labels: int
    new_classes: list[str]
    started_from: str

    @property
    def challenger_is_better(self) -> bool:
        return self.everything.rows > 0 and self.everything.difference > 0

    @property
    def contests(self) -> dict[str, Contest]:
        return {
            "held out before": self.held_out,
            "judged since": self.judged_since,
            "both": self.everything,
        }

    def as_dict(self) -> dict[str, Any]:
        contests = {name: nan_to_null(asdict(found)) for name, found in self.contests.items()}
        return {
            "better": "new" if self.challenger_is_better else "old", "verdict": self.everything.verdict,
            "confidence": CONFIDENCE, "resamples": RESAMPLES, "contests": contests, "new_labels": self.new_labels,
            "new_classes": self.new_classes, "started_from": self.started_from,
        }  # fmt: skip


def compare(champion: SaftClassifier, challenger: SaftClassifier, grown: Grown, started_from: str) -> Comparison:
    """Both models on the rows that neither was trained on. Both see the same labels around them, as they would when
    they are served."""
    rows = split_of(grown.parts).test
    visible = grown.network.hiding(rows)
    labels, seed = grown.network.labels[rows], challenger.settings.seed
    names = grown.network.classes.cast(pl.String)
    places = match_classes(grown.network.classes, champion.classes_.cast(pl.String))
    old = places[_predicted(champion, as_known_by(champion, visible), rows)]
    new = _predicted(challenger, visible, rows)
    since = grown.fresh[rows]

    def contest(which: np.ndarray) -> Contest:
        return contest_of(labels[which], old[which], new[which], len(names), seed)

    added = [name for name in names if name not in set(champion.classes_.cast(pl.String))]
    return Comparison(
        contest(np.ones(len(rows), bool)), contest(~since), contest(since),
        int(grown.changed.sum()), added, started_from,
    )  # fmt: skip


def contest_of(labels: np.ndarray, old: np.ndarray, new: np.ndarray, n_classes: int, seed: int) -> Contest:
    """Predicted class codes of both models → scores, and the interval of the difference."""
    both = [(macro_f1(labels, one, n_classes), micro_f1(labels, one, n_classes)) for one in (old, new)]
    low, high = interval(differences(labels, old, new, n_classes, seed))
    (macro_old, micro_old), (macro_new, micro_new) = both
    return Contest(len(labels), macro_old, macro_new, micro_old, micro_new, low, high)


def differences(
    labels: np.ndarray, old: np.ndarray, new: np.ndarray, n_classes: int, seed: int, resamples: int = RESAMPLES
) -> np.ndarray:
    """(resamples,) new minus old Macro-F1 on rows drawn with replacement: the same rows for both models, so that what
    makes a draw hard for both cancels out."""
    if not len(labels):
        return np.empty(0)
    # Rows that agree in label and both predictions are alike: how often each kind is drawn is all that counts.
    kinds, counts = np.unique(np.stack([labels, old, new], axis=1), axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(labels), counts / len(labels), size=resamples)
    return _macros(kinds[:, 0], kinds[:, 2], drawn, n_classes) - _macros(kinds[:, 0], kinds[:, 1], drawn, n_classes)


def interval(values: np.ndarray, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Percentiles that hold this share of the values; nan if there are none."""
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _macros(labels: np.ndarray, predicted: np.ndarray, drawn: np.ndarray, n_classes: int) -> np.ndarray:
    """(resamples,) Macro-F1, each kind of row counted as often as it was drawn."""
    of_label, of_prediction = (np.eye(n_classes)[codes] for codes in (labels, predicted))
    support = drawn @ of_label
    right = drawn @ (of_label * of_prediction)
    total = support + drawn @ of_prediction
    f1 = np.divide(2 * right, total, out=np.zeros_like(total), where=total > 0)
    occurs = support > 0  # as in saft.metrics.macro_f1
    return (f1 * occurs).sum(axis=1) / occurs.sum(axis=1)


def _predicted(classifier: SaftClassifier, network: TextualInteractionNetwork, rows: np.ndarray) -> np.ndarray:
    """Class codes of rows of a network that begins with the one of the model."""
    from saft.learning.neighbour_cache import fill_cache
    from saft.learning.prediction import predict_logits

    if not len(rows):
        return np.empty(0, np.int64)
    loader = classifier.assembly_.loader(network)
    fill_cache(classifier.model_, loader, np.arange(len(classifier.network_), len(network)))
    logits = predict_logits(classifier.model_, loader, rows)
    return softmax(logits, classifier.temperature_).argmax(axis=1)


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """As JSON for programs and as Markdown for people."""
    with replacing(folder / JSON) as temporary:
        temporary.write_text(as_json(nan_to_null(comparison.as_dict()), indent=2), encoding="utf-8")
    with replacing(folder / PAGE) as temporary:
        temporary.write_text(as_markdown(comparison), encoding="utf-8")


HEADINGS = ("rows", "number", "old", "new", "difference", "95 % interval")


def table_of(comparison: Comparison) -> list[Sequence[str]]:
    """A line for each set of rows, under :data:`HEADINGS`; scores are Macro-F1."""
    return [(name, *_cells(found)) for name, found in comparison.contests.items()]


def as_markdown(comparison: Comparison) -> str:
    lines = [HEADINGS, ("---", *["---:"] * (len(HEADINGS) - 1)), *table_of(comparison)]
    added = f" New classes: {', '.join(comparison.new_classes)}." if comparison.new_classes else ""
    return "\n".join([
        "# The old model and the new one", "",
        f"Result: {comparison.everything.verdict}.", "",
        *(f"| {' | '.join(line)} |" for line in lines), "",
        "Macro-F1 on rows that neither model was trained on, with the same labels visible around them. The interval is "
        f"of the difference, from {RESAMPLES:,} paired bootstrap samples.", "",
        f"The new model was given {comparison.new_labels:,} labels that the old one did not have; some of them were "
        f"held out. Training started from {comparison.started_from}.{added}", "",
    ])  # fmt: skip


def _cells(found: Contest) -> Sequence[str]:
    if not found.rows:
        return ("0", "–", "–", "–", "–")
    percents = (f"{100 * score:.1f}" for score in (found.champion, found.challenger))
    low, high = 100 * found.low, 100 * found.high
    return (f"{found.rows:,}", *percents, f"{100 * found.difference:+.1f}", f"{low:+.1f} to {high:+.1f}")
