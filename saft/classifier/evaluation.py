"""Evaluation of a trained model for its report: scores on held-out rows, and what they rest on."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import polars as pl

import saft
from saft.classifier.estimator import SaftClassifier
from saft.classifier.report import ReportFacts
from saft.data.network import HIDDEN, TextualInteractionNetwork
from saft.features.arrays import Features
from saft.features.evidence import Evidence
from saft.features.tokens import tokenise
from saft.learning.frozen_layers import FrozenStates
from saft.learning.loader import BatchLoader
from saft.learning.prediction import predict_logits
from saft.metrics import score, softmax

MOST_REMOVALS = 2_000  # rows that parts are removed from: enough to see what matters, on a large network


def report_facts(classifier: SaftClassifier, rows: TextualInteractionNetwork, part: str, title: str) -> ReportFacts:
    """The content of report and card; ``rows`` are labelled, ``part`` names what they were held out for."""
    report = classifier.report()
    loader, numbers = classifier.loader_for(rows)
    logits = predict_logits(classifier.model_, loader, numbers)
    frame = rows.to_frame()
    names = {role: rows.column_names.get(role, role) for role in ("user", "item", "text")}
    some = np.random.default_rng(0).permutation(len(rows))[:MOST_REMOVALS]
    return ReportFacts(
        title=title,
        classes=classifier.classes_.cast(pl.String).to_list(),
        part=part,
        labels=classifier.label_codes(rows),
        probabilities=softmax(logits, classifier.temperature_),
        uncalibrated=softmax(logits),
        temperature=classifier.temperature_,
        rows=frame.select(**{role: pl.col(name) for role, name in names.items()}),
        history=[asdict(record) for record in report.history],
        start=(report.start_macro_f1, report.start_micro_f1),
        removals=what_removing_costs(classifier, rows.take(np.sort(some))) if len(rows) else [],
        network=[(name, figure) for name, figure in classifier.network_.summary().rows()],
        settings=classifier.settings.as_dict(),
        best_epoch=report.best_epoch,
        seconds=report.seconds,
        version=saft.__version__,
    )


def what_removing_costs(classifier: SaftClassifier, rows: TextualInteractionNetwork) -> list[tuple[str, float, float]]:
    """(what the model read, Macro-F1, Micro-F1) on these labelled rows; first with everything.

    Parts are blanked and the rows predicted again; the model is not trained again. So this says what its predictions
    rest on, not how well another model would do without. Messages are all that the texts of neighbours tell: what
    linear models, trees and likeness make of them, and what is passed between interactions inside of the layers.
    """
    labels = classifier.label_codes(rows)
    whole, numbers = classifier.loader_for(rows)
    results = []
    for name, loader in {"everything": whole, **_variants(classifier, whole, numbers)}.items():
        logits = predict_logits(classifier.model_, loader, numbers)
        scores = score(labels, softmax(logits, classifier.temperature_))
        results.append((name, scores.macro_f1, scores.micro_f1))
    return results


def _variants(classifier: SaftClassifier, whole: BatchLoader, rows: np.ndarray) -> dict[str, BatchLoader]:
    """Loaders in which these rows lack something that the model reads."""
    settings, features = whole.settings, whole.features

    def loader(
        features: Features = features,
        evidence: Evidence = whole.evidence,
        labels: np.ndarray = whole.labels,
        isolated: bool = False,
    ) -> BatchLoader:
        # What the frozen layers say of the texts is known, unless the texts are others.
        known = whole.texts if isinstance(whole.texts, FrozenStates) else None
        frozen = known if features.tokens is whole.features.tokens else None
        return BatchLoader(
            features,
            labels,
            whole.n_classes,
            settings,
            whole.cache,
            isolated=isolated,
            evidence=evidence,
            frozen=frozen,
            trees=whole.trees,
        )

    variants, evidence, hidden = {}, whole.evidence, np.full_like(whole.labels, HIDDEN)
    no_structure = {role: _blanked(vectors, rows) for role, vectors in features.structure.items()}
    if settings.words:
        blank = features
        if classifier.tokenizer_ is not None:
            nothing = tokenise(pl.Series([""]), classifier.tokenizer_, settings.max_length)
            blank = replace(features, tokens=features.tokens.with_text(rows, nothing.flat))
        variants["without text"] = loader(blank, evidence.without_text())
        if settings.ngrams:
            variants["without n-grams"] = loader(evidence=evidence.without_reader(slice(whole.n_classes)))
    if features.structure:
        variants["without structure"] = loader(replace(features, structure=no_structure), evidence.without_degrees())
    hears_texts = settings.passes_messages or evidence.around or evidence.words or evidence.likeness
    if hears_texts:
        variants["without messages"] = loader(evidence=evidence.without_neighbours_texts(), isolated=True)
    if settings.passes_messages:
        variants["without messages in layers"] = loader(isolated=True)
    if settings.labels:
        variants["without known labels"] = loader(labels=hidden, evidence=evidence.without_labels())
    if settings.fuses or evidence.labels or hears_texts:
        alone = evidence.without_labels().without_neighbours_texts().without_degrees()
        variants["without the graph"] = loader(replace(features, structure=no_structure), alone, hidden, isolated=True)
    return variants


def _blanked(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A copy with zeros in these rows."""
    blank = values.copy()
    blank[rows] = 0
    return blank
