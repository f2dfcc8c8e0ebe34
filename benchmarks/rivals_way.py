"""SAFT computed as research code computes such models, to measure against. Nothing outside of the benchmarks uses it.

The same model and the same answers as ``saft.model.saft`` with the paper's fusion (a test compares them), in the way of
the releases that our users have today:

- every text is padded to 64 tokens;
- 25 targets in a batch, in any order;
- each target has its own b neighbours by user and b by item, and all 1 + 2b texts are encoded for it, also those that
  another target of the batch needs as well;
- messages go through a dense operator that is built for each target in a Python loop;
- word vectors are trained, so that the optimiser walks over the whole vocabulary in every step.

It is spared their slower habits: texts are tokenised once, samples are drawn for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from saft.classifier.assembly import Assembly
from saft.data.network import TextualInteractionNetwork
from saft.learning.loader import Feed, Pass, batch_nodes
from saft.model.batch import Batch
from saft.model.message_passing import LineGraphAttention
from saft.settings import AS_PRINTED, Settings

PADDED_TO = 64
TARGETS = 25


def settings_of(encoder: str, layers: int, neighbours: int, **changes: object) -> Settings:
    values = AS_PRINTED | {"batch_size": TARGETS, "max_length": PADDED_TO, "train_words": True, "together": 1}
    return Settings.of(values | {"encoder": encoder, "layers": layers, "neighbours": neighbours} | changes)


class DenseAttention(nn.Module):
    """Line graph attention with the operator of every target built and applied by itself."""

    def __init__(self, fast: LineGraphAttention) -> None:
        super().__init__()
        self.fast = fast  # its weights
        self.sizes: list[int] = []  # interactions of each target of the batch, in order

    def forward(
        self, start: Tensor, nodes: Tensor, n_nodes: int, speaks: Tensor | None = None, asked: int | None = None
    ) -> Tensor:
        heard = []
        for own, of_node in zip(torch.split(start, self.sizes), torch.split(nodes, self.sizes), strict=True):
            together = (of_node[:, None] == of_node[None]).to(own.dtype)
            operator = together / (together.sum(dim=1, keepdim=True) + 1)
            state = own
            for _ in range(self.fast.rounds):
                state = operator @ state + self.fast.delta * own
            heard.append(state)
        return self.fast.norm(self.fast.out(torch.cat(heard)))


class RivalsFeed(Feed):
    """Batches in which every target has interactions of its own."""

    def __init__(self, assembly: Assembly, network: TextualInteractionNetwork | None = None) -> None:
        fast = assembly.feed(network)
        super().__init__(fast.inputs, fast.labels, fast.n_classes, fast.settings)
        self.attention = [
            layer.messages[side]
            for layer in assembly.model.layers
            for side in layer.messages  # type: ignore[union-attr,operator]
        ]

    def _in_order(self, targets: np.ndarray) -> list[np.ndarray]:
        return [targets[first : first + TARGETS] for first in range(0, len(targets), TARGETS)]

    def batch(self, targets: np.ndarray, seen: Pass) -> Batch:
        inputs = self.inputs
        groups = list(self._groups(targets, seen))
        rows = np.concatenate(groups)
        sizes = [len(group) for group in groups]
        for attention in self.attention:
            attention.sizes = sizes  # type: ignore[union-attr]
        tokens, mask = inputs.tokens.padded(rows)
        wider = ((0, 0), (0, PADDED_TO - tokens.shape[1]))
        users, user_nodes = batch_nodes(inputs.users[rows], inputs.user_vectors, inputs.seen_users)
        items, item_nodes = batch_nodes(inputs.items[rows], inputs.item_vectors, inputs.seen_items)
        return Batch(
            texts=[(torch.from_numpy(np.pad(tokens, wider)), torch.from_numpy(np.pad(mask, wider)))],
            users=users,
            items=items,
            user_nodes=user_nodes,
            item_nodes=item_nodes,
            structure={role: torch.from_numpy(vectors[rows]) for role, vectors in inputs.structure.items()},
            targets=torch.from_numpy(np.cumsum([0, *sizes[:-1]])),
            answers=torch.from_numpy(self.answers[targets]),
            rows=rows,
        )

    def _groups(self, targets: np.ndarray, seen: Pass) -> Iterator[np.ndarray]:
        """Each target and its neighbours, target first."""
        for target in targets:
            yield self._with_neighbours(np.array([target]), seen)


def assemble(settings: Settings, network: TextualInteractionNetwork) -> tuple[Assembly, RivalsFeed]:
    """An untrained model that hears its neighbours in the rivals' way, and what it is fed."""
    assembly = Assembly.fresh(settings, network)
    for layer in assembly.model.layers:  # type: ignore[union-attr]
        for side in layer.messages:  # type: ignore[union-attr,operator]
            layer.messages[side] = DenseAttention(layer.messages[side])  # type: ignore[union-attr,operator,index]
    return assembly, RivalsFeed(assembly)
