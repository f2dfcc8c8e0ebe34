"""BERT+GraphSAGE: the encoder reads an interaction and sampled neighbours; a GraphSAGE layer joins their vectors.

Hamilton, Ying and Leskovec: Inductive Representation Learning on Large Graphs. NeurIPS 2017; as a cascade behind a text
encoder in the releases of GraphFormers and Heterformer.

    c_e = mean over the tokens of e's text (``pooling=first``: [CLS])
    a_e = max over neighbours j of ReLU(W_p c_j),   0 without neighbours
    h_e = ReLU(W [c_e; a_e]);   logits = Linear(h_e)

Neighbours share the user or the item, five of each side, sampled anew in every epoch. ``mode=joint`` (default) trains
the encoder too. Neighbours are not encoded again for each seed row: their c comes from the neighbour cache
(``cache_neighbours=false`` encodes them, at several times the cost). ``mode=frozen`` is GraphSAGE proper on frozen
vectors: two layers of mean aggregation over *all* neighbours, each l2-normalised:

    h ← ReLU(W [h; mean of neighbours' h]) / ‖·‖
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.errors import InputError
from saft.learning.callbacks import Callback
from saft.methods._card import InteractionClassifier, Method
from saft.methods._fine_tuned import POOLING, SAMPLES_ONLY, FineTuned, TextModel, neighbours_of_seed_rows
from saft.methods._gcn import FrozenText
from saft.methods._line_graph import LineGraph
from saft.model.base import Output, Sizes
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder
from saft.settings import Settings

HIDDEN_UNITS = 128


def masked_max(values: Tensor, mask: Tensor) -> Tensor:
    """(seeds, width) the maximum of the values (·, width) that the mask (seeds, ·) selects; 0 where it selects none.

    Values are not negative, so one that is not selected may count as 0.
    """
    return (values[None] * mask[:, :, None]).amax(dim=1)


class BertGraphSage(TextModel):
    def __init__(self, encoder: TextEncoder, settings: Settings, sizes: Sizes, pooling: str = "mean") -> None:
        super().__init__(encoder, settings, sizes, pooling)
        if settings.full_batch:
            raise InputError("BERT+GraphSAGE reads samples of neighbours: it has no full_batch.")
        width = encoder.width
        self.message_shape = (width,)
        self.pool = nn.Linear(width, width)
        self.join = nn.Linear(2 * width, width, bias=False)

    def forward(self, batch: Batch) -> Output:
        words = self.read(batch)
        around = words if batch.cached is None else torch.cat([words, batch.cached])
        pooled = masked_max(functional.relu(self.pool(around)), neighbours_of_seed_rows(batch))
        joined = functional.relu(self.join(torch.cat([words[batch.seed_rows], pooled], dim=1)))
        return self.answer(joined, words.detach())


class GraphSage(nn.Module):
    """Two layers over all neighbours of frozen vectors."""

    def __init__(self, width: int, n_classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.first = nn.Linear(2 * width, HIDDEN_UNITS)
        self.second = nn.Linear(2 * HIDDEN_UNITS, HIDDEN_UNITS)
        self.head = nn.Linear(HIDDEN_UNITS, n_classes)

    def forward(self, x: Tensor, graph: LineGraph, seed_rows: Tensor) -> Tensor:
        x = self.norm(x)
        for layer in (self.first, self.second):
            x = functional.normalize(functional.relu(layer(torch.cat([x, graph.neighbour_means(x)], dim=1))), dim=1)
        return self.head(x[seed_rows])


def build(settings: Settings, callbacks: Iterable[Callback], mode: str, pooling: str) -> InteractionClassifier:
    if mode == "frozen":
        return FrozenText(settings, callbacks, pooling=pooling, net=GraphSage)
    return FineTuned(settings, callbacks, build=BertGraphSage, pooling=pooling)


METHOD = Method(
    title="BERT+GraphSAGE",
    paper="Hamilton et al., NeurIPS 2017",
    build=build,
    settings=SAMPLES_ONLY | {"neighbours": 5},
    options={"mode": ("joint", "frozen")} | POOLING,
)
