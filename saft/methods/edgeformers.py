"""Edgeformers (Edgeformer-E): the text looks at its user and its item in every layer above the first.

Jin, Zhang, Meng and Han: Edgeformers: Graph-Empowered Transformers for Representation Learning on Textual-Edge
Networks. ICLR 2023.

    layer 1:       text alone
    layers 2 … L:  text attends to [text; W z_u; W z_i],   z trained, 64 wide, W shared by users, items and layers
    logits = Linear([CLS] of the last layer)

What the two node tokens become is thrown away after each layer; they are put in fresh. Differs from the release: users
and items that training never saw have a vector of their own (there they cannot be predicted), and the loss is
cross-entropy instead of binary cross-entropy behind a softmax.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from saft.errors import InputError
from saft.methods._card import Method
from saft.methods._fine_tuned import FineTuned
from saft.methods.bert_nodes import NodePair, run_with
from saft.model.batch import Batch
from saft.model.interaction_model import InteractionModel, Output, Sizes
from saft.model.language import LanguageModel
from saft.settings import TEXT_ONLY, Settings


class Edgeformers(InteractionModel):
    def __init__(self, language: LanguageModel, settings: Settings, sizes: Sizes) -> None:
        super().__init__(language, settings, sizes)
        if language.n_layers < 2:
            raise InputError("Edgeformers need at least 2 layers of the encoder: layers=2 or more.")
        self.nodes = NodePair(language.width, settings, sizes)
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(language.width, sizes.n_classes)

    def forward(self, batch: Batch) -> Output:
        sizes = [len(tokens) for tokens, _ in batch.texts]
        read = []
        for (tokens, mask), added in zip(batch.texts, torch.split(self.nodes(batch), sizes), strict=True):
            states = self.language.run_layer(0, self.language.embed(tokens, mask), mask)
            for number in range(1, self.language.n_layers):
                states = run_with(self.language, number, states, mask, added)[:, : mask.shape[1]]
            read.append(states[:, 0])
        seen = torch.cat(read)[batch.targets]
        return Output(self.head(self.dropout(seen)), seen)


METHOD = Method(
    title="Edgeformers",
    paper="Jin et al., ICLR 2023",
    build=partial(FineTuned, build=Edgeformers),
    settings=TEXT_ONLY,
)
