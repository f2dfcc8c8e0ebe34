"""Start: what can be predicted without training an encoder, and how much of it is kept after training.

A regression on side features, and trees, are fitted before the first step. The encoder learns on its own, beside what
neighbours tell: shown what linear models read in the same words, it would lean on them and learn less from the words
itself (docs/experiments.md). The logits that are delivered are

    (1 − share) · start + share · trained,   share between 0 and 1

On the validation rows a · start + b · trained is made as likely as possible, a and b not below 0; share = b / (a + b).
Few rows say little: a and b are pulled to one half each. (The share with the best F1 was tried before: on a hundred
rows and less it is chosen by chance. By the likelihood of the mixture above, without a and b, training gets too small a
share, since it makes a model bolder, in its errors too.)

Of epochs that these rows cannot tell apart the last one is kept: its learning rate was the smallest.

Both are linear in the head, so that the mixture is a head itself: nothing has to be kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from saft.features.regression import log_softmax
from saft.model.base import SideFeatureModel

PULL = 1.0  # nats that a weight costs which is 1 away from one half
DOUBT = 0.25  # by about so many nats a row's loss changes from one epoch to another, up or down


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

    def choose(self, trained: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """(how much of what was trained to keep by these rows, how good that is: penalised log-likelihood of a row)."""
        if not len(labels):
            return 0.5, 0.0
        both = np.stack([self.logits, trained]).astype(np.float64)

        def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
            log_p = log_softmax(np.tensordot(weights, both, axes=1))
            errors = np.exp(log_p)
            errors[np.arange(len(labels)), labels] -= 1
            loss = -log_p[np.arange(len(labels)), labels].sum() + PULL * ((weights - 0.5) ** 2).sum()
            return loss, (both * errors).sum(axis=(1, 2)) + 2 * PULL * (weights - 0.5)

        found = minimize(objective, [0.5, 0.5], jac=True, method="L-BFGS-B", bounds=[(0, None)] * 2)
        of_start, of_trained = found.x.tolist()
        return of_trained / max(of_start + of_trained, 1e-9), -float(found.fun) / len(labels)

    @property
    def doubt(self) -> float:
        """Nats by which a later epoch may be worse than an earlier one without being told from it by so many rows."""
        return DOUBT / np.sqrt(max(len(self.logits), 1))

    def mixed(self, trained: np.ndarray, share: float) -> np.ndarray:
        return self.logits + share * (trained - self.logits)

    def mix_into(self, model: SideFeatureModel, share: float) -> None:
        """Let the model's head give the mixture from now on."""
        at_start = torch.zeros_like(model.head.weight)
        at_start[:, -model.n_side_features :] = self.weights[:-1].T
        with torch.no_grad():
            model.head.weight.lerp_(at_start, 1 - share)
            model.head.bias.lerp_(self.weights[-1].to(model.head.bias), 1 - share)
