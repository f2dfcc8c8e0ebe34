"""What training minimises."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from saft.data.network import HIDDEN

FOCUS = 2.0  # γ of the focal loss


def class_weights(labels: np.ndarray, n_classes: int) -> Tensor:
    """As if every class had as many rows: rows / (classes · rows of the class)."""
    counts = np.bincount(labels[labels != HIDDEN], minlength=n_classes)
    return torch.tensor(counts.sum() / (n_classes * np.maximum(counts, 1)), dtype=torch.float32)


def loss_of(logits: Tensor, targets: Tensor, kind: str, weights: Tensor | None = None) -> Tensor:
    """Mean over rows. ``paper``: Σ_k −y log p − (1 − y) log(1 − p); ``focal``: −(1 − p)^γ log p."""
    if kind == "cross_entropy":
        return functional.cross_entropy(logits, targets, weights)
    logs = functional.log_softmax(logits, dim=1)
    own = logs.gather(1, targets[:, None])[:, 0]
    if kind == "focal":
        losses = -((1 - own.exp()) ** FOCUS) * own
    else:
        others = torch.log1p(-logs.exp().clamp(max=1 - 1e-6))
        losses = -(own + others.sum(dim=1) - others.gather(1, targets[:, None])[:, 0])
    if weights is None:
        return losses.mean()
    weighed = weights.to(losses.device)[targets]
    return (losses * weighed).sum() / weighed.sum()
