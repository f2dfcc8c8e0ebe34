"""EAGLE: features spread over interactions of the same user and of the same item, inside a small network.

Wang, Yang and Xiao: Effective Edge-wise Representation Learning in Edge-Attributed Bipartite Graphs. KDD 2024.

    h = BatchNorm(ReLU(W₁ x));   h ← Σ_l α^l (β P_u + (1 − β) P_i)^l h;   logits = perceptron([h; x])
    P_u = E_u D_u⁻¹ E_uᵀ, P_i likewise;   α = β = ½;   x frozen text vectors, h a quarter as wide

Differs from the release: the sum is computed exactly, step by step, instead of through 16 singular vectors. (There the
item side is weighed by 1 − √β where √(1 − β) is meant, singular values are divided by the largest, which changes the
operator, and another branch propagates its own result again at the second call.) Predictions are the largest logit, not
logits above ½; softmax and cross-entropy instead of one sigmoid per class.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.data.network import TextualInteractionNetwork
from saft.methods._card import Method
from saft.methods._features import FeatureMethod, Perceptron
from saft.methods._line_graph import LineGraph
from saft.methods._text_vectors import text_vectors

DAMPING, USERS_SHARE, REST = 0.5, 0.5, 1e-4


def spread(x: Tensor, graph: LineGraph) -> Tensor:
    """Σ_l α^l (β P_u + (1 − β) P_i)^l x by Horner's rule; what is left out is below ε of the whole."""
    result = x
    for _ in range(math.ceil(math.log(REST) / math.log(DAMPING))):
        result = x + DAMPING * graph.walk(result, USERS_SHARE)
    return result


class EagleNet(nn.Module):
    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        narrow = max(width // 4, 1)
        self.first = nn.Linear(width, narrow)
        self.norm = nn.BatchNorm1d(narrow)
        self.dropout = nn.Dropout(0.5)
        self.perceptron = Perceptron(width + narrow, width, n_classes)

    def forward(self, x: Tensor, graph: LineGraph, seed_rows: Tensor) -> Tensor:
        hidden = spread(self.norm(functional.relu(self.first(x))), graph)
        return self.perceptron(self.dropout(torch.cat([hidden, x], dim=1)), graph, seed_rows)


class Eagle(FeatureMethod):
    training: ClassVar[dict[str, Any]] = {
        "epochs": 300, "least_steps": 0, "patience": 30, "head_learning_rate": 1e-3, "weight_decay": 0.0, "warmup": 0.0,
        "clip": 0.0, "loss": "cross_entropy",
    }  # fmt: skip

    def features(self, network: TextualInteractionNetwork) -> np.ndarray:
        return text_vectors(network.texts, self.settings, "mean", self.callbacks.on_message)

    def net(self, width: int, network: TextualInteractionNetwork) -> nn.Module:
        return EagleNet(width, network.n_classes)


METHOD = Method(title="EAGLE", paper="Wang et al., KDD 2024", build=Eagle)
