"""The encoder and the tokenizer of a model folder, opened with care: sizes are compared with the weights first.

A description of a few bytes can ask for a million layers, or for layers of a terabyte.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from saft.errors import InputError
from saft.model.encoder import TextEncoder
from saft.settings import Settings

MOST_LAYERS = 200
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def open_tokenizer(folder: Path, encoder: TextEncoder) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    if max(tokenizer.get_vocab().values()) >= encoder.model.config.vocab_size:
        raise InputError(f"The tokenizer in {folder} has words that the encoder does not know.")
    return tokenizer


def open_encoder(folder: Path, settings: Settings, weights: Mapping[str, Tensor]) -> TextEncoder:
    """The encoder's architecture; its weights, which are part of the model's, are still to be loaded."""
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    for name in _LAYERS:
        if getattr(config, name, 0) > MOST_LAYERS:
            raise InputError(f"{folder / 'config.json'} describes an encoder of more than {MOST_LAYERS} layers.")
    with torch.device("meta"):  # nothing is allocated
        sketch = _cut(AutoModel.from_config(config, trust_remote_code=False), settings)  # type: ignore[no-untyped-call]
    for name, tensor in sketch.named_parameters(prefix="encoder"):
        if name not in weights or weights[name].shape != tensor.shape:
            raise InputError(f"{folder / 'config.json'} describes an encoder that these are not the weights of.")
    return _cut(AutoModel.from_config(config, trust_remote_code=False), settings)  # type: ignore[no-untyped-call]


def _cut(model: Any, settings: Settings) -> TextEncoder:
    return TextEncoder(model, settings.layers or None, settings.trained_layers, settings.precision)
