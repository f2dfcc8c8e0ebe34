"""Correct and Smooth: a classifier of texts, its errors spread over the graph, then its answers.

Huang, He, Singh, Lim and Benson: Combining Label Propagation and Simple Models Out-performs Graph Neural Networks. ICLR
2021.

    base:     Z = softmax(regression on the text's n-grams, sentence vector and style),   of training rows out of fold
    correct:  E₀ = Y − Z on training rows, 0 elsewhere;   E ← (1 − a) E₀ + a S E
              auto:   Z + σ E / ‖E‖₁ row by row,   σ the mean of ‖E₀‖₁ over training rows
              fixed:  E is set back to E₀ on training rows after every round;   Z + s E
    smooth:   G₀ = Y on training rows, corrected elsewhere;   G ← (1 − b) G₀ + b S G

S = D^(−½) A D^(−½), A the adjacency of interactions that share a user or an item, without loops (``_line_graph.py``);
up to 50 rounds. A training row is a source for others. Where it is predicted itself, its fold counts as unlabelled in
both steps, so that its own label is not in its own correction.

a, b, s, auto or fixed, and whether to correct and to smooth at all, are those with the best Macro-F1 on validation rows
and training rows, these predicted as just said: where labels are few, validation rows alone are too few to choose by.
Differs from the original, whose residuals are those of a fit to the training rows, which are smaller than the errors on
other rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
import torch
from torch import Tensor

from saft.classifier.assembly import Assembly
from saft.data.network import HIDDEN, TextualInteractionNetwork
from saft.features.folds import VIEWS, view_of_rows
from saft.learning.callbacks import Callback, CallbackList
from saft.learning.prediction import predict_logits
from saft.methods._card import Method
from saft.methods._fine_tuned import count_parameters
from saft.methods._line_graph import LineGraph
from saft.metrics import macro_f1, softmax
from saft.settings import Settings

MOST_ROUNDS, REST = 50, 1e-4
REACHES, SMOOTHINGS = (0.5, 0.8, 0.95, 0.99), (0.0, 0.2, 0.5, 0.8, 0.95)
AUTO = 0.0
SCALES = (AUTO, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Correction:
    """How errors are spread: a, and s or AUTO."""

    reach: float
    scale: float


class CorrectAndSmooth:
    def __init__(self, settings: Settings, callbacks: Iterable[Callback]) -> None:
        self.settings, self.callbacks = settings, CallbackList(callbacks)

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        self.train, visible = np.asarray(train), network.showing(train)
        self.callbacks.on_message("Reading texts")
        self.assembly = Assembly.fresh(self.settings, visible)
        self.n_parameters_ = count_parameters(self.assembly.model)
        self.callbacks.on_message("Choosing how far errors and answers spread")
        spreading, rows = self._spreading(visible), np.concatenate([train, valid]).astype(np.int64)
        best = -1.0
        for correction, smoothing, found in spreading.candidates():
            score = macro_f1(network.labels[rows], spreading.of(found, rows).argmax(axis=1), network.n_classes)
            if score > best:
                best, self.chosen_ = score, (correction, smoothing)
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        spreading = self._spreading(network.showing(self.train))
        correction, smoothing = self.chosen_
        found = spreading.smoothed(spreading.corrected(correction), smoothing)
        return normalised(spreading.of(found, np.asarray(interactions)))

    def _spreading(self, network: TextualInteractionNetwork) -> Spreading:
        loader = self.assembly.loader(network)
        base = softmax(predict_logits(self.assembly.model, loader, np.arange(len(network))))
        return Spreading.of_rows(LineGraph.of(network), base, network.labels, loader.features.folds)


@dataclass(frozen=True)
class Spreading:
    """Both steps for all views at once (``saft/features/folds.py``): labels of fold k are hidden in view k.

    Args:
        views: (rows,) in which view each is predicted.
        base: (rows, views, classes) Z, the same in all views.
        truth: (rows, views, classes) Y of rows that are visible in the view, 0 elsewhere.
        known: (rows, views, 1) whether they are.
    """

    graph: LineGraph
    views: np.ndarray
    base: Tensor
    truth: Tensor
    known: Tensor

    @classmethod
    def of_rows(cls, graph: LineGraph, base: np.ndarray, labels: np.ndarray, folds: np.ndarray) -> Spreading:
        labelled = labels != HIDDEN
        known = labelled[:, None] & (folds[:, None] != np.arange(VIEWS))  # the last view hides no fold
        one_hot = labels[:, None] == np.arange(base.shape[1])
        return cls(
            graph,
            view_of_rows(folds, labelled),
            torch.from_numpy(base.astype(np.float32))[:, None].expand(-1, VIEWS, -1),
            torch.from_numpy(one_hot[:, None] & known[:, :, None]).float(),
            torch.from_numpy(known)[:, :, None],
        )

    def candidates(self) -> Iterator[tuple[Correction | None, float, Tensor]]:
        """Every choice with its result; doing nothing comes first, so that it is kept unless something is better."""
        corrections = [None, *(Correction(*both) for both in product(REACHES, SCALES))]
        for correction in corrections:
            corrected = self.corrected(correction)
            for smoothing in SMOOTHINGS:
                yield correction, smoothing, self.smoothed(corrected, smoothing)

    def corrected(self, correction: Correction | None) -> Tensor:
        if correction is None:
            return self.base
        errors = torch.where(self.known, self.truth - self.base, 0.0)
        if correction.scale != AUTO:
            return self.base + correction.scale * self._spread(errors, correction.reach, fixed=True)
        spread = self._spread(errors, correction.reach)
        mean = errors.abs().sum(dim=(0, 2)) / self.known.sum(dim=(0, 2)).clamp(min=1)  # (views,)
        return self.base + mean[:, None] * spread / spread.abs().sum(dim=2, keepdim=True).clamp(min=1e-12)

    def smoothed(self, corrected: Tensor, smoothing: float) -> Tensor:
        return self._spread(torch.where(self.known, self.truth, corrected), smoothing)

    def of(self, found: Tensor, rows: np.ndarray) -> np.ndarray:
        """(rows, classes) in the view of each row."""
        return found[torch.from_numpy(rows), torch.from_numpy(self.views[rows])].numpy()

    def _spread(self, start: Tensor, share: float, fixed: bool = False) -> Tensor:
        """x ← (1 − share) start + share · S x; ``fixed`` rows are set back to the start after every round."""
        x = start
        for _ in range(rounds(share)):
            x = (1 - share) * start + share * self.graph.diffuse(x.flatten(1)).view_as(start)
            if fixed:
                x = torch.where(self.known, start, x)
        return x


def rounds(share: float) -> int:
    """Until what is left is below ε of the whole."""
    return min(MOST_ROUNDS, math.ceil(math.log(REST) / math.log(share))) if share else 0


def normalised(answers: np.ndarray) -> np.ndarray:
    """As probabilities: corrected ones may be below 0. The largest is above 0, as what is spread sums to more."""
    positive = np.maximum(answers.astype(np.float64), 0)
    return positive / positive.sum(axis=1, keepdims=True)


METHOD = Method(
    title="Correct and Smooth",
    paper="Huang et al., ICLR 2021",
    build=CorrectAndSmooth,
    settings={
        "fusion": "none", "trained_layers": 0, "ngrams": True, "sentences": True, "style": True, "labels": False,
        "alike_texts": False, "neighbour_words": False, "repeats": False, "trees": False,
    },
)  # fmt: skip
