"""What differs between families of encoders: where their layers are, and how positions enter them.

BERT (and MiniLM), RoBERTa and XLM-R, ELECTRA, DistilBERT, DeBERTa v2 and v3, MPNet, ModernBERT. Nothing else depends on
the internals of Hugging Face's models.

Added tokens have no position in the text. Families with absolute positions use these in the embeddings only, so their
layers need no change. Families that use distances inside their layers get the distance 0 between an added token and any
other, so that every token attends to the added ones also where attention is local.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

NO_POSITION = -1  # position of an added token


@dataclass(frozen=True)
class Attention:
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


class Family:
    """The parts of an encoder. This one: absolute positions in the embeddings, then ``encoder.layer``, as in BERT."""

    def layers(self, model: Any) -> nn.ModuleList:
        return model.encoder.layer

    def cut(self, model: Any, count: int) -> None:
        del self.layers(model)[count:]

    def embed(self, model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        return model.embeddings(input_ids=tokens)

    def run(self, model: Any, number: int, states: Tensor, attention: Attention, last: bool) -> Tensor:
        """The layer's output; if the family allows it, only ``wanted`` tokens are computed after attention."""
        layer: Any = self.layers(model)[number]
        attended, _ = layer.attention(states, _attention_mask(model, states, attention))
        return layer.feed_forward_chunk(attended[:, : attention.wanted])


class _Electra(Family):
    def embed(self, model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        states = model.embeddings(input_ids=tokens)
        return model.embeddings_project(states) if hasattr(model, "embeddings_project") else states


class _DistilBert(Family):
    def layers(self, model: Any) -> nn.ModuleList:
        return model.transformer.layer

    def embed(self, model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        return model.embeddings(tokens)

    def run(self, model: Any, number: int, states: Tensor, attention: Attention, last: bool) -> Tensor:
        return self.layers(model)[number](states, _attention_mask(model, states, attention))


class _MPNet(Family):
    """Distances enter as a bias per bucket of the distance, the same in all layers."""

    def run(self, model: Any, number: int, states: Tensor, attention: Attention, last: bool) -> Tensor:
        encoder = model.encoder
        buckets = encoder.relative_position_bucket(
            -_distances(attention.positions), num_buckets=model.config.relative_attention_num_buckets
        )
        bias = encoder.relative_attention_bias(buckets).permute(2, 0, 1)[None]
        bias = bias.expand(len(states), -1, -1, -1).contiguous()
        return encoder.layer[number](states, _attention_mask(model, states, attention), bias)[0]


class _Deberta(Family):
    """Distances enter the attention scores through embeddings of their (logarithmic) buckets."""

    def embed(self, model: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        return model.embeddings(input_ids=tokens, token_type_ids=torch.zeros_like(tokens), mask=mask)

    def run(self, model: Any, number: int, states: Tensor, attention: Attention, last: bool) -> Tensor:
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


class _ModernBert(Family):
    """Rotary positions, and layers that alternate between global and local attention."""

    def layers(self, model: Any) -> nn.ModuleList:
        return model.layers

    def run(self, model: Any, number: int, states: Tensor, attention: Attention, last: bool) -> Tensor:
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


def _attention_mask(model: Any, states: Tensor, attention: Attention) -> Any:
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


FAMILIES: dict[str, Family] = {
    "bert": Family(),
    "roberta": Family(),
    "xlm-roberta": Family(),
    "electra": _Electra(),
    "distilbert": _DistilBert(),
    "mpnet": _MPNet(),
    "deberta-v2": _Deberta(),
    "modernbert": _ModernBert(),
}
