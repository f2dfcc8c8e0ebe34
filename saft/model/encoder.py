"""TextEncoder: a Hugging Face encoder split into its embeddings and its layers.

``TextEncoder.embed`` gives token states, ``run_layer`` runs one layer on any states, with any tokens added. With text
tokens only, the result is that of ``AutoModel``. What differs between families of encoders: :mod:`saft.model.families`.

The first layers may be frozen. They then count as part of the embeddings: ``embed`` runs them, without dropout and
without gradients, and layers are numbered from the first one above. So the output of the frozen layers can be computed
once and given to ``embed`` instead of the tokens.

Attention can be restricted by levels: a token attends to those of its own level and below. With the text on the lowest
level its states are those of the encoder alone, whatever is added above it.

Layers may compute in bfloat16 (``precision``), which processors that have it do several times as fast. Their inputs,
outputs and weights stay in float32, and an export is always float32.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import torch
from torch import Tensor, nn

from saft.errors import InputError
from saft.features.backbones import open_backbone, telling_layers
from saft.model.families import FAMILIES, Attention

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
DEPTHS = 3  # at so many depths of the frozen layers, means of a text's states are taken


class TextEncoder(nn.Module):
    """An encoder, optionally cut to its first layers; without a trained one, to those that tell most of a text.

    Args:
        layers: number of first ones that are used; None means all.
        trained: number of last ones, among these, that are not frozen; None means all.
        precision: in which layers compute, a key of ``PRECISIONS``.

    Attributes:
        width: of token states.
        n_layers: number of layers in use above the frozen ones.
    """

    def __init__(
        self, model: Any, layers: int | None = None, trained: int | None = None, precision: str = "fp32"
    ) -> None:
        super().__init__()
        self.precision = precision
        family = FAMILIES.get(model.config.model_type)
        if family is None:
            raise InputError(
                f"Encoders of the family {model.config.model_type!r} cannot be opened. Known are {', '.join(FAMILIES)}."
            )
        self.model = model
        self.family = family
        available = len(family.layers(model))
        used = layers
        if used is None:
            used = telling_layers(available) if trained == 0 else available
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
    def load(
        cls, name: str, layers: int | None = None, trained: int | None = None, precision: str = "fp32"
    ) -> TextEncoder:
        """A packaged one, a local folder or a hub name; ``layers`` are kept, the last of them ``trained``."""
        from transformers import AutoModel
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        return cls(open_backbone(AutoModel, name), layers, trained, precision)

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
        attention = Attention(
            mask,
            positions,
            None if attention_levels is None else attention_levels[None] <= attention_levels[:, None],
            wanted,
        )
        last = number == self.n_layers - 1
        with self._in_precision(states):
            after = self.family.run(self.model, self.frozen + number, states, attention, last)
        return after[:, :wanted].float()

    def _in_precision(self, states: Tensor) -> AbstractContextManager[Any]:
        if self.precision == "fp32" or torch.compiler.is_exporting():
            return nullcontext()
        return torch.autocast(states.device.type, PRECISIONS[self.precision])

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
