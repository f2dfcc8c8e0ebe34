"""Settings: every choice about a model and its training, each with its default and a sentence of help.

The classifier's keywords, the flags of ``saft train``, the keys of a ``--config`` file and the search of ``--tune`` are
read from here. Nothing heavy is imported, so that ``saft train --help`` is quick.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from saft.errors import InputError, did_you_mean

DISTANCES = ("distance", "node2vec", "shortest_path", "common_neighbours", "none")
NO_ENCODER = "none"
SAMPLE = 10  # neighbours of a node that are drawn, unless the settings say how many
NODES = ("profile", "gaussian", "trained")
CENTRALITIES = ("centrality", "sketch", "pagerank", "commute_time", "simrank", "none")


def _setting(default: Any, text: str, choices: tuple[str, ...] = (), least: float = 0, most: float = math.inf) -> Any:
    return field(default=default, metadata={"help": text, "choices": choices, "least": least, "most": most})


@dataclass(frozen=True)
class _Group:
    """Values are checked when they are set."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            object.__setattr__(self, setting.name, _checked(setting, getattr(self, setting.name)))


@dataclass(frozen=True)
class DataSettings(_Group):
    """What is read of a network."""

    encoder: str = _setting(
        "bge-small", "It reads the texts: bge-small, e5-small, minilm, a folder, a name on the model hub, or none."
    )
    layers: int = _setting(
        0,
        "Only this many of the encoder's layers are used, from the first; 0 means all, five sixths if none is trained.",
    )
    trained_layers: int = _setting(
        2, "At most this many of them, the last ones, are trained; the output of those below is computed once per text."
    )
    max_length: int = _setting(
        0, "This many tokens of each text are read; 0 means enough for nine texts of ten, and at most 128."
    )
    precision: str = _setting(
        "fp32", "Its layers compute in this format; bf16 is faster where the processor has it.", ("fp32", "bf16")
    )
    words: bool = _setting(True, "The encoder reads the words; without them, the graph alone decides.")
    ngrams: bool = _setting(True, "A linear model reads n-grams of the whole text as well, in any language.")
    sentences: bool = _setting(True, "A linear model reads the mean of what the layers that are not trained give.")
    style: bool = _setting(True, "A linear model sees how the text is written: its length, case and punctuation.")
    trees: bool = _setting(True, "Boosted trees on all that is read without training a layer, beside a regression.")
    distance: str = _setting("distance", "This embedding describes how near interactions are to each other.", DISTANCES)
    centrality: str = _setting("centrality", "This embedding describes how central an interaction is.", CENTRALITIES)
    structure_dim: int = _setting(64, "Each of the two embeddings has this many dimensions.", least=1)
    nodes: str = _setting("profile", "Vectors of users and items are made from this.", NODES)
    node_dim: int = _setting(64, "These vectors have this many dimensions.", least=1)
    labels: bool = _setting(True, "An interaction sees the known labels of its neighbours, never its own.")
    alike_texts: bool = _setting(True, "It sees how alike their texts are to its own, and labels of alike ones more.")
    neighbour_words: bool = _setting(True, "It sees what linear models read in the texts of its neighbours.")
    repeats: bool = _setting(True, "It sees how many other interactions its user has with its item.")


@dataclass(frozen=True)
class ModelSettings(_Group):
    """How words and graph are fused."""

    fusion: str = _setting(
        "residual",
        "residual starts as the pretrained encoder; none reads the text alone.",
        ("residual", "paper", "none"),
    )
    messages: str = _setting(
        "content",
        "Layers hear of neighbours what is read in their texts and labels (content), or their states, "
        "by line graph attention (lga) or a gated attention unit (gau).",
        ("content", "lga", "gau"),
    )
    user_messages: bool = _setting(True, "Texts of the same user's other interactions are heard, or their states.")
    item_messages: bool = _setting(True, "Texts of the same item's other interactions are heard, or their states.")
    text_messages: bool = _setting(True, "lga and gau: a state carries the text, not only user and item.")
    structure_tokens: bool = _setting(False, "Distance and centrality stand beside the text as tokens, for the proxy.")
    rounds: int = _setting(2, "R: each layer passes messages in this many rounds.")
    delta: float = _setting(1.0, "δ: this much of its own state is added to an interaction in every round.")
    lam: float = _setting(1.0, "λ: this much of the user's or item's vector is added to its state.")
    readout: str = _setting(
        "concat", "The head sees proxy and text combined in this way.", ("concat", "gated", "paper")
    )
    dropout: float = _setting(0.1, "Inputs of the head are dropped with this probability in training.", most=0.99)


@dataclass(frozen=True)
class SamplingSettings(_Group):
    """Which neighbours and labels a batch shows."""

    sampling: str = _setting("random", "Neighbours are drawn by this weight.", ("distance", "centrality", "random"))
    neighbours: int = _setting(
        0,
        "b: at most this many neighbours by user, and by item, are drawn; 0 means all where the sum of their states is "
        f"enough (lga, and gau with one round), else {SAMPLE}.",
    )
    cache_neighbours: bool = _setting(
        True, "States of neighbours come from a cache instead of being encoded again for every batch."
    )
    full_batch: bool = _setting(False, "All interactions form one batch; for small networks.")
    batch_size: int = _setting(32, "A batch predicts this many rows.", least=1)
    group_size: int = _setting(1, "Up to this many rows of one user or item are put into a batch together.", least=1)
    seed: int = _setting(0, "The same seed gives the same model.")


@dataclass(frozen=True)
class TrainingSettings(_Group):
    """How weights are learnt."""

    epochs: int = _setting(5, "Training passes over its rows this many times at most.")
    least_steps: int = _setting(
        40, "An epoch has about this many steps at least: it passes several times over rows that are few."
    )
    patience: int = _setting(3, "Training stops after this many epochs without a better validation Macro-F1.", least=1)
    learning_rate: float = _setting(1e-4, "The pretrained encoder learns at this rate.")
    head_learning_rate: float = _setting(1e-3, "Everything that was not pretrained learns at this rate.")
    train_words: bool = _setting(False, "The encoder's word vectors are trained too; slower, and rarely worth it.")
    weight_decay: float = _setting(0.01, "AdamW pulls weights to zero by this much.")
    epsilon: float = _setting(1e-8, "AdamW adds this to its denominators.")
    warmup: float = _setting(0.1, "Learning rates rise from 0 during this share of the steps.", most=1)
    clip: float = _setting(1.0, "Longer gradients are cut to this length; 0 means no limit.")
    loss: str = _setting("cross_entropy", "Training minimises this loss.", ("cross_entropy", "paper", "focal"))
    class_weights: bool = _setting(False, "Rare classes weigh more in the loss, frequent ones less.")
    node_dropout: float = _setting(
        0.2, "With trained vectors, a known user or item is treated as a new one with this probability.", most=1
    )
    valid_share: float = _setting(0.1, "This share of the labelled interactions is kept for early stopping.", most=0.9)


@dataclass(frozen=True)
class Settings(TrainingSettings, SamplingSettings, ModelSettings, DataSettings):
    """Every setting, flat. Code that needs one group takes that group's type; a ``Settings`` is all four.

    The defaults are what measured best on the networks at hand (docs/model.md).
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cache_neighbours and self.fusion == "paper":
            # There a neighbour's state depends on its own neighbours and on their labels.
            raise InputError(
                "cache_neighbours=True needs fusion='residual'; with fusion='paper' neighbours are encoded again."
            )
        if self.fusion == "paper" and self.messages == "content":
            raise InputError("fusion='paper' passes states between interactions; choose messages='lga' or 'gau'.")
        if self.fuses and getattr(self, self.sampling, "") == "none":
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

    def with_preset(self, preset: str, **values: Any) -> Self:
        """Another preset in the place of the present one; ``values`` overrule it, whatever else was chosen stays."""
        of_old, defaults = PRESETS[self.preset], type(self)().as_dict()
        return self.changed(**{name: defaults[name] for name in of_old} | preset_settings(preset) | values)

    @property
    def preset(self) -> str:
        """The quickest preset that these settings agree with."""
        return preset_of(self.as_dict())

    @property
    def trains_encoder(self) -> bool:
        """Whether there are layers to train; if not, a regression on what linear models read is all there is."""
        return self.encoder != NO_ENCODER and self.trained_layers > 0

    @property
    def fuses(self) -> bool:
        """Whether words and graph meet inside of the encoder's layers."""
        return self.fusion != "none" and self.trains_encoder

    @property
    def reads_structure(self) -> bool:
        """Whether anything looks at the distance and centrality embeddings: tokens, the sampling, or trees."""
        in_layers = self.fuses and (self.structure_tokens or self.sampling != "random")
        return in_layers or (
            self.trees and (self.ngrams or self.sentences or self.style or self.labels or self.repeats)
        )

    @property
    def passes_messages(self) -> bool:
        """Whether states of layers are passed from interaction to interaction."""
        return self.fuses and self.messages != "content" and bool(self.heard_sides)

    @property
    def sums_states(self) -> bool:
        """Whether the states of all neighbours are heard as their sum, instead of those of a sample one by one."""
        sums_suffice = self.messages == "lga" or self.rounds <= 1
        is_drawn = self.neighbours > 0 or self.sampling != "random" or self.full_batch
        return self.passes_messages and self.cache_neighbours and sums_suffice and not is_drawn

    @property
    def sample_size(self) -> int:
        """How many neighbours of a node are drawn, where they are."""
        return self.neighbours or SAMPLE

    @property
    def heard_sides(self) -> tuple[str, ...]:
        """Whose texts tell an interaction something: those of its user, of its item."""
        sides = {"user": self.user_messages, "item": self.item_messages}
        return tuple(side for side, heard in sides.items() if heard)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


HELP: dict[str, str] = {setting.name: setting.metadata["help"] for setting in fields(Settings)}
TYPES: dict[str, type] = typing.get_type_hints(Settings)

# From the quickest to the most accurate. Settings that are given beside a preset overrule it.
DEFAULT_PRESET = "best"
PRESETS: dict[str, dict[str, Any]] = {"fast": {"encoder": NO_ENCODER}, "balanced": {"trained_layers": 0}, "best": {}}
PRESET_HELP = {
    "fast": "No encoder: a regression and trees on n-grams, style, known labels and the words of neighbours.",
    "balanced": "An encoder reads every text once and is not trained: regression and trees on that as well.",
    "best": "The encoder's last layers are trained, hearing of neighbours, and mixed with the same.",
}

# Nothing but the encoder reads texts.
WORDS_ALONE = {
    "ngrams": False, "sentences": False, "style": False, "alike_texts": False, "neighbour_words": False,
    "repeats": False, "trees": False,
}  # fmt: skip

# The method as the paper prints it, corrected only where a formula cannot be computed.
AS_PRINTED = {
    "fusion": "paper", "messages": "lga", "readout": "paper", "labels": False, "nodes": "gaussian",
    "cache_neighbours": False, "sampling": "distance", "loss": "paper", "text_messages": False,
    "structure_tokens": True,
} | WORDS_ALONE  # fmt: skip
TEXT_ONLY = {"fusion": "none", "labels": False} | WORDS_ALONE
STRUCTURE_ONLY = {"words": False}


def preset_settings(preset: str) -> dict[str, Any]:
    """What this preset sets; an error names the nearest one."""
    if not isinstance(preset, str) or preset not in PRESETS:
        raise InputError(
            f"There is no preset {preset!r}.{did_you_mean(str(preset), PRESETS)} Known are {', '.join(PRESETS)}."
        )
    return PRESETS[preset]


def preset_of(values: Mapping[str, Any]) -> str:
    """The quickest preset that settings of these values agree with."""
    return next(name for name, chosen in PRESETS.items() if chosen.items() <= values.items())


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
