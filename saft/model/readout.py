"""Readouts: what the head sees of an interaction after the last layer.

To add one, write a subclass of :class:`Readout` and name it in ``READOUTS``; ``readout`` of the settings then takes it
(``saft/settings.py`` lists the choices, and a test compares both).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class LayerOutput:
    """The seed rows of a batch after a layer."""

    proxy: Tensor  # (seeds, width)
    text: Tensor  # (seeds, width) mean over the text tokens
    lengths: Tensor  # (seeds, 1) how many these are


class Readout(nn.Module):
    """
    Attributes:
        width: of what it returns.
        uses_previous: whether it needs the output of the layer before the last.
    """

    uses_previous = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, last: LayerOutput, previous: LayerOutput | None = None) -> Tensor:
        """(seeds, self.width)."""
        raise NotImplementedError


class ConcatReadout(Readout):
    """[p; mean of t]: the proxy keeps its own place beside the text."""

    def __init__(self, width: int) -> None:
        super().__init__(2 * width)

    def forward(self, last: LayerOutput, previous: LayerOutput | None = None) -> Tensor:
        return torch.cat([last.proxy, last.text], dim=1)


class GatedReadout(Readout):
    """g ⊙ p + (1 − g) ⊙ mean of t,  g = sigmoid(Linear([p; mean of t]))."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.gate = nn.Linear(2 * width, width)

    def forward(self, last: LayerOutput, previous: LayerOutput | None = None) -> Tensor:
        gate = torch.sigmoid(self.gate(torch.cat([last.proxy, last.text], dim=1)))
        return gate * last.proxy + (1 - gate) * last.text


class PaperReadout(Readout):
    """The mean over [p; t] of the last layer and of the one before, averaged. The proxy is one token among many."""

    uses_previous = True

    def forward(self, last: LayerOutput, previous: LayerOutput | None = None) -> Tensor:
        if previous is None:
            raise ValueError("the paper's readout needs the last two layers")
        means = [(layer.proxy + layer.lengths * layer.text) / (layer.lengths + 1) for layer in (last, previous)]
        return (means[0] + means[1]) / 2


READOUTS: dict[str, type[Readout]] = {"concat": ConcatReadout, "gated": GatedReadout, "paper": PaperReadout}
