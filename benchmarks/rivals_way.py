"""SAFT computed as research code computes such models, to measure against. Nothing outside of the benchmarks uses it.

The same model and the same outputs as ``saft.model.saft`` with the paper's fusion (a test compares them), computed as
published releases do:

- every text is padded to 64 tokens;
- 25 seed rows in a batch, in any order;
- each seed row has its own b neighbours by user and b by item, and all 1 + 2b texts are encoded for it, also those that
  another seed row of the batch needs as well;
- messages go through a dense operator that is built for each seed row in a Python loop;
- word vectors are trained, so that the optimiser updates the whole vocabulary in every step.

Two of their slower habits are left out: texts are tokenised once here, and samples are drawn for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from saft.classifier.assembly import Assembly
from saft.data.network import TextualInteractionNetwork
from saft.learning.loader import BatchLoader, LabelMaskedPass
from saft.model.batch import Batch
from saft.model.message_passing import LineGraphAttention
from saft.model.saft import SaftLayer
from saft.settings import AS_PRINTED, Settings

PADDED_TO = 64
ALL_LAYERS = 1_000  # are trained: more than any encoder has
SEED_ROWS = 25


def settings_of(encoder: str, layers: int, neighbours: int, **changes: object) -> Settings:
    values = AS_PRINTED | {
        "batch_size": SEED_ROWS, "max_length": PADDED_TO, "train_words": True, "trained_layers": ALL_LAYERS,
        "group_size": 1,
    }  # fmt: skip
    return Settings.of(values | {"encoder": encoder, "layers": layers, "neighbours": neighbours} | changes)


class DenseAttention(nn.Module):
    """Line graph attention with one dense operator per seed row, built and applied separately."""

    def __init__(self, fast: nn.Module) -> None:
        super().__init__()
        if not isinstance(fast, LineGraphAttention):
            raise TypeError("the rivals' way is written for line graph attention")
        self.fast = fast  # its weights
        self.sizes: list[int] = []  # interactions of each seed row of the batch, in order

    def forward(
        self,
        start: Tensor,
        nodes: Tensor,
        n_nodes: int,
        is_source: Tensor | None = None,
        n_receivers: int | None = None,
    ) -> Tensor:
        received = []
        for own, of_node in zip(torch.split(start, self.sizes), torch.split(nodes, self.sizes), strict=True):
            same_node = (of_node[:, None] == of_node[None]).to(own.dtype)
            operator = same_node / (same_node.sum(dim=1, keepdim=True) + 1)
            state = own
            for _ in range(self.fast.rounds):
                state = operator @ state + self.fast.delta * own
            received.append(state)
        return self.fast.norm(self.fast.out(torch.cat(received)))


class RivalsLoader(BatchLoader):
    """Batches in which every seed row has its own copies of its neighbours."""

    def __init__(self, assembly: Assembly, network: TextualInteractionNetwork | None = None) -> None:
        fast = assembly.loader(network)
        super().__init__(fast.features, fast.labels, fast.n_classes, fast.settings)
        self.attention = [module for module in assembly.model.modules() if isinstance(module, DenseAttention)]

    def in_order(self, seed_rows: np.ndarray) -> list[np.ndarray]:
        return [seed_rows[first : first + SEED_ROWS] for first in range(0, len(seed_rows), SEED_ROWS)]

    def batch(self, seed_rows: np.ndarray, view: LabelMaskedPass) -> Batch:
        groups = list(self._groups(seed_rows, view))
        rows = np.concatenate(groups)
        sizes = [len(group) for group in groups]
        for attention in self.attention:
            attention.sizes = sizes
        tokens, mask = self.features.tokens.padded(rows)
        wider = ((0, 0), (0, PADDED_TO - tokens.shape[1]))
        texts = [(torch.from_numpy(np.pad(tokens, wider)), torch.from_numpy(np.pad(mask, wider)))]
        return self.collate(rows, rows[:0], np.cumsum([0, *sizes[:-1]]), view, texts)

    def _groups(self, seed_rows: np.ndarray, view: LabelMaskedPass) -> Iterator[np.ndarray]:
        """Each seed row and its neighbours, the seed row first."""
        for seed_row in seed_rows:
            yield self.with_neighbours(np.array([seed_row]), view)


def assemble(settings: Settings, network: TextualInteractionNetwork) -> tuple[Assembly, RivalsLoader]:
    """An untrained model with dense attention, and the loader of its batches."""
    assembly = Assembly.fresh(settings, network)
    for layer in [module for module in assembly.model.modules() if isinstance(module, SaftLayer)]:
        for side, attention in list(layer.messages.items()):
            layer.messages[side] = DenseAttention(attention)
    return assembly, RivalsLoader(assembly)
