"""GraphFormers: between the encoder's layers, a text attends to the states of its neighbours' texts at that layer.

Yang, Liu, Xiao, Li, Lian, Agrawal, Singh, Sun and Xie: GraphFormers: GNN-nested Transformers for Representation
Learning on Textual Graph. NeurIPS 2021.

    layer 1:        text alone, of the interaction and of each neighbour
    layers 2 … L:   s = attention(query c_0; keys and values c_0, c_1, …, c_n),   c_j: mean of text j before the layer
                    the interaction's tokens attend to [s; text]; neighbours' tokens to their own text alone
    logits = Linear(mean over the text's tokens of the last layer)

The attention has queries, keys and values of its own, one set for all layers, and no output map. Where layers are
frozen, the first is among them, and every layer that is trained has s beside the text. Differs from the original:
centre and neighbours are interactions that share the user or the item (at most three by each side, where the original
samples five); no bias for relative positions, as BERT has none; the mean represents a text instead of [CLS]
(``pooling=first``). Neighbours' states do not depend on the seed row, so they come from the neighbour cache
(``cache_neighbours=false`` encodes them with every batch, with gradients, at several times the cost).
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from saft.errors import InputError
from saft.methods._card import Method
from saft.methods._fine_tuned import POOLING, SAMPLES_ONLY, FineTuned, TextModel, neighbours_of_seed_rows
from saft.methods.bert_nodes import run_with
from saft.model.base import Output, Sizes
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder
from saft.settings import Settings


class GraphAggregation(nn.Module):
    """Attention of each seed row over itself and its neighbours."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, centres: Tensor, neighbours: Tensor, mask: Tensor) -> Tensor:
        """(seeds, width) from (seeds, width), (candidates, width) and which candidates (seeds, candidates)."""
        queries, own_keys, own_values = (self._split(layer(centres)) for layer in (self.query, self.key, self.value))
        keys, values = (self._split(layer(neighbours)) for layer in (self.key, self.value))
        scale = queries.shape[-1] ** -0.5
        to_itself = (queries * own_keys).sum(dim=-1, keepdim=True) * scale  # (seeds, heads, 1)
        to_others = torch.einsum("thd,chd->thc", queries, keys) * scale
        to_others = to_others.masked_fill(~mask[:, None], float("-inf"))
        weights = torch.softmax(torch.cat([to_itself, to_others], dim=2), dim=2)
        mixed = weights[:, :, :1] * own_values + torch.einsum("thc,chd->thd", weights[:, :, 1:], values)
        return mixed.flatten(1)

    def _split(self, states: Tensor) -> Tensor:
        return states.reshape(len(states), self.heads, -1)


class GraphFormers(TextModel):
    def __init__(self, encoder: TextEncoder, settings: Settings, sizes: Sizes, pooling: str = "mean") -> None:
        super().__init__(encoder, settings, sizes, pooling)
        if encoder.n_layers <= self.first_joined or settings.full_batch:
            raise InputError("GraphFormers need at least 2 layers of the encoder, and have no full_batch.")
        self.message_shape = (encoder.n_layers - self.first_joined, encoder.width)  # c before every such layer
        self.aggregation = GraphAggregation(encoder.width, encoder.model.config.num_attention_heads)

    def forward(self, batch: Batch) -> Output:
        mask = neighbours_of_seed_rows(batch)
        first = [self.start(*chunk) for chunk in batch.texts]
        own = None
        if batch.cached is None:
            own = around = self._alone(batch, first)
        else:
            # Message states are computed without neighbours. Training and the cache need them, prediction seldom does.
            with torch.no_grad():
                if self.training or batch.for_cache or not mask.any():
                    own = self._alone(batch, first)
            nothing = batch.cached.new_zeros(batch.n_encoded, *self.message_shape)
            around = torch.cat([nothing if own is None else own, batch.cached])
        words = self._centres(batch, first, around, mask)
        return self.answer(words, None if own is None else own.detach())

    def _alone(self, batch: Batch, texts: list[Tensor]) -> Tensor:
        """(encoded, layers, width) c of every text before each layer that joins it with others, without neighbours.

        Args:
            texts: token states before the first such layer, chunk by chunk.
        """
        before = [self.pooled(texts, batch.texts)]
        for number in range(self.first_joined, self.encoder.n_layers - 1):
            texts = [
                self.encoder.run_layer(number, states, mask)
                for states, (_, mask) in zip(texts, batch.texts, strict=True)
            ]
            before.append(self.pooled(texts, batch.texts))
        return torch.stack(before, dim=1)

    def _centres(self, batch: Batch, texts: list[Tensor], around: Tensor, mask: Tensor) -> Tensor:
        """(seeds, width) c after the last layer, of seed rows that attend to their neighbours; ``texts`` as above."""
        order = torch.argsort(batch.seed_rows)  # the order of their texts in the chunks
        mask = mask[order]
        chosen = torch.zeros(batch.n_encoded, dtype=torch.bool, device=mask.device).index_fill(0, batch.seed_rows, True)
        parts = torch.split(chosen, [len(states) for states in texts])
        kept = [number for number, part in enumerate(parts) if part.any()]
        chunks = [
            (tokens[parts[number]], mask[parts[number]]) for number in kept for tokens, mask in [batch.texts[number]]
        ]
        texts = [texts[number].index_select(0, parts[number].nonzero()[:, 0]) for number in kept]
        for number in range(self.first_joined, self.encoder.n_layers):
            received = self.aggregation(self.pooled(texts, chunks), around[:, number - self.first_joined], mask)
            stations = torch.split(received[:, None], [len(states) for states in texts])
            texts = [
                run_with(self.encoder, number, states, chunk[1], station)[:, : states.shape[1]]
                for states, chunk, station in zip(texts, chunks, stations, strict=True)
            ]
        return self.pooled(texts, chunks)[torch.argsort(order)]


METHOD = Method(
    title="GraphFormers",
    paper="Yang et al., NeurIPS 2021",
    build=partial(FineTuned, build=GraphFormers),
    settings=SAMPLES_ONLY | {"neighbours": 3},
    options=POOLING,
)
