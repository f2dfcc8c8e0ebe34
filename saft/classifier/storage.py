"""A model as a folder: weights, settings, encoder, tokenizer, structure and the known interactions.

The folder is never half written (:mod:`~saft.classifier.folder`). ``model.json`` lists every file with its sha256, so
that missing or mixed-up files are detected on loading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

import saft
from saft.classifier.assembly import Assembly, Cache
from saft.classifier.folder import FACTS, replacing_folder
from saft.classifier.stored_encoder import open_encoder, open_tokenizer
from saft.classifier.verification import ENCODER, FORMAT, classes_of, is_hashed, verified_facts
from saft.data.network import HIDDEN, TextualInteractionNetwork
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
from saft.tensors import not_finite, read_arrays, read_tensors, write_tensors
from saft.writing import as_json, write_parquet

WEIGHTS, STRUCTURE = "weights.safetensors", "structure.safetensors"
NGRAMS, SENTENCES = "ngrams.safetensors", "sentences.safetensors"
CONTEXT, STYLE, TREES = "context.safetensors", "style.safetensors", "trees.safetensors"
CACHE = "neighbour_cache.safetensors"
SUMS = "node_sums.safetensors"
INTERACTIONS, USERS, ITEMS = "interactions.parquet", "users.parquet", "items.parquet"


def save(
    assembly: Assembly, folder: Path, learnt: dict[str, Any], also: Callable[[Path], None] = lambda folder: None
) -> None:
    """Write the model to ``folder``, replacing a model that was there.

    Args:
        learnt: further facts that ``load`` returns; written as JSON.
        also: writes further files to the folder it is given.
    """
    if wrong := not_finite(assembly.model.state_dict()):
        raise InputError(
            f"This model holds numbers that are not finite ({wrong[0]} …), so it is not saved: train anew."
        )
    with replacing_folder(folder) as new:
        also(new)
        _write(assembly, new, learnt)


def _write(assembly: Assembly, folder: Path, learnt: dict[str, Any]) -> None:
    model, featurizer, network = assembly.model, assembly.featurizer, assembly.network
    state = featurizer.state_
    write_tensors(folder / WEIGHTS, model.state_dict())
    if arrays := state.structure.arrays():
        write_tensors(folder / STRUCTURE, arrays)
    readers = {
        NGRAMS: state.ngrams, SENTENCES: state.sentences, CONTEXT: state.context, STYLE: state.style,
        TREES: assembly.trees,
    }  # fmt: skip
    for name, reader in readers.items():
        if reader is not None:
            write_tensors(folder / name, asdict(reader))
    if isinstance(assembly.cache, NodeSums):
        write_tensors(folder / SUMS, {side: sums.sums for side, sums in assembly.cache.sides.items()})
    elif assembly.cache is not None:
        write_tensors(folder / CACHE, {"states": assembly.cache.states})
    _write_network(network, folder)
    if model.encoder is not None:
        model.encoder.model.config.save_pretrained(folder / ENCODER)
        featurizer.tokenizer.save_pretrained(folder / ENCODER)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and is_hashed(path.relative_to(folder))]
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
    (folder / FACTS).write_text(as_json(facts, indent=2), encoding="utf-8")


def _write_network(network: TextualInteractionNetwork, folder: Path) -> None:
    columns: dict[str, Any] = {
        "user": network.users, "item": network.items, "text": network.texts, "label": network.labels,
        "withheld": network.withheld_rows,
    }  # fmt: skip
    if network.times is not None:
        columns["time"] = network.times
    write_parquet(pl.DataFrame(columns), folder / INTERACTIONS)
    for name, ids, attributes in (
        (USERS, network.user_ids, network.user_attributes),
        (ITEMS, network.item_ids, network.item_attributes),
    ):
        table = pl.DataFrame([ids.alias("id")])
        if attributes is not None:
            table = table.hstack([column.alias(f"attribute {column.name}") for column in attributes.get_columns()])
        write_parquet(table, folder / name)


def load(folder: Path) -> tuple[Assembly, dict[str, Any]]:
    """The model saved to this folder, and the ``learnt`` that was given to :func:`save`."""
    facts = verified_facts(folder)
    with fitting_together(folder):
        settings = Settings.of(facts["settings"], str(folder / FACTS))
        network = _read_network(folder, classes_of(facts), facts["column_names"])
        weights, _ = read_tensors(folder / WEIGHTS)
        tokenizer, encoder = None, None
        if settings.encoder != NO_ENCODER:
            encoder = open_encoder(folder / ENCODER, settings, weights)
            tokenizer = open_tokenizer(folder / ENCODER, encoder)
        state = _featurizer_state(folder, facts, settings, network)
        trees = _reader(folder / TREES, TreeModel)
        if trees is not None:
            trees.refuse_cycles()
        assembly = Assembly.restored(settings, network, state, tokenizer, encoder, _cache(folder, network), trees)
        _refuse_other_numbers(assembly.model.state_dict(), weights)
        assembly.model.load_state_dict(weights)
    assembly.model.train(False)
    return assembly, facts["learnt"]


@contextmanager
def fitting_together(folder: Path) -> Iterator[None]:
    """Parts that do not fit together are damage that no sha256 told of: ``model.json`` was changed as well.

    Any library may stumble over them, in any way: it is always an InputError.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(
            f"The parts of the model in {folder} do not fit together ({reason}). Copy the folder again or train anew."
        ) from error


def _refuse_other_numbers(expected: dict[str, Any], weights: dict[str, Any]) -> None:
    """Copying would convert them silently."""
    if wrong := not_finite(weights):
        raise ValueError(f"{wrong[0]} is not finite")
    for name, tensor in weights.items():
        if name in expected and tensor.dtype != expected[name].dtype:
            raise ValueError(f"{name} is {tensor.dtype} instead of {expected[name].dtype}")


def _cache(folder: Path, network: TextualInteractionNetwork) -> Cache | None:
    if (folder / SUMS).is_file():
        sums, _ = read_tensors(folder / SUMS)
        if (len(sums["user"]), len(sums["item"])) != (network.n_users, network.n_items):
            raise ValueError("there are sums of other users or items")
        return NodeSums.trained({"user": network.users, "item": network.items}, sums)
    return NeighbourCache(read_tensors(folder / CACHE)[0]["states"]) if (folder / CACHE).is_file() else None


def _featurizer_state(
    folder: Path, facts: dict[str, Any], settings: Settings, network: TextualInteractionNetwork
) -> FeaturizerState:
    structure = new_structure(settings)
    if structure.embeddings:
        structure.restore(read_arrays(folder / STRUCTURE))
    state = FeaturizerState(
        structure,
        {side: Attributes.from_json(facts[f"{side}_attributes"]) for side in ("user", "item")},
        {"user": network.user_degrees, "item": network.item_degrees},
        _reader(folder / NGRAMS, NgramModel),
        _reader(folder / SENTENCES, SentenceModel),
        _reader(folder / CONTEXT, ContextModel),
        _reader(folder / STYLE, StyleModel),
    )
    for reader in (state.ngrams, state.sentences):
        if reader is not None and reader.fitted_log_odds.shape[1] != len(network):
            raise ValueError(f"there are {len(network):,} interactions, and texts of others")
    return state


def _reader(path: Path, kind: type) -> Any:
    """A reader of texts, or None if there is no such file."""
    return kind(**read_arrays(path)) if path.is_file() else None


def _read_network(folder: Path, classes: pl.Series, column_names: dict[str, str]) -> TextualInteractionNetwork:
    rows, users, items = (pl.read_parquet(folder / name) for name in (INTERACTIONS, USERS, ITEMS))
    _refuse_other_codes(rows, {"user": users["id"], "item": items["id"]}, len(classes))
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


def _refuse_other_codes(rows: pl.DataFrame, ids: dict[str, pl.Series], n_classes: int) -> None:
    """Interactions name users, items and classes by their numbers."""
    for side, names in ids.items():
        if names.is_duplicated().any() or not (names.dtype == pl.String or names.dtype.is_integer()):
            raise ValueError(f"ids of {side}s are repeated, or neither text nor whole numbers")
        if not rows[side].is_between(0, len(names) - 1).all():
            raise ValueError(f"interactions name {side}s that are not there")
    if not ((rows["label"] == HIDDEN) | rows["label"].is_between(0, n_classes - 1)).all():
        raise ValueError("interactions have labels that are no class")


def _attributes(table: pl.DataFrame) -> pl.DataFrame | None:
    rest = table.drop("id")
    return rest.rename({name: name.removeprefix("attribute ") for name in rest.columns}) if rest.width else None
