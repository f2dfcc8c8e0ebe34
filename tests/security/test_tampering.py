"""A model folder that was damaged or forged is refused with one sentence, soon, and runs nothing.

A forger knows how folders are checked: where a case says ``forged``, model.json holds the sha256 of the changed file.

Covers: classifier.verification, classifier.stored_encoder.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.numpy import load_file, save_file

import saft
from saft import SaftClassifier
from saft.hashing import file_digest

SECONDS = 10.0
Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_settings) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "model"
    frame = saft.demo_network(200).to_frame()
    number = pl.col("item").rank("dense").cast(pl.Int64)
    described = frame.with_columns(age=number, town=(number % 2).cast(pl.String))
    network = saft.read(described, item_attributes=["age", "town"])
    SaftClassifier(**tiny_settings | {"epochs": 1, "messages": "lga", "neighbours": 0}).fit(network).save(folder)
    return folder


def facts(change: Callable[[dict], object]) -> Damage:
    """Change what model.json says."""

    def damage(folder: Path) -> None:
        path = folder / "model.json"
        told = json.loads(path.read_text())
        path.write_text(json.dumps(change(told) or told))

    return damage


def forged(change: Damage) -> Damage:
    """The same with the sha256 of every file as it is now."""

    def damage(folder: Path) -> None:
        change(folder)
        files = [path for path in folder.rglob("*") if path.is_file() and path.name != "model.json"]
        listed = {path.relative_to(folder).as_posix(): file_digest(path) for path in files}
        facts(lambda told: told.update(files=listed))(folder)

    return damage


def content(name: str, data: bytes | str) -> Damage:
    return lambda folder: (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)


def truncated(name: str, share: float = 0.5) -> Damage:
    return lambda folder: os.truncate(folder / name, int((folder / name).stat().st_size * share))


def without(name: str) -> Damage:
    return lambda folder: (folder / name).unlink()


def config(file: str = "encoder/config.json", **entries) -> Damage:
    def change(folder: Path) -> None:
        path = folder / file
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))

    return forged(change)


def arrays(file: str, change: Callable[[dict], object]) -> Damage:
    def damage(folder: Path) -> None:
        held = load_file(folder / file)
        save_file(change(held) or held, folder / file)

    return forged(damage)


def table(file: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Damage:
    return forged(lambda folder: change(pl.read_parquet(folder / file)).write_parquet(folder / file))


def settings(**entries) -> Damage:
    return facts(lambda told: told["settings"].update(entries))


def learnt(**entries) -> Damage:
    return facts(lambda told: told["learnt"].update(entries))


def renamed(held: dict) -> dict:
    return {name.replace("head.weight", "head.gewicht"): array for name, array in held.items()}


def swapped(folder: Path) -> None:
    one, other, aside = folder / "weights.safetensors", folder / "ngrams.safetensors", folder / "aside"
    one.rename(aside), other.rename(one), aside.rename(other)


def endless(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    (folder / "weights.safetensors").symlink_to("/dev/zero")


def pipe(folder: Path) -> None:
    (folder / "users.parquet").unlink()
    os.mkfifo(folder / "users.parquet")


WEIGHTS, ROWS = "weights.safetensors", "interactions.parquet"
DEEP = "[" * 200_000
DAMAGES: dict[str, Damage] = {
    "no model.json": without("model.json"),
    "no weights": without(WEIGHTS),
    "no interactions": without(ROWS),
    "no description of the encoder": without("encoder/config.json"),
    "no tokenizer": without("encoder/tokenizer.json"),
    "weights end early": truncated(WEIGHTS),
    "weights end early, forged": forged(truncated(WEIGHTS)),
    "weights are empty, forged": forged(truncated(WEIGHTS, 0)),
    "a table ends early, forged": forged(truncated(ROWS)),
    "model.json ends early": truncated("model.json"),
    "model.json is empty": truncated("model.json", 0),
    "model.json is not text": content("model.json", b"\xff\xfe\x00"),
    "model.json is a list": content("model.json", "[1]"),
    "model.json is deep": content("model.json", DEEP),
    "model.json is huge": lambda folder: os.truncate(folder / "model.json", 1 << 40),
    "model.json lacks the settings": facts(lambda told: told.pop("settings") and None),
    "the format is no number": facts(lambda told: told.update(format="x")),
    "the format is infinite": facts(lambda told: told.update(format=float("inf"))),
    "a newer format": facts(lambda told: told.update(format=99)),
    "an older format": facts(lambda told: told.update(format=1)),
    "an unknown setting": settings(epocs=3),
    "a setting of another type": settings(epochs="many"),
    "a million layers in the settings": settings(layers=1_000_000),
    "more neighbours than there is memory": settings(structure_dim=10**9),
    "texts longer than the encoder reads": settings(max_length=100_000),
    "another preset's readers": settings(ngrams=False, labels=False),
    "an encoder that is not there": settings(encoder="none"),
    "a class twice": facts(lambda told: told.update(classes=["spam"] * 3)),
    "one class": facts(lambda told: told.update(classes=["spam"])),
    "an empty class": facts(lambda told: told.update(classes=["spam", None, "genuine"])),
    "classes of a type that is a function": facts(lambda told: told.update(class_type="read_parquet")),
    "classes of a type that does not fit": facts(lambda told: told.update(class_type="Int64")),
    "more classes than the head has": facts(lambda told: told["classes"].append("more")),
    "a file outside, by a path with dots": facts(lambda told: told["files"].update({"../../../etc/passwd": "0"})),
    "a file outside, by its whole path": facts(lambda told: told["files"].update({"/etc/passwd": "0"})),
    "the list of files is a list": facts(lambda told: told.update(files=list(told["files"]))),
    "a sha256 is a number": facts(lambda told: told["files"].update({WEIGHTS: 5})),
    "code beside the weights": content("modeling.py", "raise SystemExit"),
    "code beside the weights, forged": forged(content("modeling.py", "raise SystemExit")),
    "code in the encoder, forged": forged(content("encoder/modeling.py", "raise SystemExit")),
    "the encoder names code, forged": config(auto_map={"AutoModel": "modeling.Hostile"}),
    "the tokenizer names code, forged": config(
        "encoder/tokenizer_config.json", auto_map={"AutoTokenizer": ["t.Hostile", None]}
    ),
    "a file more in the encoder": content("encoder/added_tokens.json", "{}"),
    "a table more": lambda folder: shutil.copy(folder / ROWS, folder / "more.parquet"),
    "a reader more": lambda folder: shutil.copy(folder / "ngrams.safetensors", folder / "trees.safetensors"),
    "a reader more, forged": forged(
        lambda folder: shutil.copy(folder / "ngrams.safetensors", folder / "context.safetensors")
    ),
    "weights and n-grams swapped": swapped,
    "weights and n-grams swapped, forged": forged(swapped),
    "a tensor renamed, forged": arrays(WEIGHTS, renamed),
    "a tensor more, forged": arrays(WEIGHTS, lambda held: held.update(more=np.ones(3, np.float32))),
    "a tensor less, forged": arrays(WEIGHTS, lambda held: held.pop("head.bias") is None or None),
    "a tensor of another shape, forged": arrays(
        WEIGHTS, lambda held: held.update({"head.weight": np.ascontiguousarray(held["head.weight"].T)})
    ),
    "a tensor of another type, forged": arrays(
        WEIGHTS, lambda held: held.update({"head.weight": held["head.weight"].astype(np.int64)})
    ),
    "a weight that is no number, forged": arrays(
        WEIGHTS, lambda held: held.update({"head.bias": np.full_like(held["head.bias"], np.nan)})
    ),
    "weights with a header of an exabyte, forged": forged(content(WEIGHTS, (1 << 60).to_bytes(8, "little") + b"{}")),
    "weights with a deep header, forged": forged(content(WEIGHTS, len(DEEP).to_bytes(8, "little") + DEEP.encode())),
    "weights are a pickle, forged": forged(lambda folder: torch.save({"head.bias": torch.ones(3)}, folder / WEIGHTS)),
    "endless weights": endless,
    "a table is a pipe": pipe,
    "a million layers, forged": config(num_hidden_layers=1_000_000),
    "layers of a terabyte, forged": config(hidden_size=1 << 20, intermediate_size=1 << 20),
    "a trillion words, forged": config(vocab_size=10**12),
    "no attention heads, forged": config(num_attention_heads=0),
    "a negative width, forged": config(hidden_size=-32),
    "an unknown family, forged": config(model_type="unknown"),
    "another family, forged": config(model_type="gpt2"),
    "an unknown activation, forged": config(hidden_act="__import__('os').abort()"),
    "layers are text, forged": config(num_hidden_layers="many"),
    "the encoder's description is deep, forged": forged(content("encoder/config.json", DEEP)),
    "the encoder's description is a list, forged": forged(content("encoder/config.json", "[]")),
    "the tokenizer is garbage, forged": forged(content("encoder/tokenizer.json", "garbage")),
    "the tokenizer is deep, forged": forged(content("encoder/tokenizer.json", DEEP)),
    "the tokenizer knows more words than the encoder, forged": forged(
        lambda folder: (folder / "encoder/tokenizer.json").write_text(
            re.sub(r'("\[UNK\]"): 1\b', r"\1: 999999", (folder / "encoder/tokenizer.json").read_text())
        )
    ),
    "a column renamed, forged": table(ROWS, lambda rows: rows.rename({"user": "nutzer"})),
    "a user that is not there, forged": table(ROWS, lambda rows: rows.with_columns(user=pl.lit(10**6, pl.Int32))),
    "a user below zero, forged": table(ROWS, lambda rows: rows.with_columns(user=pl.lit(-1, pl.Int32))),
    "a label that is no class, forged": table(ROWS, lambda rows: rows.with_columns(label=pl.lit(77, pl.Int32))),
    "texts are numbers, forged": table(ROWS, lambda rows: rows.with_columns(text=pl.lit(3))),
    "users are text, forged": table(ROWS, lambda rows: rows.with_columns(user=pl.lit("ann"))),
    "empty texts are null, forged": table(ROWS, lambda rows: rows.with_columns(text=pl.lit(None, pl.String))),
    "no rows, forged": table(ROWS, lambda rows: rows.clear()),
    "rows less, forged": table(ROWS, lambda rows: rows.head(10)),
    "rows more, forged": table(ROWS, lambda rows: pl.concat([rows, rows])),
    "an id twice, forged": table("users.parquet", lambda users: users.with_columns(id=pl.lit("ann"))),
    "ids less, forged": table("items.parquet", lambda items: items.head(1)),
    "ids are lists, forged": table("users.parquet", lambda users: users.with_columns(id=pl.concat_list("id"))),
    "a table is a picture, forged": forged(content("users.parquet", b"\x89PNG" + bytes(100))),
    "structure of other shapes, forged": arrays(
        "structure.safetensors", lambda held: {name: array[..., :1].copy() for name, array in held.items()}
    ),
    "structure of other names, forged": arrays(
        "structure.safetensors", lambda held: {f"x{name}": array for name, array in held.items()}
    ),
    "n-grams of other fields, forged": arrays("ngrams.safetensors", lambda held: {"x": np.ones(3)}),
    "n-grams of fewer rows, forged": arrays(
        "ngrams.safetensors", lambda held: held.update(fitted_log_odds=held["fitted_log_odds"][:, :3].copy())
    ),
    "sums of other nodes, forged": arrays(
        "node_sums.safetensors", lambda held: held.update(user=held["user"][:2].copy())
    ),
    "trees without an end, forged": arrays(
        "trees.safetensors", lambda held: held.update(children=np.zeros_like(held["children"]))
    ),
    "no temperature": facts(lambda told: told["learnt"].pop("temperature") and None),
    "a temperature of zero": learnt(temperature=0.0),
    "a temperature that is no number": learnt(temperature=float("nan")),
    "a temperature that is text": learnt(temperature="warm"),
    "no report": learnt(report=None),
    "a report of other fields": learnt(report={"epochs": 3}),
    "an attribute without a name": facts(lambda told: told.update(item_attributes=[{"mean": 3}])),
    "an attribute that is a list": facts(lambda told: told.update(item_attributes=[[1, 2]])),
    "an attribute without spread": facts(lambda told: told["item_attributes"][0].update(spread=0.0)),
    "more attributes than weights": facts(
        lambda told: told["item_attributes"].append({"name": "x", "mean": 0.0, "spread": 1.0, "values": []})
    ),
    "column names are a list": facts(lambda told: told.update(column_names=["user"])),
}


def test_there_are_enough_ways():
    assert len(DAMAGES) >= 37


@pytest.mark.parametrize("way", DAMAGES)
def test_a_damaged_folder_is_refused_with_one_sentence_and_soon(whole, tmp_path, way):
    folder = Path(shutil.copytree(whole, tmp_path / "model"))
    DAMAGES[way](folder)
    began = time.perf_counter()
    with pytest.raises(saft.InputError) as error:
        saft.load(folder)
    assert time.perf_counter() - began < SECONDS
    message = str(error.value)
    assert "\n" not in message.strip()
    assert len(message) < 1000
    assert message.endswith((".", "?", "--help"))


def test_the_folder_that_was_not_damaged_is_loaded(whole, tmp_path):
    folder = Path(shutil.copytree(whole, tmp_path / "model"))
    (folder / "README.md").write_text("notes of our own")  # people may write into the card
    (folder / "notes.txt").write_text("and beside it")
    forged(lambda folder: None)(folder)
    assert len(saft.load(folder).classes_) == 3
