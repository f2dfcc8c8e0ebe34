"""BERT+NODES: a trained vector of the user and one of the item are two more tokens of the text.

The paper's own baseline.

    input = [[CLS], words, [SEP], W z_u, W z_i],   z trained, 64 wide
    logits = Linear(mean over the text's tokens of the last layer)

The node tokens enter below the first layer (the first that is trained, if some are frozen) and pass through all above
like words; nothing is put in again (that is the difference to Edgeformers). They have no position, and every token
attends to them. Users and items that the network of training lacks share one vector, trained by ``node_dropout``.
``pooling=first`` takes [CLS], not the mean.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.methods._card import Method
from saft.methods._fine_tuned import POOLING, FineTuned, TextModel
from saft.model.base import NodeTable, Output, Sizes
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder
from saft.model.families import NO_POSITION
from saft.settings import TEXT_ONLY, Settings


class NodePair(nn.Module):
    """(encoded, 2, width) the tokens of each interaction's user and item: one table each, one map for both."""

    def __init__(self, width: int, settings: Settings, sizes: Sizes) -> None:
        super().__init__()
        self.users = NodeTable(sizes.n_users, settings.node_dim, settings.node_dropout)
        self.items = NodeTable(sizes.n_items, settings.node_dim, settings.node_dropout)
        for table in (self.users, self.items):
            nn.init.xavier_normal_(table.vectors.weight)
        self.linear = nn.Linear(settings.node_dim, width)

    def forward(self, batch: Batch) -> Tensor:
        users = self.users(batch.user_nodes.slots).index_select(0, batch.users[: batch.n_encoded])
        items = self.items(batch.item_nodes.slots).index_select(0, batch.items[: batch.n_encoded])
        return self.linear(torch.stack([users, items], dim=1))


def run_with(encoder: TextEncoder, number: int, states: Tensor, mask: Tensor, added: Tensor) -> Tensor:
    """Layer ``number`` on [text; added]."""
    length, more = states.shape[1], added.shape[1]
    positions = torch.arange(length + more, device=states.device)
    positions[length:] = NO_POSITION
    return encoder.run_layer(
        number, torch.cat([states, added], dim=1), functional.pad(mask, (0, more), value=1), positions
    )


class BertNodes(TextModel):
    def __init__(self, encoder: TextEncoder, settings: Settings, sizes: Sizes, pooling: str = "mean") -> None:
        super().__init__(encoder, settings, sizes, pooling)
        self.nodes = NodePair(encoder.width, settings, sizes)

    def forward(self, batch: Batch) -> Output:
        sizes = [len(tokens) for tokens, _ in batch.texts]
        read = []
        for (tokens, mask), added in zip(batch.texts, torch.split(self.nodes(batch), sizes), strict=True):
            states = self.encoder.embed(tokens, mask)
            for number in range(self.encoder.n_layers):
                states = run_with(self.encoder, number, states, mask, added)
                states, added = states[:, : mask.shape[1]], states[:, mask.shape[1] :]
            read.append(states)
        return self.answer(self.pooled(read, batch.texts)[batch.seed_rows])


METHOD = Method(
    title="BERT+NODES",
    paper="baseline of the SAFT paper",
    build=partial(FineTuned, build=BertNodes),
    settings=TEXT_ONLY,
    options=POOLING,
)
