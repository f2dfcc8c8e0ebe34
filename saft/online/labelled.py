"""Evidence of a known interaction that has a label: without the labels of its fold (see :mod:`saft.features.folds`).

The counts and sums that a live network keeps hold all labels, so here the other interactions of its user and of its
item are looked at one by one. Only interactions of the network of training have a fold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from saft.data.network import HIDDEN
from saft.features.evidence import Evidence
from saft.features.folds import NO_FOLD
from saft.features.gathering import alike_labels, compared, cosine_summary, count_labels

if TYPE_CHECKING:
    from saft.online.live import LiveNetwork


def evidence_without_fold(
    live: LiveNetwork,
    number: int,
    codes: dict[str, int],
    log_odds: np.ndarray,
    direction: np.ndarray,
    without: int | None = None,
) -> Evidence:
    """Of the interaction with this number, and without what another one adds to it."""
    settings, features, n_classes = live.settings, live.classifier.assembly_.features, live.n_classes
    fold = int(features.folds[number])
    labels, alike, likeness, words = {}, {}, {}, {}
    for name, side in live.sides.items():
        members = side.members(codes[name])
        members = members[members != without]
        others = members[members != number]
        folds, visible = _folds_and_labels(live, others, fold)
        if settings.labels:
            labels[name] = count_labels(np.zeros_like(others), visible, 1, n_classes).astype(np.float64)
        if settings.neighbour_words and len(log_odds):
            silent = others[(visible == HIDDEN) & (folds != NO_FOLD)]
            words[name] = np.append(len(silent), features.log_odds[fold, silent].sum(axis=0, dtype=np.float64))[None]
        if settings.alike_texts and len(direction):
            near = compared(members, live.labels.values, settings.seed)
            near = near[near != number]
            cosines = direction[None] @ live.directions(near).T
            same = np.zeros_like(cosines, dtype=bool)
            likeness[name] = cosine_summary(cosines, same)
            if settings.labels:
                alike[name] = alike_labels(cosines, same, _folds_and_labels(live, near, fold)[1], n_classes)
    return Evidence(log_odds[None], _totals(live, fold, without)[None], labels, alike, likeness, words)


def _folds_and_labels(live: LiveNetwork, numbers: np.ndarray, hidden: int) -> tuple[np.ndarray, np.ndarray]:
    """The fold of each of these interactions, and its label unless its fold is the hidden one."""
    features = live.classifier.assembly_.features
    folds = np.where(numbers < len(features), features.folds[np.minimum(numbers, len(features) - 1)], NO_FOLD)
    return folds, np.where(folds == hidden, HIDDEN, live.labels.values[numbers])


def _totals(live: LiveNetwork, hidden: int, without: int | None) -> np.ndarray:
    totals = (live.label_totals - live.fold_totals[hidden]).astype(np.float64)
    if without is not None:
        label = int(_folds_and_labels(live, np.array([without]), hidden)[1][0])
        totals[[label] if label != HIDDEN else []] -= 1
    return totals
