"""Frozen vectors of texts, computed once and kept: all methods that do not train the encoder share one cache.

Kept in half precision in the folder that the environment variable SAFT_CACHE names (``~/.cache/saft`` without it),
under a name that is a hash of the tokens, the encoder's weights and how they are pooled: a change of text,
encoder or cut leads to another file. Deleting the folder loses nothing but time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from saft.errors import InputError
from saft.features.backbones import open_backbone
from saft.features.tokens import Tokens, enough_tokens, load_tokenizer, tokenise
from saft.model.base import pooled
from saft.model.encoder import TextEncoder
from saft.model.families import FAMILIES
from saft.settings import Settings
from saft.writing import cache_folder, replacing

TEXTS_AT_ONCE = 64


def text_vectors(
    texts: pl.Series, settings: Settings, pooling: str, on_message: Callable[[str], None] = lambda message: None
) -> np.ndarray:
    """(texts, width), float32, from the encoder that the settings name.

    ``encoder`` may be a name or folder of any transformer, a ``.gguf`` file, or a ``.npy`` file with one row per text
    that was computed elsewhere.

    Args:
        pooling: the state of the ``first`` token, the ``mean`` over all, or the state of the ``last``.
    """
    if settings.encoder.endswith(".npy"):
        return _given(Path(settings.encoder), len(texts))
    on_message("Tokenising texts")
    tokenizer = load_tokenizer(settings.encoder)
    tokens = tokenise(texts, tokenizer, settings.max_length or enough_tokens(texts, tokenizer))
    encoder = frozen_encoder(settings.encoder, settings.layers, settings.precision)
    file = cache_folder() / "vectors" / f"{_key(tokens, encoder, pooling, settings.precision)}.npy"
    if file.is_file():
        on_message("Vectors of these texts are known already")
        return np.load(file, allow_pickle=False).astype(np.float32)
    vectors = encode(encoder, tokens, pooling, on_message).astype(np.float16)
    with replacing(file) as temporary, temporary.open("wb") as opened:
        np.save(opened, vectors, allow_pickle=False)
    return vectors.astype(np.float32)


def frozen_encoder(name: str, layers: int, precision: str = "fp32") -> nn.Module:
    """(tokens, mask) → states of the last layer used. Any transformer will do: only its output is needed."""
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = open_backbone(AutoModel, name)
    if model.config.model_type in FAMILIES:
        return TextEncoder(model, layers or None, precision=precision).train(False)
    return _Whole(model, layers).train(False)


class _Whole(nn.Module):
    """A transformer of any other family, e.g. a causal one, of which only the output is used."""

    def __init__(self, model: Any, layers: int) -> None:
        super().__init__()
        self.model = model
        if layers:
            stack = getattr(model, "layers", None)
            if stack is None or len(stack) < layers:
                raise InputError(f"The encoder of family {model.config.model_type!r} cannot be cut to {layers} layers.")
            del stack[layers:]

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=tokens, attention_mask=mask).last_hidden_state


@torch.inference_mode()
def encode(
    encoder: nn.Module, tokens: Tokens, pooling: str, on_message: Callable[[str], None] = lambda message: None
) -> np.ndarray:
    """(texts, width), texts of similar length together; a text without tokens is all zeros."""
    order = np.argsort(-tokens.lengths, kind="stable")
    order = order[tokens.lengths[order] > 0]
    result = np.zeros((0, 0), dtype=np.float32)
    for first in range(0, len(order), TEXTS_AT_ONCE):
        some = order[first : first + TEXTS_AT_ONCE]
        ids, mask = map(torch.from_numpy, tokens.padded(some))
        vectors = pooled(encoder(ids, mask), mask, pooling).float().numpy()
        if not result.size:
            result = np.zeros((len(tokens), vectors.shape[1]), dtype=np.float32)
        result[some] = vectors
        on_message(f"Reading texts: {first + len(some):,} of {len(tokens):,}")
    return result


def _given(file: Path, count: int) -> np.ndarray:
    try:
        vectors = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as a matrix of numbers: {error}") from error
    if vectors.ndim != 2 or len(vectors) != count or not np.issubdtype(vectors.dtype, np.floating):
        raise InputError(
            f"{file} holds {vectors.dtype} of shape {vectors.shape}; needed is one row of floating-point numbers for "
            f"each of the {count:,} interactions, in their order."
        )
    if not np.isfinite(vectors).all():
        raise InputError(f"{file} holds numbers that are not finite.")
    return vectors.astype(np.float32)


def _key(tokens: Tokens, encoder: nn.Module, pooling: str, precision: str) -> str:
    digest = hashlib.sha256(f"{pooling} {precision}".encode())
    digest.update(tokens.flat.tobytes())
    digest.update(tokens.starts.tobytes())
    for name, tensor in encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.ndim else repr(tensor).encode())
    return digest.hexdigest()[:40]
