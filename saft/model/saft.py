"""SAFT: words and graph fused in every layer of a pretrained encoder.

An interaction is its text tokens t and a proxy token p, their mean. Layer 1 is the encoder's on [p; t]. From layer 2 on
the tokens of its user, its item, its distance and its centrality embedding stand beside them, fresh at every layer:

    [p̃; t̃; ũ; ĩ] = encoder layer on [p; t; user; item; distance; centrality]
    û, î          = messages between interactions of the same user, and of the same item, from ũ and ĩ
    p             = ReLU(Linear([p̃; û; î]))                                     (fusion="paper")
    p             = p̃ + Linear₀(GELU(Linear([p̃; û; î; added])))                 (fusion="residual")
    p             = p̃                                                           (the same with messages="content")

Linear₀ starts at zero, so that training starts from the pretrained encoder and not from a random map.

Under residual fusion the text tokens do not attend to the added ones, and user and item tokens do not attend to the
proxy. So the text states are those of the encoder alone, and the message state of an interaction depends on nothing but
itself: it can be cached, and it contains no label.

The message state is ũ (and ĩ) plus the mean of the text states (``text_messages``), so that messages carry text from
the first step on; the user token alone contains little of it before training.

Label-aware messages: u⁰ of an interaction is its message state plus the state of its visible label, if it has one.

What neighbours tell of an interaction in numbers (the known labels of its user and item, those of texts like its own,
what is read in texts without a label: see saft/features/evidence.py) is one more token that only the proxy attends to,
and one more input of the head, which starts from the best prediction that it gives alone. With messages="content", the
default, that is all that passes between interactions: sums over all neighbours, made once, instead of û and î; and the
proxy needs no map of its own, which would learn few labels by heart. With "lga" and "gau" it is the known labels.

What linear models and trees read in its own words is not shown to the trained part: it would learn less from the words
itself. It is mixed in after training (saft/learning/start.py).
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.errors import InputError
from saft.model.base import NodeTable, Output, SideFeatureModel, Sizes, means
from saft.model.batch import Batch, Heard, Nodes
from saft.model.encoder import TextEncoder
from saft.model.families import NO_POSITION
from saft.model.message_passing import GatedAttentionUnit, LineGraphAttention
from saft.model.readout import READOUTS, LayerOutput
from saft.settings import Settings

Attention = LineGraphAttention | GatedAttentionUnit
TEXT, ADDED, PROXY = 0, 1, 2  # attention levels: a token attends to its own level and those below


class NodeTokens(nn.Module):
    """Linear(X) for the users (or items) of a batch. X: given numbers, perhaps with a trained vector per node."""

    def __init__(self, width: int, given: int, table: NodeTable | None, normalise: bool) -> None:
        super().__init__()
        self.table = table
        self.linear = nn.Linear(given + (0 if table is None else table.vectors.embedding_dim), width)
        self.norm = nn.LayerNorm(width) if normalise else nn.Identity()

    def forward(self, nodes: Nodes) -> Tensor:
        vectors = nodes.vectors
        if self.table is not None:
            vectors = torch.cat([vectors, self.table(nodes.slots)], dim=1)
        return self.norm(self.linear(vectors))


class SaftLayer(nn.Module):
    """Messages and the proxy's update behind one layer of the encoder."""

    def __init__(self, width: int, settings: Settings, added: int) -> None:
        super().__init__()
        kind = LineGraphAttention if settings.messages == "lga" else GatedAttentionUnit
        sides = settings.heard_sides if settings.passes_messages else ()
        residual = settings.fusion == "residual"
        self.messages = nn.ModuleDict({side: kind(width, settings.rounds, settings.delta, residual) for side in sides})
        self.update = nn.Linear(width * (1 + len(self.messages) + (added if residual else 0)), width)
        self.out = nn.Linear(width, width) if residual else None
        if self.out is not None:
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.out.bias)

    def forward(
        self,
        proxy: Tensor,
        added: Tensor,
        starts: dict[str, Tensor],
        nodes: dict[str, tuple[Tensor, int, Tensor | None]],
        others: dict[str, tuple[Tensor, Tensor]],
    ) -> Tensor:
        """(encoded, width) the new proxies.

        Args:
            proxy: (encoded, width) p̃.
            added: (encoded, added, width) the tokens beside the text, before the layer.
            starts: side → (encoded + cached, width) u⁰.
            nodes: side → (node of each of them, number of nodes, which of them are sources).
            others: side → (sum of u⁰ over all others of the node, how many), if these are what is heard.
        """
        received = [
            cast("Attention", layer).from_sums(starts[side], *others[side])
            if others
            else layer(starts[side], *nodes[side], n_receivers=proxy.shape[0])
            for side, layer in self.messages.items()
        ]
        if self.out is None:
            return functional.relu(self.update(torch.cat([proxy, *received], dim=1)))
        mixed = self.update(torch.cat([proxy, *received, added.flatten(1)], dim=1))
        return proxy + self.out(functional.gelu(mixed))


class SaftModel(SideFeatureModel):
    """Batch → logits of its seed rows."""

    def __init__(self, encoder: TextEncoder, settings: Settings, sizes: Sizes) -> None:
        super().__init__(encoder, settings, sizes)
        width = encoder.width
        self.fused = settings.fusion != "none"
        if self.fused:
            self.first = 0 if encoder.frozen else 1  # the text is read alone before anything is added to it
            if encoder.n_layers <= self.first:
                raise InputError(
                    "Fusing words and graph needs at least 2 layers of the encoder. Use more layers; "
                    "trained_layers=0 trains none, and fuses nothing."
                )
            self.n_fused = encoder.n_layers - self.first
            self._make_tokens(width, sizes)
            added = 2 + len(self.structure_tokens) + bool(self.n_learnt)
            updated = 0 if settings.messages == "content" else self.n_fused  # a proxy without messages is p̃
            self.layers = nn.ModuleList(SaftLayer(width, settings, added) for _ in range(updated))
            self.readout = READOUTS[settings.readout](width)
        if settings.passes_messages:
            self.message_shape = (self.n_fused, 2, width)  # ũ and ĩ of every layer
            self.hears_sums = settings.sums_states
        self.dropout = nn.Dropout(settings.dropout)
        wide = self.readout.width if self.fused else width
        self.head = nn.Linear(wide + self.n_side_features, sizes.n_classes)

    def _make_tokens(self, width: int, sizes: Sizes) -> None:
        settings, normalise = self.settings, self.settings.fusion == "residual"

        def node_tokens(given: int, n_nodes: int) -> NodeTokens:
            trained = settings.nodes == "trained"
            table = NodeTable(n_nodes, settings.node_dim, settings.node_dropout) if trained else None
            return NodeTokens(width, given, table, normalise)

        def tokens(columns: int) -> nn.Module:
            linear = nn.Linear(columns, width)
            return nn.Sequential(linear, nn.LayerNorm(width)) if normalise else linear

        self.node_tokens = nn.ModuleDict(
            {
                "user": node_tokens(sizes.user_vectors, sizes.n_users),
                "item": node_tokens(sizes.item_vectors, sizes.n_items),
            }
        )
        roles = {"distance": settings.distance, "centrality": settings.centrality}
        self.structure_tokens = nn.ModuleDict(
            {
                role: tokens(settings.structure_dim)
                for role, name in roles.items()
                if settings.structure_tokens and name != "none"
            }
        )
        if self.n_learnt:
            self.side_token = tokens(self.n_learnt)
        if settings.labels and settings.passes_messages:
            self.label_states = nn.Embedding(sizes.n_classes + 1, width, padding_idx=sizes.n_classes)
            nn.init.zeros_(self.label_states.weight)

    def forward(self, batch: Batch) -> Output:
        texts = [self.encoder.embed(*chunk) for chunk in batch.texts]
        masks = [mask for _, mask in batch.texts]
        if not self.fused:
            return self._text_only(batch, texts, masks)
        proxy = means(texts, masks)
        nodes = {
            "user": (batch.users, batch.user_nodes.slots.shape[0], batch.is_source.get("user")),
            "item": (batch.items, batch.item_nodes.slots.shape[0], batch.is_source.get("item")),
        }
        node_states = {
            "user": self.node_tokens["user"](batch.user_nodes).index_select(0, batch.users),
            "item": self.node_tokens["item"](batch.item_nodes).index_select(0, batch.items),
        }
        added, attention_levels = self._added_tokens(batch, node_states)
        own = {}
        if self.message_shape:
            own = {side: self._own_state(batch, states) for side, states in node_states.items()}
        if self.first:
            proxy, texts, _ = self._run(0, proxy, texts, masks, added[:, :0], [])
        message_states = []
        for number in range(self.n_fused):
            previous = proxy, texts
            proxy, texts, pair = self._run(self.first + number, proxy, texts, masks, added, attention_levels)
            starts, others = {}, {}
            if self.message_shape:
                if self.settings.text_messages:
                    pair = pair + means(texts, masks)[:, None]
                message_states.append(pair.detach())
                starts = self._starts(number, pair, batch, own)
                if batch.heard is not None:
                    others = self._others(number, pair, batch.heard, node_states)
            if self.layers:
                proxy = self.layers[number](proxy, added, starts, nodes, others)
        last = self._layer_output(batch, masks, proxy, texts)
        before = self._layer_output(batch, masks, *previous) if self.readout.uses_previous else None
        message_state = torch.stack(message_states, dim=1) if message_states else None
        return self._output(batch, self.readout(last, before), message_state)

    def _added_tokens(self, batch: Batch, node_states: dict[str, Tensor]) -> tuple[Tensor, list[int]]:
        """(encoded, added, width) user, item, structure and side tokens, and the attention level of each."""
        tokens = [node_states[side][: batch.n_encoded] for side in ("user", "item")]
        tokens += [tokenise(batch.structure[role]) for role, tokenise in self.structure_tokens.items()]
        attention_levels = [ADDED] * len(tokens)
        if batch.side_features is not None and self.n_learnt:
            tokens.append(self.side_token(batch.side_features[:, self.sizes.learnt]))
            attention_levels.append(PROXY)  # a message state must not depend on labels
        return torch.stack(tokens, dim=1), attention_levels

    def _run(
        self,
        number: int,
        proxy: Tensor,
        texts: list[Tensor],
        masks: list[Tensor],
        added: Tensor,
        attention_levels: list[int],
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """The encoder's layer on [p; t; added], chunk by chunk: p̃, t̃, and (ũ, ĩ) as (encoded, 2, width)."""
        proxies, read, pairs = [], [], []
        sizes = [states.shape[0] for states in texts]
        for states, mask, first, extra in zip(
            texts, masks, torch.split(proxy, sizes), torch.split(added, sizes), strict=True
        ):
            length, more = states.shape[1], extra.shape[1]
            positions = torch.arange(-1, length + more, device=states.device)  # the proxy's is NO_POSITION already
            positions[length + 1 :] = NO_POSITION
            levels = None
            if self.settings.fusion == "residual":
                levels = torch.full((1 + length + more,), TEXT, device=states.device)
                levels[0] = PROXY
                levels[length + 1 :] = torch.tensor(attention_levels, device=states.device)
            joined = torch.cat([first[:, None], states, extra], dim=1)
            joined_mask = functional.pad(mask, (1, more), value=1)
            # The next layer gets fresh added tokens: of these, only messages use the user's and the item's output.
            wanted = 1 + length + (min(more, 2) if self.message_shape else 0)
            after = self.encoder.run_layer(number, joined, joined_mask, positions, levels, wanted)
            proxies.append(after[:, 0])
            read.append(after[:, 1 : length + 1])
            pairs.append(after[:, length + 1 : length + 3])
        return torch.cat(proxies), read, torch.cat(pairs)

    def _own_state(self, batch: Batch, node_states: Tensor) -> Tensor:
        """λ · user token of encoded and cached interactions, plus the state of their visible labels."""
        own = self.settings.lam * node_states
        return own if batch.labels is None else own + self.label_states(batch.labels)

    def _starts(self, layer: int, pair: Tensor, batch: Batch, own: dict[str, Tensor]) -> dict[str, Tensor]:
        """u⁰ = ũ + the interaction's own state, the same in every layer."""
        starts = {}
        for place, (side, same) in enumerate(own.items()):
            after = pair[:, place]
            if batch.cached is not None:
                after = torch.cat([after, batch.cached[:, layer, place]])
            starts[side] = after + same
        return starts

    def _others(
        self, layer: int, pair: Tensor, heard: Heard, node_states: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Side → sum of u⁰ over the other interactions of the node, and their number."""
        states = heard.sums[:, layer] - heard.counted[:, None, None] * pair
        others = {}
        for place, (side, of_node) in enumerate(node_states.items()):
            count = heard.counts[:, place]
            found = states[:, place] + self.settings.lam * count[:, None] * of_node
            if self.settings.labels:
                found = found + heard.labels[:, place] @ self.label_states.weight[:-1]
            others[side] = found, count
        return others

    def _layer_output(self, batch: Batch, masks: list[Tensor], proxy: Tensor, texts: list[Tensor]) -> LayerOutput:
        lengths = torch.cat([mask.sum(dim=1, keepdim=True) for mask in masks])
        return LayerOutput(proxy[batch.seed_rows], means(texts, masks)[batch.seed_rows], lengths[batch.seed_rows])

    def _text_only(self, batch: Batch, texts: list[Tensor], masks: list[Tensor]) -> Output:
        for number in range(self.encoder.n_layers):
            texts = [self.encoder.run_layer(number, *chunk) for chunk in zip(texts, masks, strict=True)]
        return self._output(batch, means(texts, masks)[batch.seed_rows])

    def _output(self, batch: Batch, representation: Tensor, message_state: Tensor | None = None) -> Output:
        head_input = self.dropout(representation)
        if batch.side_features is not None:
            beside = batch.side_features[batch.seed_rows]
            head_input = torch.cat([head_input, self.as_learnt(beside) if self.training else beside], dim=1)
        return Output(self.head(head_input), representation, message_state)
