"""The model in ONNX Runtime, which answers a single question in about half of torch's time.

It answers all of them: threads of both that wait for work would take the time of those that work.

Exporting takes some seconds, so the exported model is kept beside the database, under the fingerprint of the model it
came from. Needs the extra ``onnx``; without it, torch answers.
"""

from __future__ import annotations

import importlib.util
import logging
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from saft.model.batch import Batch, Nodes
from saft.online.live import LiveNetwork
from saft.writing import replacing

NEEDED = ("onnx", "onnxruntime", "onnxscript")


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def tensors_of(batch: Batch) -> dict[str, Tensor]:
    """Everything that a model is shown, by name. Texts have to stand in one chunk."""
    [(tokens, mask)] = batch.texts
    found: dict[str, Tensor | None] = {
        "tokens": tokens,
        "mask": mask,
        "users": batch.users,
        "items": batch.items,
        "user_codes": batch.user_nodes.codes,
        "user_vectors": batch.user_nodes.vectors,
        "item_codes": batch.item_nodes.codes,
        "item_vectors": batch.item_nodes.vectors,
        "labels": batch.labels,
        "hints": batch.hints,
        "remembered": batch.remembered,
        **{f"{side} speaks": who for side, who in batch.speaks.items()},
        **{f"structure {role}": vectors for role, vectors in batch.structure.items()},
    }
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def batch_of(shown: dict[str, Tensor]) -> Batch:
    """The other way round."""
    tokens = shown["tokens"]
    every = torch.arange(tokens.shape[0])
    return Batch(
        texts=[(tokens, shown["mask"])],
        users=shown["users"],
        items=shown["items"],
        user_nodes=Nodes(shown["user_codes"], shown["user_vectors"]),
        item_nodes=Nodes(shown["item_codes"], shown["item_vectors"]),
        structure={name.removeprefix("structure "): shown[name] for name in shown if name.startswith("structure ")},
        targets=every,
        answers=every,
        labels=shown.get("labels"),
        hints=shown.get("hints"),
        remembered=shown.get("remembered"),
        speaks={name.removesuffix(" speaks"): shown[name] for name in shown if name.endswith(" speaks")},
        rows=tokens,  # type: ignore[arg-type]  # only its length is looked at
    )


class _Exported(nn.Module):
    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors: Tensor) -> Tensor:
        logits: Tensor = self.model(batch_of(dict(zip(self.names, tensors, strict=True)))).logits
        return logits


def export(live: LiveNetwork, path: Path) -> None:
    """Write the model of this network as ONNX."""
    cases = [live.case_of(number) for number in range(min(3, len(live)))]
    shown = tensors_of(live.reading.batch(cases))
    names = list(shown)
    free = {0: torch.export.Dim.AUTO}
    shapes = [free | ({1: torch.export.Dim.AUTO} if name in ("tokens", "mask") else {}) for name in names]
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        program = torch.onnx.export(
            _Exported(live.reading.model.train(False), names),
            tuple(shown.values()),
            dynamo=True,
            dynamic_shapes=(tuple(shapes),),
            input_names=[name.replace(" ", "_") for name in names],
            verbose=False,
        )
    with replacing(path) as temporary:
        program.save(str(temporary))  # type: ignore[union-attr]


def hasten(live: LiveNetwork, path: Path) -> None:
    """Let this network answer through ONNX Runtime; exports the model if there is no such file yet."""
    if not path.is_file():
        export(live, path)
    live.reading = replace(live.reading, fast=OnnxSession(path))


class OnnxSession:
    """Logits of small batches."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or torch.get_num_threads()
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._wanted = {given.name for given in self._session.get_inputs()}

    def __call__(self, batch: Batch) -> np.ndarray:
        shown = {name.replace(" ", "_"): tensor.numpy() for name, tensor in tensors_of(batch).items()}
        logits: np.ndarray = self._session.run(None, {name: shown[name] for name in self._wanted})[0]
        return logits
