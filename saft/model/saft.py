"""SAFT: words and graph fused in every layer of a pretrained encoder.

An interaction is its text tokens t and a proxy token p, their mean. Layer 1 is the encoder's on [p; t]. From layer 2 on
the tokens of its user, its item, its distance and its centrality embedding stand beside them, fresh at every layer:

    [p̃; t̃; ũ; ĩ] = encoder layer on [p; t; user; item; distance; centrality]
    û, î          = messages between interactions of the same user, and of the same item, from ũ and ĩ
    p             = ReLU(Linear([p̃; û; î]))                                     (fusion="paper")
    p             = p̃ + Linear₀(GELU(Linear([p̃; û; î; added])))                 (fusion="residual")

Linear₀ starts at zero, so that training starts from the pretrained encoder and not from a random map.

Under residual fusion the text does not look at what is added, and user and item tokens do not look at the proxy. So the
text is read exactly as the pretrained encoder reads it, and what an interaction passes on to its neighbours depends on
nothing but itself: it can be remembered, and no label can travel in it.

What an interaction passes on is ũ (and ĩ) plus the mean of its text, so that neighbours' words are heard from the
start: before training has taught it to, the token of a user says little of them (``text_messages``).

Label-aware messages: the visible label of an interaction is added to what it passes on, and what all visible labels
around an interaction say is one more token for the proxy and one more input to the head. So is what its phrases say.
The head starts from the best answer that these hints give alone; words and messages add to it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.errors import InputError
from saft.features.known_labels import KnownLabels
from saft.model.base import InteractionModel, NodeTable, Output, Sizes, means
from saft.model.batch import Batch, Nodes
from saft.model.encoder import NO_PLACE, LanguageModel
from saft.model.message_passing import GatedAttentionUnit, LineGraphAttention
from saft.settings import Settings

TEXT, ADDED, PROXY = 0, 1, 2  # a token sees its own level and those below


class NodeTokens(nn.Module):
    """Linear(X) for the users (or items) of a batch. X: given numbers, and a trained vector per node if wished."""

    def __init__(self, width: int, given: int, table: NodeTable | None, normalise: bool) -> None:
        super().__init__()
        self.table = table
        self.linear = nn.Linear(given + (0 if table is None else table.vectors.embedding_dim), width)
        self.norm = nn.LayerNorm(width) if normalise else nn.Identity()

    def forward(self, nodes: Nodes) -> Tensor:
        known = nodes.vectors
        if self.table is not None:
            known = torch.cat([known, self.table(nodes.codes)], dim=1)
        return self.norm(self.linear(known))


class SaftLayer(nn.Module):
    """Messages and the proxy's update behind one layer of the encoder."""

    def __init__(self, width: int, settings: Settings, added: int) -> None:
        super().__init__()
        kind = LineGraphAttention if settings.messages == "lga" else GatedAttentionUnit
        sides = {"user": settings.user_messages, "item": settings.item_messages}
        residual = settings.fusion == "residual"
        self.messages = nn.ModuleDict(
            {side: kind(width, settings.rounds, settings.delta, residual) for side, wanted in sides.items() if wanted}
        )
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
    ) -> Tensor:
        """(read, width) the new proxies.

        Args:
            proxy: (read, width) p̃.
            added: (read, added, width) the tokens beside the text, before the layer.
            starts: side → (read + remembered, width) u⁰.
            nodes: side → (node of each of them, number of nodes, which of them speak).
        """
        heard = [layer(starts[side], *nodes[side], asked=proxy.shape[0]) for side, layer in self.messages.items()]
        if self.out is None:
            return functional.relu(self.update(torch.cat([proxy, *heard], dim=1)))
        mixed = self.update(torch.cat([proxy, *heard, added.flatten(1)], dim=1))
        return proxy + self.out(functional.gelu(mixed))


class SaftModel(InteractionModel):
    """Batch → logits of its targets."""

    def __init__(self, language: LanguageModel, settings: Settings, sizes: Sizes) -> None:
        super().__init__(language, settings, sizes)
        width = language.width
        self.fused = settings.fusion != "none"
        hints = self.hints = sizes.clues + (KnownLabels.width(sizes.n_classes) if settings.labels else 0)
        if self.fused:
            if language.n_layers < 2:
                raise InputError(
                    "Fusing words and graph needs at least 2 layers of the encoder that are not frozen. "
                    "Use more layers, or freeze fewer of them."
                )
            self._make_tokens(width, sizes, hints)
            added = 2 + len(self.structure_tokens) + bool(hints)
            self.layers = nn.ModuleList(SaftLayer(width, settings, added) for _ in range(language.n_layers - 1))
        if settings.hears_neighbours:
            self.passes_on = (language.n_layers - 1, 2, width)  # ũ and ĩ of every layer
        if settings.readout == "gated" and self.fused:
            self.readout_gate = nn.Linear(2 * width, width)
        wide = 2 * width if settings.readout == "concat" and self.fused else width
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(wide + hints, sizes.n_classes)

    def answer_by_hints(self, solved: Tensor) -> None:
        """Let the head start from this answer: (hints + 1, classes) weights of the hints and, last, offsets."""
        with torch.no_grad():
            self.head.weight.zero_()
            self.head.weight[:, -self.hints :] = solved[:-1].T
            self.head.bias.copy_(solved[-1])

    def _make_tokens(self, width: int, sizes: Sizes, hints: int) -> None:
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
            {role: tokens(settings.structure_dim) for role, name in roles.items() if name != "none"}
        )
        if hints:
            self.hints_token = tokens(hints)
        if settings.labels:
            self.label_states = nn.Embedding(sizes.n_classes + 1, width, padding_idx=sizes.n_classes)
            nn.init.zeros_(self.label_states.weight)

    def forward(self, batch: Batch) -> Output:
        texts = [self.language.embed(*chunk) for chunk in batch.texts]
        masks = [mask for _, mask in batch.texts]
        if not self.fused:
            return self._read_text_alone(batch, texts, masks)
        proxy = means(texts, masks)
        nodes = {
            "user": (batch.users, batch.user_nodes.codes.shape[0], batch.speaks.get("user")),
            "item": (batch.items, batch.item_nodes.codes.shape[0], batch.speaks.get("item")),
        }
        node_states = {
            "user": self.node_tokens["user"](batch.user_nodes).index_select(0, batch.users),
            "item": self.node_tokens["item"](batch.item_nodes).index_select(0, batch.items),
        }
        added, levels = self._added_tokens(batch, node_states)
        own = {side: self._own(batch, states) for side, states in node_states.items()}
        proxy, texts, _ = self._run(0, proxy, texts, masks, added[:, :0], [])
        passed_on = []
        for number, layer in enumerate(self.layers, start=1):
            before = proxy, texts
            proxy, texts, pair = self._run(number, proxy, texts, masks, added, levels)
            if self.settings.text_messages:
                pair = pair + means(texts, masks)[:, None]
            passed_on.append(pair.detach())
            proxy = layer(proxy, added, self._starts(number - 1, pair, batch, own), nodes)
        representation = self._readout(batch, masks, (proxy, texts), before)
        return self._answer(batch, representation, torch.stack(passed_on, dim=1))

    def _added_tokens(self, batch: Batch, node_states: dict[str, Tensor]) -> tuple[Tensor, list[int]]:
        """(read, added, width) user, item, structure and perhaps hints token, and the level of each."""
        tokens = [node_states[side][: batch.n_read] for side in ("user", "item")]
        tokens += [tokenise(batch.structure[role]) for role, tokenise in self.structure_tokens.items()]
        levels = [ADDED] * len(tokens)
        if batch.hints is not None:
            tokens.append(self.hints_token(batch.hints))
            levels.append(PROXY)  # what an interaction passes on must not know the labels around it
        return torch.stack(tokens, dim=1), levels

    def _run(
        self, number: int, proxy: Tensor, texts: list[Tensor], masks: list[Tensor], added: Tensor, levels: list[int]
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """The encoder's layer on [p; t; added], chunk by chunk: p̃, t̃, and (ũ, ĩ) as (read, 2, width)."""
        proxies, read, pairs = [], [], []
        sizes = [states.shape[0] for states in texts]
        for states, mask, first, extra in zip(
            texts, masks, torch.split(proxy, sizes), torch.split(added, sizes), strict=True
        ):
            length, more = states.shape[1], extra.shape[1]
            places = torch.arange(-1, length + more, device=states.device)  # the proxy's is NO_PLACE already
            places[length + 1 :] = NO_PLACE
            levelled = None
            if self.settings.fusion == "residual":
                levelled = torch.full((1 + length + more,), TEXT, device=states.device)
                levelled[0] = PROXY
                levelled[length + 1 :] = torch.tensor(levels, device=states.device)
            together = torch.cat([first[:, None], states, extra], dim=1)
            around = functional.pad(mask, (1, more), value=1)
            # Of the added tokens, the next layer gets new ones: only the user's and the item's say something more.
            wanted = 1 + length + min(more, 2)
            after = self.language.run_layer(number, together, around, places, levelled, wanted)
            proxies.append(after[:, 0])
            read.append(after[:, 1 : length + 1])
            pairs.append(after[:, length + 1 : length + 3])
        return torch.cat(proxies), read, torch.cat(pairs)

    def _own(self, batch: Batch, node_states: Tensor) -> Tensor:
        """λ · user token, of read and remembered interactions; with labels, plus that of the label."""
        own = self.settings.lam * node_states
        return own if batch.labels is None else own + self.label_states(batch.labels)

    def _starts(self, layer: int, pair: Tensor, batch: Batch, own: dict[str, Tensor]) -> dict[str, Tensor]:
        """u⁰ = ũ + what is the interaction's own in every layer."""
        starts = {}
        for place, (side, same) in enumerate(own.items()):
            after = pair[:, place]
            if batch.remembered is not None:
                after = torch.cat([after, batch.remembered[:, layer, place]])
            starts[side] = after + same
        return starts

    def _readout(
        self,
        batch: Batch,
        masks: list[Tensor],
        last: tuple[Tensor, list[Tensor]],
        before: tuple[Tensor, list[Tensor]],
    ) -> Tensor:
        """(targets, ·) what the head sees of them.

        paper: the mean over [p; t] of the last two layers. There the proxy is one token among many; concat and gated
        keep it apart from the mean over the text.
        """
        proxy, words = last[0], means(last[1], masks)
        if self.settings.readout == "paper":
            lengths = torch.cat([mask.sum(dim=1, keepdim=True) for mask in masks])
            over_all = [
                (p + lengths * w) / (lengths + 1) for p, w in ((proxy, words), (before[0], means(before[1], masks)))
            ]
            return ((over_all[0] + over_all[1]) / 2)[batch.targets]
        both = torch.cat([proxy, words], dim=1)[batch.targets]
        if self.settings.readout == "concat":
            return both
        gate = torch.sigmoid(self.readout_gate(both))
        return gate * proxy[batch.targets] + (1 - gate) * words[batch.targets]

    def _read_text_alone(self, batch: Batch, texts: list[Tensor], masks: list[Tensor]) -> Output:
        for number in range(self.language.n_layers):
            texts = [self.language.run_layer(number, *chunk) for chunk in zip(texts, masks, strict=True)]
        words = means(texts, masks)
        return self._answer(batch, words[batch.targets])

    def _answer(self, batch: Batch, representation: Tensor, passed_on: Tensor | None = None) -> Output:
        seen = self.dropout(representation)
        if batch.hints is not None:
            seen = torch.cat([seen, batch.hints[batch.targets]], dim=1)
        return Output(self.head(seen), representation, passed_on)
