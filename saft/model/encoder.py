"""A Hugging Face encoder split into its embeddings and its layers: the only file that depends on its internals.

``TextEncoder.embed`` gives token states, ``run_layer`` runs one layer on any states, with any tokens added. Families:
BERT (and MiniLM), RoBERTa and XLM-R, ELECTRA, DistilBERT, DeBERTa v2 and v3, MPNet, ModernBERT. With text tokens only,
the result is that of ``AutoModel``.

Added tokens have no position in the text. Families with absolute positions use these in the embeddings only, so their
layers need no change. Families that use distances inside their layers get the distance 0 between an added token and any
other, so that every token attends to the added ones also where attention is local.

The first layers may be frozen. They then count as part of the embeddings: ``embed`` runs them, without dropout and
without gradients, and layers are numbered from the first one above. So the output of the frozen layers can be computed
once and given to ``embed`` instead of the tokens.

Attention can be restricted by levels: a token attends to those of its own level and below. With the text on the lowest
level its states are those of the encoder alone, whatever is added above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from saft.errors import InputError
from saft.features.backbones import open_backbone

NO_POSITION = -1  # position of an added token
DEPTHS = 3  # at so many depths of the frozen layers, means of a text's states are taken


class TextEncoder(nn.Module):
    """An encoder, optionally cut to its first layers.

    Attributes:
        width: of token states.
        n_layers: number of layers in use above the frozen ones.
    """

    def __init__(self, model: Any, layers: int | None = None, trained: int | None = None) -> None:
        super().__init__()
        family = FAMILIES.get(model.config.model_type)
        if family is None:
            raise InputError(
                f"Encoders of the family {model.config.model_type!r} cannot be opened. Known are {', '.join(FAMILIES)}."
            )
        self.model = model
        self.family = family
        available = len(family.layers(model))
        used = available if layers is None else layers
        if not 1 <= used <= available:
            raise InputError(f"This encoder has {available} layers; cannot use the first {layers}.")
        self.width = int(model.config.hidden_size)
        self.n_layers = used if trained is None else min(trained, used)
        self.frozen = used - self.n_layers
        family.cut(model, used)
        if self.frozen:
            model.requires_grad_(False)
            family.layers(model)[self.frozen :].requires_grad_(True)

    @classmethod
    def load(cls, name: str, layers: int | None = None, trained: int | None = None) -> TextEncoder:
        """A packaged one, a local folder or a hub name; ``layers`` are kept, the last of them ``trained``."""
        from transformers import AutoModel
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        return cls(open_backbone(AutoModel, name), layers, trained)

    @property
    def longest_text(self) -> int:
        """Maximum number of tokens; families that use distances alone have no limit of their own."""
        config = self.model.config
        if config.model_type == "deberta-v2" and not config.position_biased_input:
            return 1 << 20
        # RoBERTa and MPNet number positions from the padding id + 1.
        reserved = config.pad_token_id + 1 if config.model_type in ("roberta", "xlm-roberta", "mpnet") else 0
        return int(config.max_position_embeddings) - reserved

    def frozen_parameters(self) -> list[tuple[str, Tensor]]:
        """Everything that the output of the frozen layers depends on."""
        return [(name, tensor) for name, tensor in self.model.named_parameters() if not tensor.requires_grad]

    def word_vectors(self) -> nn.Module:
        """The table of token vectors: most of a small encoder's parameters."""
        return self.model.get_input_embeddings()

    def train(self, mode: bool = True) -> Self:
        """Frozen parts stay in evaluation mode: dropout would change their output for a text every time."""
        super().train(mode)
        if self.frozen:
            self.model.train(False)
            self.family.layers(self.model)[self.frozen :].train(mode)
        return self

    def embed(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(texts, length, width) states before the first layer that is not frozen.

        Args:
            tokens: (texts, length) ids; or such states, computed earlier, which are returned as they are.
            mask: (texts, length), 1 for tokens that are there.
        """
        return tokens if tokens.is_floating_point() else self.read(tokens, mask)[0]

    def read(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(states as :meth:`embed` gives them, (texts, depths, width) their means at several depths on the way there).

        Lower layers know how a text is written, upper ones what it is about.
        """
        states = self.family.embed(self.model, tokens, mask)
        means = []
        for number in range(self.frozen):
            states = self.run_layer(number - self.frozen, states, mask)
            if number + 1 in self.depths:
                means.append(masked_mean(states, mask))
        return states, torch.stack(means, dim=1) if means else states.new_empty(len(states), 0, self.width)

    @property
    def depths(self) -> list[int]:
        """Frozen layers, numbered from 1, after which a text's mean is taken: the last, and others evenly below it."""
        return sorted({round(self.frozen * part / DEPTHS) for part in range(1, DEPTHS + 1)} - {0})

    def run_layer(
        self,
        number: int,
        states: Tensor,
        mask: Tensor,
        positions: Tensor | None = None,
        attention_levels: Tensor | None = None,
        wanted: int | None = None,
    ) -> Tensor:
        """Layer ``number`` on these states; 0 is the first that is not frozen.

        Args:
            states: (texts, length, width).
            mask: (texts, length), 1 for tokens that are there.
            positions: (length,) of each token in the text, NO_POSITION for added ones; None means text only.
            attention_levels: (length,) a token attends to those of its own level and below; None means to all.
            wanted: number of first tokens whose states are returned; the others are only attended to. None means all.
        """
        if positions is None:
            positions = torch.arange(states.shape[1], device=states.device)
        attention = _Attention(
            mask,
            positions,
            None if attention_levels is None else attention_levels[None] <= attention_levels[:, None],
            wanted,
        )
        after = self.family.run(self.model, self.frozen + number, states, attention, last=number == self.n_layers - 1)
        return after[:, :wanted]

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The last layer's states of the text alone, as ``AutoModel`` gives them."""
        states = self.embed(tokens, mask)
        for number in range(self.n_layers):
            states = self.run_layer(number, states, mask)
        return states


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """(texts, width) mean over the tokens, without padding."""
    there = mask.to(states.dtype)[:, :, None]
    return (states * there).sum(dim=1) / there.sum(dim=1)


@dataclass(frozen=True)
class _Attention:
    """Mask and positions of tokens, which of them (row) may attend to which (column; None: all to all), and how many of
    the first are returned after the layer (None: all)."""

    mask: Tensor  # (texts, length)
    positions: Tensor  # (length,)
    allowed: Tensor | None  # (length, length)
    wanted: int | None

    def pairs(self) -> Tensor:
        """(texts, length, length) booleans: whether a token (row) may attend to another (column)."""
        there = self.mask.bool()[:, None, :]
        return there.expand(-1, len(self.positions), -1) if self.allowed is None else there & self.allowed


class _Family:
    """The parts of an encoder. This one: absolute positions in the embeddings, then ``encoder.layer``, as in BERT."""

    def layers(self, model: Any) -> nn.ModuleList:
        return model.encoder.layer

    def cut(self, model: Any, count: int) -> None:
        del self.layers(model)[count:]

    def embed(self, model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        return model.embeddings(input_ids=tokens)

    def run(self, model: Any, number: int, states: Tensor, attention: _Attention, last: bool) -> Tensor:
        """The layer's output; if the family allows it, only ``wanted`` tokens are computed after attention."""
        layer: Any = self.layers(model)[number]
        attended, _ = layer.attention(states, _attention_mask(model, states, attention))
        return layer.feed_forward_chunk(attended[:, : attention.wanted])


class _Electra(_Family):
    def embed(self, model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        states = model.embeddings(input_ids=tokens)
        return model.embeddings_project(states) if hasattr(model, "embeddings_project") else states


class _DistilBert(_Family):
    def layers(self, model: Any) -> nn.ModuleList:
        return model.transformer.layer

    def embed(self, model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        return model.embeddings(tokens)

    def run(self, model: Any, number: int, states: Tensor, attention: _Attention, last: bool) -> Tensor:
        return self.layers(model)[number](states, _attention_mask(model, states, attention))


class _MPNet(_Family):
    """Distances enter as a bias per bucket of the distance, the same in all layers."""

    def run(self, model: Any, number: int, states: Tensor, attention: _Attention, last: bool) -> Tensor:
        encoder = model.encoder
        buckets = encoder.relative_position_bucket(
            -_distances(attention.positions), num_buckets=model.config.relative_attention_num_buckets
        )
        bias = encoder.relative_attention_bias(buckets).permute(2, 0, 1)[None]
        bias = bias.expand(len(states), -1, -1, -1).contiguous()
        return encoder.layer[number](states, _attention_mask(model, states, attention), bias)[0]


class _Deberta(_Family):
    """Distances enter the attention scores through embeddings of their (logarithmic) buckets."""

    def embed(self, model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        return model.embeddings(input_ids=tokens, token_type_ids=torch.zeros_like(tokens), mask=mask)

    def run(self, model: Any, number: int, states: Tensor, attention: _Attention, last: bool) -> Tensor:
        encoder = model.encoder
        result = encoder.layer[number](
            states,
            encoder.get_attention_mask(attention.mask if attention.allowed is None else attention.pairs()),
            relative_pos=self._relative(encoder, _distances(attention.positions)),
            rel_embeddings=encoder.get_rel_embedding(),
        )[0]
        if number == 0 and encoder.conv is not None:
            # A convolution along the text: added tokens have no position in it, so it runs on text tokens only.
            text = (attention.positions != NO_POSITION).nonzero().squeeze(1)
            mixed = encoder.conv(states[:, text], result[:, text], attention.mask[:, text])
            result = result.index_copy(1, text, mixed)
        return result

    @staticmethod
    def _relative(encoder: Any, distances: Tensor) -> Tensor | None:
        if not encoder.relative_attention:
            return None
        if encoder.position_buckets > 0 and encoder.max_relative_positions > 0:
            from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

            distances = make_log_bucket_position(distances, encoder.position_buckets, encoder.max_relative_positions)
        return distances.long()[None]


class _ModernBert(_Family):
    """Rotary positions, and layers that alternate between global and local attention."""

    def layers(self, model: Any) -> nn.ModuleList:
        return model.layers

    def run(self, model: Any, number: int, states: Tensor, attention: _Attention, last: bool) -> Tensor:
        layer = model.layers[number]
        visible = attention.pairs()[:, None]
        if layer.attention_type == "sliding_attention":
            visible = visible & (_distances(attention.positions).abs() <= model.config.sliding_window)
        rotary = model.rotary_emb(states, attention.positions.clamp(min=0)[None], layer.attention_type)
        states = layer(states, attention_mask=_to_encoder_format(model, visible, states), position_embeddings=rotary)
        return model.final_norm(states) if last else states


def _distances(positions: Tensor) -> Tensor:
    """(length, length) position of the query minus that of the key; 0 where one of them is an added token."""
    added = positions == NO_POSITION
    return (positions[:, None] - positions[None]).masked_fill(added[:, None] | added[None], 0)


def _attention_mask(model: Any, states: Tensor, attention: _Attention) -> Any:
    """The mask in the format of this encoder's attention; made by transformers where all tokens attend to all."""
    from transformers.masking_utils import create_bidirectional_mask

    if attention.allowed is not None:
        return _to_encoder_format(model, attention.pairs()[:, None], states)
    return create_bidirectional_mask(config=model.config, inputs_embeds=states, attention_mask=attention.mask)


def _to_encoder_format(model: Any, visible: Tensor, states: Tensor) -> Tensor:
    """Booleans for torch's own attention, very negative numbers where the scores are computed step by step."""
    if model.config._attn_implementation == "sdpa":
        return visible
    lowest = torch.finfo(states.dtype).min
    return torch.zeros_like(visible, dtype=states.dtype).masked_fill(~visible, lowest)


FAMILIES: dict[str, _Family] = {
    "bert": _Family(),
    "roberta": _Family(),
    "xlm-roberta": _Family(),
    "electra": _Electra(),
    "distilbert": _DistilBert(),
    "mpnet": _MPNet(),
    "deberta-v2": _Deberta(),
    "modernbert": _ModernBert(),
}
