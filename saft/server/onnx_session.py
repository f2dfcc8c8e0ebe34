"""The model in ONNX Runtime, which computes a single prediction in about half of torch's time.

All predictions then go through it: idle threads of the one library would take time from the busy ones of the other.

Exporting takes some seconds, so the exported model is kept beside the database, under the fingerprint of the model it
came from. Needs the extra ``onnx``; without it, torch is used.
"""

from __future__ import annotations

import importlib.util
import logging
import warnings
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from saft.model.batch import Batch
from saft.online.live import LiveNetwork
from saft.writing import replacing

NEEDED = ("onnx", "onnxruntime", "onnxscript")


def is_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


class _FlatInputs(nn.Module):
    """The model with the tensors of a batch as positional inputs."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors: Tensor) -> Tensor:
        logits: Tensor = self.model(Batch.from_tensors(dict(zip(self.names, tensors, strict=True)))).logits
        return logits


def export(live: LiveNetwork, path: Path) -> None:
    """Write the model of this network as ONNX."""
    # Three times the same ego graph: texts of one length are one chunk.
    tensors = live.predictor.batch([live.ego_graph_of(0)] * 3).to_tensors()
    free = {0: torch.export.Dim.AUTO}
    shapes = [free | ({1: torch.export.Dim.AUTO} if name in ("tokens", "mask") else {}) for name in tensors]
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are about the exporter itself
        program = torch.onnx.export(
            _FlatInputs(live.model.train(False), list(tensors)),
            tuple(tensors.values()),
            dynamo=True,
            dynamic_shapes=(tuple(shapes),),
            input_names=[_input_name(name) for name in tensors],
            verbose=False,
        )
    with replacing(path) as temporary:
        program.save(str(temporary))  # type: ignore[union-attr]


def use_onnx(live: LiveNetwork, path: Path) -> None:
    """Let this network predict through ONNX Runtime; exports the model if the file does not exist."""
    if not path.is_file():
        export(live, path)
    live.use_session(OnnxSession(path))


class SessionOutput(NamedTuple):
    logits: Tensor


class OnnxSession:
    """Logits of a batch whose texts are one chunk."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or torch.get_num_threads()
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._inputs = {given.name for given in self._session.get_inputs()}

    def __call__(self, batch: Batch) -> SessionOutput:
        tensors = {_input_name(name): tensor.numpy() for name, tensor in batch.to_tensors().items()}
        logits = self._session.run(None, {name: tensors[name] for name in self._inputs})[0]
        return SessionOutput(torch.from_numpy(logits))


def _input_name(name: str) -> str:
    return name.replace(".", "_")
