"""Start: what a model predicts before its first step, and how much of that is kept after the last.

A head that also sees side features starts from the regression on them. What training adds is trusted as far as
validation rows say so: the logits that are delivered are

    start + share · (trained − start),   share between 0 and 1

with the share that makes the validation rows most likely; a Beta(2, 2) prior pulls it to one half where they are few.
Both are linear in the head, so that the mixture is a head itself: nothing has to be kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from saft.features.regression import log_loss
from saft.model.base import SideFeatureModel

SHARES = np.linspace(0.0, 1.0, 21)


@dataclass(frozen=True)
class Start:
    """
    Args:
        logits: (validation rows, classes) before training.
        weights: (side features + 1, classes) of the head, biases last.
    """

    logits: np.ndarray
    weights: Tensor

    def best_share(self, trained: np.ndarray, labels: np.ndarray) -> float:
        """How much of what training adds to keep, by the likelihood of these rows."""

        def loss(share: float) -> float:
            prior = np.log(max(share * (1 - share), 1e-3))
            return log_loss(self.mixed(trained, share), labels) * len(labels) - float(prior)

        return float(min(SHARES, key=loss))

    def mixed(self, trained: np.ndarray, share: float) -> np.ndarray:
        return self.logits + share * (trained - self.logits)

    def mix_into(self, model: SideFeatureModel, share: float) -> None:
        """Let the model's head give the mixture from now on."""
        at_start = torch.zeros_like(model.head.weight)
        at_start[:, -model.n_side_features :] = self.weights[:-1].T
        with torch.no_grad():
            model.head.weight.lerp_(at_start, 1 - share)
            model.head.bias.lerp_(self.weights[-1].to(model.head.bias), 1 - share)
