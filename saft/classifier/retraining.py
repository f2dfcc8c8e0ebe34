"""Retraining: a model's table, what came in since, and verdicts → a new model; what was held out stays held out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from saft.classifier.fitting import GoingOn
from saft.classifier.parts import NAMES, parts_of, split_of
from saft.data.joining import join, match_classes
from saft.data.network import HIDDEN, TextualInteractionNetwork
from saft.data.splits import split
from saft.errors import InputError

if TYPE_CHECKING:
    from saft.classifier.estimator import SaftClassifier
    from saft.learning.callbacks import Callback

HELD_OUT = 0.2  # of the rows that were judged since: they score both models
EPOCHS = 2  # at most, where the weights are those of the model before
REPLAYED = 4  # rows that the model knows for each new one, so that it does not forget them …
LEAST_REPLAYED = 500  # … and at least so many


@dataclass(frozen=True)
class Grown:
    """A model's network and what was added to it."""

    network: TextualInteractionNetwork  # with the labels of all parts
    parts: pl.DataFrame  # see saft.classifier.parts
    changed: np.ndarray  # mask: rows that have another label than for the model, or no longer one
    fresh: np.ndarray  # mask: rows that had no label when it was trained
    knew_parts: bool  # whether the model's folder said what its rows were used for


def grow(
    champion: SaftClassifier,
    parts: pl.DataFrame | None,
    new: TextualInteractionNetwork,
    said: pl.DataFrame,
    numbers: np.ndarray,
) -> Grown:
    """The network of a model with new rows, and with what was said of rows, old and new, since.

    The parts of the model's rows stay as they are. Of rows that had no label before, a share is held out, class by
    class and by the model's seed; some are for validation if the model had such rows.

    Args:
        parts: of the model's rows, if its folder says.
        new: rows to be added; their labels are not used.
        said: a row per row that something was said of: ``label`` (null if it has none any more), ``reviewer``,
            ``decided``.
        numbers: which row of the grown network each of these is.
    """
    known = _likely_parts(champion) if parts is None else parts
    nothing = pl.DataFrame({name: [None] * len(new) for name in known.columns}, schema=known.schema)
    before = pl.concat([known, nothing])
    labels, part = before["label"].to_list(), before["part"].to_list()
    reviewer, decided = before["reviewer"].to_list(), before["decided"].to_list()
    for number, label, by, at in zip(numbers.tolist(), *said.select("label", "reviewer", "decided"), strict=True):
        labels[number], reviewer[number], decided[number] = label, by, at
        part[number] = None if label is None else part[number]
    network = _labelled(join(champion.network_, new) if len(new) else champion.network_, labels)
    fresh = np.array([label is not None and one is None for label, one in zip(labels, part, strict=True)], dtype=bool)
    for number, name in _drawn(network, fresh, champion, "valid" in known["part"]):
        part[number] = name
    text = network.label_values().cast(pl.String)
    grown = {"part": part, "label": text, "reviewer": reviewer, "decided": decided}
    changed = text.ne_missing(before["label"]).to_numpy()
    return Grown(network, pl.DataFrame(grown, schema=known.schema), changed, fresh, parts is not None)


def _likely_parts(champion: SaftClassifier) -> pl.DataFrame:
    """Where they are not known: as ``fit`` divides labelled rows if it is not told how. Nothing is held out."""
    network, settings = champion.network_, champion.settings
    fractions = (1 - settings.valid_share, settings.valid_share, 0.0)
    return parts_of(network, split(network, fractions=fractions, seed=settings.seed))


def retrain(
    champion: SaftClassifier, grown: Grown, from_scratch: bool = False, callbacks: Iterable[Callback] = ()
) -> SaftClassifier:
    """A new model with the settings of the old one. Training goes on from the old weights, unless ``from_scratch``."""
    from saft.classifier.estimator import SaftClassifier

    parts = split_of(grown.parts)
    going_on = None
    if not from_scratch and goes_on(champion, grown):
        rows = _learnt_from(parts.train, grown.changed, champion.settings.seed)
        going_on = GoingOn(champion.model_, rows, min(EPOCHS, champion.settings.epochs))
    return SaftClassifier(**champion.settings.as_dict()).fit(
        grown.network.hiding(parts.test), train=parts.train, valid=parts.valid, callbacks=callbacks, going_on=going_on
    )


def goes_on(champion: SaftClassifier, grown: Grown) -> bool:
    """Whether training can go on from the old weights.

    Not if validation rows may have been learnt from: then they would say that every epoch is good.
    """
    return champion.settings.trains_encoder and grown.knew_parts


def as_known_by(champion: SaftClassifier, network: TextualInteractionNetwork) -> TextualInteractionNetwork:
    """The same network with the classes of this model; rows of other classes have no label."""
    codes = match_classes(champion.classes_, network.classes.cast(pl.String))
    recode = np.append(np.where(codes < 0, HIDDEN, codes), HIDDEN)  # index -1: no label
    labels = recode[np.where(network.is_labelled, network.labels, -1)].astype(np.int32)
    return replace(network, labels=labels, classes=champion.classes_)


def _learnt_from(train: np.ndarray, changed: np.ndarray, seed: int) -> np.ndarray:
    """All rows with new labels, and some of the others."""
    new, old = train[changed[train]], train[~changed[train]]
    count = min(len(old), max(LEAST_REPLAYED, REPLAYED * len(new)))
    replayed = np.random.default_rng([seed, 1]).choice(old, count, replace=False)
    return np.sort(np.concatenate([new, replayed]))


def _drawn(
    network: TextualInteractionNetwork, fresh: np.ndarray, champion: SaftClassifier, validates: bool
) -> list[tuple[int, str]]:
    """(row, part) of rows that had no part yet."""
    if not fresh.any():
        return []
    share = min(champion.settings.valid_share, 1 - HELD_OUT - 0.1) if validates else 0.0
    fractions = (1 - HELD_OUT - share, share, HELD_OUT)
    drawn = split(network.showing(fresh), fractions=fractions, seed=champion.settings.seed)
    return [(number, name) for name in NAMES for number in getattr(drawn, name).tolist()]


def _labelled(network: TextualInteractionNetwork, labels: list[str | None]) -> TextualInteractionNetwork:
    """The network with these labels; those that are of none of its classes are new classes."""
    given = pl.Series(labels, dtype=pl.String)
    some = given.is_not_null().to_numpy()
    if not some.any():
        raise InputError("No interaction has a label: there is nothing to learn from.")
    unknown = given.filter(pl.Series(some & (match_classes(network.classes, given) < 0))).unique()
    classes = _more_classes(network.classes, unknown)
    codes = np.where(some, match_classes(classes, given), HIDDEN).astype(np.int32)
    return replace(network, labels=codes, classes=classes, withheld=network.withheld_rows & ~some)


def _more_classes(classes: pl.Series, added: pl.Series) -> pl.Series:
    """Both, sorted; of the same type as before if the added ones can be."""
    if not len(added):
        return classes
    cast = added.cast(classes.dtype, strict=False) if classes.dtype.is_integer() else added
    if cast.dtype != classes.dtype or (cast.cast(pl.String) != added).fill_null(True).any():
        classes, cast = classes.cast(pl.String), added
    return pl.concat([classes, cast.alias(classes.name)]).sort()
