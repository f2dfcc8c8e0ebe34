"""Start: what can be predicted without training an encoder, and how much of it is kept after training.

A regression on side features, and trees, are fitted before the first step. The encoder learns on its own, beside known
labels only: shown what linear models read in the same words, it would lean on them and learn less from the words itself
(docs/experiments.md). The logits that are delivered are

    (1 − share) · start + share · trained,   share between 0 and 1

with the share that scores best on the validation rows, in the mean of Macro-F1 and Micro-F1. Few rows say little: a
share other than one half has to gain more, the fewer they are. (Likelihood would be less noisy, but chooses too small
shares: training makes a model bolder, in its errors too.)

Both are linear in the head, so that the mixture is a head itself: nothing has to be kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from saft.metrics import macro_f1, micro_f1
from saft.model.base import SideFeatureModel

SHARES = (0.5, 0.25, 0.75, 0.0, 1.0)  # the first of equals is chosen
DOUBT = 0.5  # what a share at the end has to gain, times twice the square root of the number of rows


@dataclass(frozen=True)
class Start:
    """
    Args:
        logits: (validation rows, classes) before training.
        weights: (side features + 1, classes) of the head, biases last.
        is_head: whether the head starts from these very weights. Then there is nothing to mix in: training goes on from
            them, and they compete with its epochs.
    """

    logits: np.ndarray
    weights: Tensor
    is_head: bool = False

    def best_share(self, trained: np.ndarray, labels: np.ndarray) -> float:
        """How much of what was trained to keep, by these rows; without any, one half."""
        return max(SHARES, key=lambda share: self.goodness(trained, labels, share)) if len(labels) else SHARES[0]

    def goodness(self, trained: np.ndarray, labels: np.ndarray, share: float) -> float:
        """The score of the mixture, less what chance may have added to it."""
        predicted, n_classes = self.mixed(trained, share).argmax(axis=1), trained.shape[1]
        scored = (macro_f1(labels, predicted, n_classes) + micro_f1(labels, predicted, n_classes)) / 2
        return scored - DOUBT * abs(share - 0.5) / np.sqrt(max(len(labels), 1))

    def mixed(self, trained: np.ndarray, share: float) -> np.ndarray:
        return self.logits + share * (trained - self.logits)

    def mix_into(self, model: SideFeatureModel, share: float) -> None:
        """Let the model's head give the mixture from now on."""
        at_start = torch.zeros_like(model.head.weight)
        at_start[:, -model.n_side_features :] = self.weights[:-1].T
        with torch.no_grad():
            model.head.weight.lerp_(at_start, 1 - share)
            model.head.bias.lerp_(self.weights[-1].to(model.head.bias), 1 - share)
