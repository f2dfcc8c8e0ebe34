"""Edgeformers (Edgeformer-E): the text attends to its user and its item in every layer above the first.

Jin, Zhang, Meng and Han: Edgeformers: Graph-Empowered Transformers for Representation Learning on Textual-Edge
Networks. ICLR 2023.

    layer 1:       text alone
    layers 2 … L:  text attends to [text; W z_u; W z_i],   z trained, 64 wide, W shared by users, items and layers
    logits = Linear(mean over the text's tokens of the last layer)

The output of the two node tokens is discarded; every layer gets W z_u and W z_i anew. Where layers are frozen, the
first is among them, and the text attends to both in every layer that is trained. Differs from the release: users and
items that the network of training lacks share one trained vector (there they cannot be predicted), and the loss is
cross-entropy instead of binary cross-entropy behind a softmax; [CLS] is taken with ``pooling=first``.
"""

from __future__ import annotations

from functools import partial

import torch

from saft.errors import InputError
from saft.methods._card import Method
from saft.methods._fine_tuned import POOLING, FineTuned, TextModel
from saft.methods.bert_nodes import NodePair, run_with
from saft.model.base import Output, Sizes
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder
from saft.settings import TEXT_ONLY, Settings


class Edgeformers(TextModel):
    def __init__(self, encoder: TextEncoder, settings: Settings, sizes: Sizes, pooling: str = "mean") -> None:
        super().__init__(encoder, settings, sizes, pooling)
        if encoder.n_layers <= self.first_joined:
            raise InputError("Edgeformers need at least 2 layers of the encoder: layers=2 or more.")
        self.nodes = NodePair(encoder.width, settings, sizes)

    def forward(self, batch: Batch) -> Output:
        sizes = [len(tokens) for tokens, _ in batch.texts]
        read = []
        for (tokens, mask), added in zip(batch.texts, torch.split(self.nodes(batch), sizes), strict=True):
            states = self.start(tokens, mask)
            for number in range(self.first_joined, self.encoder.n_layers):
                states = run_with(self.encoder, number, states, mask, added)[:, : mask.shape[1]]
            read.append(states)
        return self.answer(self.pooled(read, batch.texts)[batch.seed_rows])


METHOD = Method(
    title="Edgeformers",
    paper="Jin et al., ICLR 2023",
    build=partial(FineTuned, build=Edgeformers),
    settings=TEXT_ONLY,
    options=POOLING,
)
