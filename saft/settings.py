"""Settings: everything that can be chosen about a model and its training, each with its default and a line of help.

The classifier's keywords, the flags of ``saft train``, the keys of a ``--config`` file and the search of ``--tune`` are
all read from here. Nothing heavy is imported, so that ``saft train --help`` answers at once.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from saft.errors import InputError, did_you_mean

DISTANCES = ("distance", "node2vec", "shortest_path", "common_neighbours", "none")
CENTRALITIES = ("centrality", "sketch", "pagerank", "commute_time", "simrank", "none")


def _setting(default: Any, text: str, choices: tuple[str, ...] = (), least: float = 0, most: float = math.inf) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices, "least": least, "most": most})


@dataclass(frozen=True)
class Settings:
    """What can be chosen. The defaults are what measured best on the networks at hand (docs/model.md)."""

    # What is read
    encoder: str = _setting("minilm", "Pretrained encoder: minilm, a folder, or a name on the model hub.")
    layers: int = _setting(0, "Use only this many of the encoder's layers, from the first; 0 means all.")
    frozen_layers: int = _setting(
        0, "Leave this many of them, from the first, as they are; what they say of a text is computed once."
    )
    max_length: int = _setting(128, "Tokens of each text that are read; the rest is cut off.", least=2)
    words: bool = _setting(True, "Read the words; without them, the graph alone decides.")
    phrases: bool = _setting(True, "Read n-grams of the whole text too, in any language, by a linear model.")
    distance: str = _setting("distance", "What says how near interactions are to each other.", DISTANCES)
    centrality: str = _setting("centrality", "What says how central an interaction is.", CENTRALITIES)
    structure_dim: int = _setting(64, "Dimensions of each of the two.", least=1)
    nodes: str = _setting("gaussian", "Vectors of users and items.", ("trained", "gaussian"))
    node_dim: int = _setting(64, "Dimensions of these vectors.", least=1)
    node_dropout: float = _setting(0.2, "How often training treats a known user or item as a new one.", most=1)
    labels: bool = _setting(True, "Let an interaction see the known labels of its neighbours, never its own.")
    hidden_share: float = _setting(
        0.2, "Share of training labels hidden at a time, to be predicted.", least=0.01, most=1
    )

    # How words and graph are fused
    fusion: str = _setting(
        "residual", "residual starts as the pretrained encoder; none reads text alone.", ("residual", "paper", "none")
    )
    messages: str = _setting("lga", "Line graph attention or gated attention unit.", ("lga", "gau"))
    user_messages: bool = _setting(True, "Messages between interactions of the same user.")
    item_messages: bool = _setting(True, "Messages between interactions of the same item.")
    text_messages: bool = _setting(True, "Pass on what the words of an interaction say, not only its user and item.")
    rounds: int = _setting(2, "R: rounds of message passing in each layer.")
    delta: float = _setting(1.0, "δ: how much of its own state an interaction adds back in every round.")
    lam: float = _setting(1.0, "λ: how much of the user's or item's vector is added to its state.")
    readout: str = _setting("concat", "What the head sees of proxy and words.", ("concat", "gated", "paper"))
    dropout: float = _setting(0.1, "Dropout before the head.", most=0.99)

    # Which neighbours are seen
    sampling: str = _setting("random", "How neighbours are drawn.", ("distance", "centrality", "random"))
    neighbours: int = _setting(10, "b: at most this many neighbours by user, and by item.", least=1)
    remember: bool = _setting(True, "Remember what neighbours said instead of reading them again for every target.")
    full_batch: bool = _setting(False, "All interactions in one batch, for small networks.")

    # How it is trained
    epochs: int = _setting(5, "Passes over the training interactions, at most.")
    patience: int = _setting(3, "Stop after this many epochs without a better validation Macro-F1.", least=1)
    batch_size: int = _setting(32, "Targets in a batch.", least=1)
    together: int = _setting(1, "Targets of one user or item that are put into a batch together.", least=1)
    learning_rate: float = _setting(1e-4, "Of the encoder.")
    new_rate: float = _setting(1e-3, "Learning rate of everything that was not pretrained.")
    train_words: bool = _setting(False, "Train the encoder's word vectors too; slower, and rarely worth it.")
    weight_decay: float = _setting(0.01, "Of AdamW.")
    epsilon: float = _setting(1e-8, "Of AdamW.")
    warmup: float = _setting(0.1, "Share of the steps in which learning rates rise from 0.", most=1)
    clip: float = _setting(1.0, "Longest gradient; 0 means any.")
    loss: str = _setting("cross_entropy", "What is minimised.", ("cross_entropy", "paper", "focal"))
    class_weights: bool = _setting(False, "Weigh rare classes up, frequent ones down.")
    valid_share: float = _setting(0.1, "Share of the labelled interactions kept for early stopping.", most=0.9)
    seed: int = _setting(0, "The same seed gives the same model.")

    def __post_init__(self) -> None:
        for setting in fields(self):
            object.__setattr__(self, setting.name, _checked(setting, getattr(self, setting.name)))
        if self.remember and self.fusion == "paper":
            # There a neighbour's state depends on its own neighbours, and on the labels it saw.
            raise InputError("remember=True needs fusion='residual'; with fusion='paper' neighbours are read again.")
        if self.frozen_layers and self.train_words:
            raise InputError("frozen_layers needs train_words=False: word vectors are below the first layer.")
        if self.fusion != "none" and getattr(self, self.sampling, "") == "none":
            raise InputError(f"sampling={self.sampling!r} needs the {self.sampling} embedding; it is 'none'.")

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = "saft") -> Self:
        """Settings with these values, the rest by default; ``where`` is named in errors."""
        for name in values:
            if name not in HELP:
                raise InputError(
                    f"{where} has no setting {name!r}.{did_you_mean(name, HELP)} All of them: saft train --help"
                )
        return cls(**values)

    def changed(self, **values: Any) -> Self:
        return self.of(self.as_dict() | values)

    @property
    def hears_neighbours(self) -> bool:
        """Whether anything is passed from interaction to interaction."""
        return self.fusion != "none" and (self.user_messages or self.item_messages)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


HELP: dict[str, str] = {setting.name: setting.metadata["help"] for setting in fields(Settings)}
TYPES: dict[str, type] = typing.get_type_hints(Settings)

# The method as the paper prints it, corrected only where a formula cannot be computed.
AS_PRINTED = {
    "fusion": "paper", "readout": "paper", "labels": False, "nodes": "gaussian", "remember": False,
    "sampling": "distance", "loss": "paper", "text_messages": False, "phrases": False,
}  # fmt: skip
TEXT_ONLY = {"fusion": "none", "labels": False, "phrases": False}
STRUCTURE_ONLY = {"words": False}


def _checked(setting: Any, value: Any) -> Any:
    """The value in its type, or an error that says what it may be."""
    wanted, limits = TYPES_BY_NAME[setting.type], setting.metadata
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise InputError(f"{setting.name} has to be {_KINDS[wanted]}; got {value!r}.")
    if limits["choices"] and value not in limits["choices"]:
        choices = limits["choices"]
        raise InputError(
            f"{setting.name} cannot be {value!r}.{did_you_mean(str(value), choices)} Known are {', '.join(choices)}."
        )
    if wanted in (int, float) and not limits["least"] <= value <= limits["most"]:  # nan is not either
        above = "" if limits["most"] == math.inf else f" and at most {limits['most']:g}"
        raise InputError(f"{setting.name} has to be at least {limits['least']:g}{above}; got {value!r}.")
    return value


TYPES_BY_NAME: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
