"""The model in ONNX Runtime, which computes a single prediction in about half of torch's time.

All predictions then go through it: idle threads of the one library would take time from the busy ones of the other.
The encoder's frozen layers are a file of their own, because their output for a text is remembered. Where no layer is
trained they are all there is: a regression needs no runtime.

Exporting takes some seconds, so both files are kept beside the database, under the fingerprint of the model they came
from. Each holds its own name as a mark, behind everything else: a file without it is not whole, or not ours. Needs the
extra ``onnx``; without it, torch is used.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from saft.model.batch import Batch
from saft.model.encoder import TextEncoder
from saft.online.live import LiveNetwork
from saft.writing import replacing

NEEDED = ("onnx", "onnxruntime", "onnxscript")
MARK = "saft"
_log = logging.getLogger(__name__)


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


class _Frozen(nn.Module):
    """The frozen layers alone, with padded tokens and their mask as positional inputs."""

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        return self.encoder.read(*tensors)


def export(live: LiveNetwork, path: Path) -> None:
    """Write the model of this network as ONNX, without frozen layers."""
    # Three times the same ego graph: texts of one length are one chunk.
    tensors = live.predictor.batch([live.ego_graph_of(0)] * 3).to_tensors()
    _export(_FlatInputs(live.model.train(False), list(tensors)), tensors, path)


def export_frozen(encoder: TextEncoder, path: Path) -> None:
    """Write the frozen layers of this encoder as ONNX."""
    tokens = torch.zeros((3, 5), dtype=torch.int64)
    _export(_Frozen(encoder.train(False)), {"tokens": tokens, "mask": torch.ones_like(tokens)}, path)


def _export(module: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Number and length of texts, and whatever follows from them, stay free; other shapes are those of the tensors."""
    free = {0: torch.export.Dim.AUTO}
    shapes = tuple(free | ({1: torch.export.Dim.AUTO} if name in ("tokens", "mask") else {}) for name in tensors)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are about the exporter itself
        program = torch.onnx.export(
            module,
            tuple(tensors.values()),
            dynamo=True,
            dynamic_shapes=(shapes,),
            input_names=[_input_name(name) for name in tensors],
            verbose=False,
        )
    program.model.metadata_props[MARK] = path.name  # type: ignore[union-attr]
    with replacing(path) as temporary:
        program.save(str(temporary))  # type: ignore[union-attr]


def exported_files(path: Path) -> tuple[Path, Path]:
    """Of a model that is exported to this path: the file of its trained part, and that of its frozen layers."""
    return path, path.with_suffix(".frozen.onnx")


def use_onnx(live: LiveNetwork, path: Path) -> None:
    """Let this network predict through ONNX Runtime; exports what does not exist of the files, or is not whole."""
    trained, frozen = exported_files(path)
    session, read = None, None
    if live.layers is not None:
        encoder = live.layers.encoder
        read = _opened(OnnxLayers, frozen, lambda: export_frozen(encoder, frozen))
    if live.settings.trains_encoder:
        session = _opened(OnnxSession, trained, lambda: export(live, trained))
    live.use_session(session, read)


def remove_outdated(path: Path) -> None:
    """Remove what other models were exported to beside this path: only files with our names and our mark in them."""
    stem = path.name.split(".")[:-2]
    ours = re.compile(rf"{re.escape('.'.join(stem))}\.[0-9a-f]{{12}}(\.frozen)?\.onnx")
    for other in path.parent.iterdir():
        if ours.fullmatch(other.name) and other not in exported_files(path) and _is_marked(other):
            other.unlink()


def _is_marked(path: Path) -> bool:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, OSError):
        return False
    return any((entry.key, entry.value) == (MARK, path.name) for entry in model.metadata_props)


def _opened(kind: Callable[[Path], Any], path: Path, make: Callable[[], None]) -> Any:
    """The session of this file, which is made first, or again, if need be."""
    if path.is_file():
        try:
            return kind(path)
        except Exception as error:  # the runtime's errors have no base of their own
            _log.warning("%s cannot be used (%s) and is exported again.", path, str(error).partition("\n")[0])
    make()
    return kind(path)


class SessionOutput(NamedTuple):
    logits: Tensor


class OnnxSession:
    """Logits of a batch whose texts are one chunk."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        self._session = _session(path, threads)
        self._inputs = {given.name for given in self._session.get_inputs()}

    def __call__(self, batch: Batch) -> SessionOutput:
        tensors = {_input_name(name): tensor.numpy() for name, tensor in batch.to_tensors().items()}
        logits = self._session.run(None, {name: tensors[name] for name in self._inputs})[0]
        return SessionOutput(torch.from_numpy(logits))


class OnnxLayers:
    """Output of the frozen layers for padded tokens, as ``TextEncoder.read`` gives it."""

    def __init__(self, path: Path, threads: int = 0) -> None:
        self._session = _session(path, threads)

    def __call__(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        states, means = self._session.run(None, {"tokens": tokens.numpy(), "mask": mask.numpy()})
        return torch.from_numpy(states), torch.from_numpy(means)


def _session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or torch.get_num_threads()
    # Threads of a session that has nothing to do would wait busily, and take the cores from the one whose turn it is.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    if session.get_modelmeta().custom_metadata_map.get(MARK) != path.name:
        raise ValueError("it is not whole, or not of this model")
    return session


def _input_name(name: str) -> str:
    return name.replace(".", "_")
