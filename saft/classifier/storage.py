"""A model as a folder: weights, settings, encoder, tokenizer, structure and the known interactions.

The folder is never half written: files go to a temporary folder beside it, which is moved at the end. ``model.json``
lists every file with its sha256, so that missing or mixed-up files are detected on loading.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import saft
from saft.classifier.assembly import Assembly, Cache
from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError
from saft.features.context import ContextModel
from saft.features.featurizer import FeaturizerState, new_structure
from saft.features.ngrams import NgramModel
from saft.features.nodes import Attributes
from saft.features.sentences import SentenceModel
from saft.features.style import StyleModel
from saft.features.trees import TreeModel
from saft.hashing import file_digest
from saft.learning.neighbour_cache import NeighbourCache
from saft.learning.node_sums import NodeSums
from saft.settings import NO_ENCODER, Settings
from saft.writing import is_half_written

if TYPE_CHECKING:
    from saft.model.encoder import TextEncoder

FORMAT = 4
FACTS, CHECKPOINT = "model.json", "checkpoint.safetensors"
WEIGHTS, STRUCTURE = "weights.safetensors", "structure.safetensors"
NGRAMS, SENTENCES = "ngrams.safetensors", "sentences.safetensors"
CONTEXT, STYLE, TREES = "context.safetensors", "style.safetensors", "trees.safetensors"
CACHE = "neighbour_cache.safetensors"
SUMS = "node_sums.safetensors"
INTERACTIONS, USERS, ITEMS, ENCODER = "interactions.parquet", "users.parquet", "items.parquet", "encoder"


def save(
    assembly: Assembly, folder: Path, learnt: dict[str, Any], also: Callable[[Path], None] = lambda folder: None
) -> None:
    """Write the model to ``folder``, replacing a model that was there.

    Args:
        learnt: further facts that ``load`` returns; written as JSON.
        also: writes further files to the folder it is given.
    """
    refuse_foreign(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
            new = Path(temporary) / "new"
            new.mkdir()
            _write(assembly, new, learnt)
            also(new)
            _swap(new, folder, Path(temporary) / "old")
    except OSError as error:
        raise InputError(f"Cannot write the model to {folder}: {error.strerror or error}.") from error


def _swap(new: Path, folder: Path, old: Path) -> None:
    """Replace ``folder`` by ``new``; if that fails, restore what was there."""
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise


def refuse_foreign(folder: Path) -> None:
    """Raise InputError if saving would replace anything but a model or a checkpoint."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; a model needs a folder.")
    if folder.is_dir() and not is_model(folder):
        checkpoint = folder / CHECKPOINT
        others = [
            entry.name for entry in folder.iterdir() if entry != checkpoint and not is_half_written(entry, checkpoint)
        ]
        if others:
            raise InputError(f"{folder} holds something else ({others[0]} …): choose a new folder for the model.")


def is_model(folder: Path) -> bool:
    return (folder / FACTS).is_file()


def _write(assembly: Assembly, folder: Path, learnt: dict[str, Any]) -> None:
    from safetensors.numpy import save_file as save_arrays
    from safetensors.torch import save_file as save_tensors

    model, featurizer, network = assembly.model, assembly.featurizer, assembly.network
    state = featurizer.state_
    save_tensors({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / WEIGHTS)
    arrays = {name: np.ascontiguousarray(array) for name, array in state.structure.arrays().items()}
    if arrays:
        save_arrays(arrays, folder / STRUCTURE)
    readers = {
        NGRAMS: state.ngrams, SENTENCES: state.sentences, CONTEXT: state.context, STYLE: state.style,
        TREES: assembly.trees,
    }  # fmt: skip
    for name, reader in readers.items():
        if reader is not None:
            arrays = {field: np.ascontiguousarray(array) for field, array in asdict(reader).items()}
            save_arrays(arrays, folder / name)
    if isinstance(assembly.cache, NodeSums):
        save_tensors({side: sums.sums for side, sums in assembly.cache.sides.items()}, folder / SUMS)
    elif assembly.cache is not None:
        save_tensors({"states": assembly.cache.states}, folder / CACHE)
    _write_network(network, folder)
    if model.encoder is not None:
        model.encoder.model.config.save_pretrained(folder / ENCODER)
        featurizer.tokenizer.save_pretrained(folder / ENCODER)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    facts = {
        "format": FORMAT,
        "saft": saft.__version__,
        "settings": assembly.settings.as_dict(),
        "classes": network.classes.to_list(),
        "class_type": str(network.classes.dtype),
        "learnt": learnt,
        "user_attributes": state.attributes["user"].to_json(),
        "item_attributes": state.attributes["item"].to_json(),
        "column_names": dict(network.column_names),
        "files": {path.relative_to(folder).as_posix(): file_digest(path) for path in files},
    }
    (folder / FACTS).write_text(json.dumps(facts, indent=2, ensure_ascii=False), encoding="utf-8")


def _write_network(network: TextualInteractionNetwork, folder: Path) -> None:
    columns: dict[str, Any] = {
        "user": network.users, "item": network.items, "text": network.texts, "label": network.labels,
        "withheld": network.withheld_rows,
    }  # fmt: skip
    if network.times is not None:
        columns["time"] = network.times
    pl.DataFrame(columns).write_parquet(folder / INTERACTIONS)
    for name, ids, attributes in (
        (USERS, network.user_ids, network.user_attributes),
        (ITEMS, network.item_ids, network.item_attributes),
    ):
        table = pl.DataFrame([ids.alias("id")])
        if attributes is not None:
            table = table.hstack([column.alias(f"attribute {column.name}") for column in attributes.get_columns()])
        table.write_parquet(folder / name)


def load(folder: Path) -> tuple[Assembly, dict[str, Any]]:
    """The model saved to this folder, and the ``learnt`` that was given to :func:`save`."""
    from saft.learning.checkpoint import read_safetensors

    facts = _facts(folder)
    settings = Settings.of(facts["settings"], str(folder / FACTS))
    network = _read_network(folder, _classes(facts), facts["column_names"])
    tokenizer, encoder = None, None
    if settings.encoder != NO_ENCODER:
        tokenizer, encoder = _tokenizer(folder), _encoder(folder, settings)
    cache: Cache | None = None
    if (folder / SUMS).is_file():
        nodes = {"user": network.users, "item": network.items}
        cache = NodeSums.trained(nodes, read_safetensors(folder / SUMS)[0])
    elif (folder / CACHE).is_file():
        cache = NeighbourCache(read_safetensors(folder / CACHE)[0]["states"])
    state = _featurizer_state(folder, facts, settings, network)
    trees = _reader(folder / TREES, TreeModel)
    assembly = Assembly.restored(settings, network, state, tokenizer, encoder, cache, trees)
    assembly.model.load_state_dict(read_safetensors(folder / WEIGHTS)[0])
    assembly.model.train(False)
    return assembly, facts["learnt"]


def _featurizer_state(
    folder: Path, facts: dict[str, Any], settings: Settings, network: TextualInteractionNetwork
) -> FeaturizerState:
    from safetensors.numpy import load_file

    structure = new_structure(settings)
    if structure.embeddings:
        structure.restore(load_file(folder / STRUCTURE))
    return FeaturizerState(
        structure,
        {side: Attributes.from_json(facts[f"{side}_attributes"]) for side in ("user", "item")},
        {"user": network.user_degrees, "item": network.item_degrees},
        _reader(folder / NGRAMS, NgramModel),
        _reader(folder / SENTENCES, SentenceModel),
        _reader(folder / CONTEXT, ContextModel),
        _reader(folder / STYLE, StyleModel),
    )


def _reader(path: Path, kind: type) -> Any:
    """A reader of texts, or None if there is no such file."""
    from safetensors.numpy import load_file

    return kind(**load_file(path)) if path.is_file() else None


def _facts(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InputError(f"There is no model folder {folder}.")
    if not is_model(folder):
        hint = " Training was interrupted there: continue with saft train … --resume." * (folder / CHECKPOINT).is_file()
        raise InputError(f"{folder} holds no model: there is no {FACTS} in it.{hint}")
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        made_with, format_ = facts["saft"], int(facts["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / FACTS} is damaged ({error}). Copy the folder again or train anew.") from error
    if format_ > FORMAT:
        raise InputError(
            f"{folder} was written by saft {made_with} in a newer format ({format_}) than this saft "
            f"{saft.__version__} reads ({FORMAT}). Update saft."
        )
    if format_ < FORMAT:
        raise InputError(
            f"{folder} was written by a development version of saft, in a format ({format_}) that is no longer read. "
            "Train the model again."
        )
    for name, digest in facts["files"].items():
        path = folder / name
        if not path.is_file():
            raise InputError(f"{folder} is incomplete: {name} is missing. Copy the folder again or train anew.")
        if file_digest(path) != digest:
            raise InputError(f"{path} is not the file that was saved. Copy the folder again or train anew.")
    return facts


def _classes(facts: dict[str, Any]) -> pl.Series:
    dtype = getattr(pl, facts["class_type"])
    return pl.Series("label", facts["classes"], dtype=dtype)


def _read_network(folder: Path, classes: pl.Series, column_names: dict[str, str]) -> TextualInteractionNetwork:
    rows, users, items = (pl.read_parquet(folder / name) for name in (INTERACTIONS, USERS, ITEMS))
    return TextualInteractionNetwork(
        users=rows["user"].to_numpy().copy(),
        items=rows["item"].to_numpy().copy(),
        texts=rows["text"],
        labels=rows["label"].to_numpy().copy(),
        user_ids=users["id"],
        item_ids=items["id"],
        classes=classes,
        times=rows["time"].to_numpy().copy() if "time" in rows.columns else None,
        withheld=rows["withheld"].to_numpy().copy() if "withheld" in rows.columns else None,  # not in older folders
        user_attributes=_attributes(users),
        item_attributes=_attributes(items),
        column_names={role: name for role, name in column_names.items() if role in ("user", "item", "text", "label")},
    )


def _attributes(table: pl.DataFrame) -> pl.DataFrame | None:
    rest = table.drop("id")
    return rest.rename({name: name.removeprefix("attribute ") for name in rest.columns}) if rest.width else None


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder / ENCODER)


def _encoder(folder: Path, settings: Settings) -> TextEncoder:
    """The encoder's architecture; its weights are part of the model's."""
    from transformers import AutoConfig, AutoModel

    from saft.model.encoder import TextEncoder

    model = AutoModel.from_config(AutoConfig.from_pretrained(folder / ENCODER))  # type: ignore[no-untyped-call]
    return TextEncoder(model, settings.layers or None, settings.trained_layers, settings.precision)
