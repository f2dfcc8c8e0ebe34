"""Encoders that come as an int8 ONNX file → a folder that ``AutoModel.from_pretrained`` opens, in single precision.

A quantised weight is stored as (q, scale, zero point), per tensor or per output column, and stands for
(q − zero point) · scale. Weights that are not quantised are taken as they are. The weight of a linear layer is an
anonymous input of its MatMul node, transposed; the node's name says which layer it is.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from saft.errors import InputError
from saft.tensors import write_tensors
from saft.writing import as_json

BESIDE = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")


def unpack(model: Path, folder: Path, config: Mapping[str, Any] | None = None, prefix: str = "") -> Path:
    """Write ``folder`` from this ONNX file and what is beside it, unless it exists; all of it or nothing.

    Args:
        config: written as ``config.json``; None if that is beside the file.
        prefix: the tokenizer of the folder puts this before every text.
    """
    if folder.is_dir():
        return folder
    try:
        import onnx
    except ImportError as error:
        raise InputError(f"Unpacking {model.name} needs the package onnx. Install it with: pip install onnx") from error
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        write_tensors(new / "model.safetensors", weights_of(onnx.load(str(model))), {"format": "pt"})
        for name in BESIDE:  # the caller has verified them
            if (model.parent / name).is_file():
                shutil.copyfile(model.parent / name, new / name)
        if config is not None:
            (new / "config.json").write_text(as_json(dict(config), indent=2), encoding="utf-8")
        if prefix:
            put_before_texts(prefix, new)
        if not folder.is_dir():  # another process may have been faster
            new.rename(folder)
    return folder


def put_before_texts(prefix: str, folder: Path) -> None:
    """Let the tokenizer of this folder tokenise a text as it would tokenise ``prefix`` + text.

    The prefix becomes a part of what surrounds every text, as [CLS] and [SEP] are. So it also stands before an empty
    text, it is never cut off, and it is not repeated behind a special token inside of a text. It has to end with a
    space, so that its last token does not depend on the text.
    """
    from tokenizers import Tokenizer

    file, config = folder / "tokenizer.json", folder / "tokenizer_config.json"
    # Truncation and padding are the caller's.
    described = json.loads(file.read_text(encoding="utf-8")) | {"truncation": None, "padding": None}
    read = Tokenizer.from_str(as_json(described)).encode(prefix, add_special_tokens=False)
    around = described["post_processor"]
    around["single"][1:1] = [{"SpecialToken": {"id": token, "type_id": 0}} for token in read.tokens]
    for token, number in zip(read.tokens, read.ids, strict=True):
        around["special_tokens"][token] = {"id": token, "ids": [number], "tokens": [token]}
    file.write_text(as_json(described), encoding="utf-8")
    # The tokenizer class of the encoder's family would make its own surroundings from the vocabulary.
    settings = json.loads(config.read_text(encoding="utf-8")) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    config.write_text(as_json(settings, indent=2), encoding="utf-8")
    (folder / "vocab.txt").unlink(missing_ok=True)


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """Parameter name → array, float32, of a BERT that was exported and then quantised dynamically."""
    from onnx import numpy_helper

    stored = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    weights = {name: array for name, array in stored.items() if re.fullmatch(r"[\w.]+\.(weight|bias)", name)}
    quantised = {name.removesuffix("_quantized") for name in stored if name.endswith("_quantized")}
    weights |= {name: dequantised(stored, name) for name in quantised if re.fullmatch(r"[\w.]+\.weight", name)}
    for node in model.graph.node:
        layer = re.fullmatch(r"/(.+)/MatMul(?:_quant)?", node.name)
        given = node.input[1].removesuffix("_quantized") if len(node.input) > 1 else ""
        if layer is not None and (given in quantised or given in stored):
            weight = dequantised(stored, given) if given in quantised else stored[given]
            weights[f"{layer[1].replace('/', '.')}.weight"] = weight.T
    return {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in weights.items()}


def dequantised(stored: dict[str, np.ndarray], name: str) -> np.ndarray:
    """(q − zero point) · scale; scale and zero point are scalars, or one per column."""
    q, scale, zero_point = (stored[f"{name}_{part}"] for part in ("quantized", "scale", "zero_point"))
    return (q.astype(np.float32) - zero_point.astype(np.float32)) * scale.astype(np.float32)
