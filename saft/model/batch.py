"""Batch: what the model is shown at once, as tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Nodes:
    """The users (or items) of a batch, each once."""

    codes: Tensor  # (nodes,) place in the table of trained vectors; 0 for those that training never saw
    vectors: Tensor  # (nodes, attributes and Gaussian numbers)

    def __len__(self) -> int:
        return len(self.codes)

    def to(self, device: torch.device) -> Nodes:
        return Nodes(self.codes.to(device), self.vectors.to(device))


@dataclass(frozen=True)
class Batch:
    """Interactions that are read, then interactions that are only remembered; which of the first are targets.

    Read interactions stand in the order of their texts, chunk after chunk. Every chunk is as wide as its longest text.
    """

    texts: list[tuple[Tensor, Tensor]]  # (tokens, mask) of each chunk; states of tokens where layers are frozen
    users: Tensor  # (read + remembered,) into user_nodes
    items: Tensor  # (read + remembered,) into item_nodes
    user_nodes: Nodes
    item_nodes: Nodes
    structure: dict[str, Tensor]  # role → (read, dim)
    targets: Tensor  # (targets,) among the read ones
    answers: Tensor  # (targets,) their labels; HIDDEN where unknown. Never shown to the model, only to the loss
    labels: Tensor | None = None  # (read + remembered,) visible label, or the number of classes for none
    hints: Tensor | None = None  # (read, ·) what known labels around it say, then what its phrases say
    remembered: Tensor | None = None  # (remembered, layers, 2, width) what they passed on as user and as item token
    speaks: dict[str, Tensor] = field(default_factory=dict)  # side → (read + remembered,) in the sample of its node
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # of the read ones in the network
    for_memory: bool = False  # what they pass on is wanted also where they are only predicted

    @property
    def n_read(self) -> int:
        return self.rows.shape[0]  # not len: a size that may change is to stay one when the model is exported

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        if self.users.device == device:
            return self

        def moved(value: Any) -> Any:
            if isinstance(value, list):
                return [tuple(map(moved, pair)) if isinstance(pair, tuple) else pair for pair in value]
            if isinstance(value, dict):
                return {name: moved(tensor) for name, tensor in value.items()}
            return value.to(device) if isinstance(value, Tensor | Nodes) else value

        return replace(self, **{entry.name: moved(getattr(self, entry.name)) for entry in fields(self)})
