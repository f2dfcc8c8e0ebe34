"""``saft.explain``: which words, neighbours and features moved a prediction, by removing each and predicting again.

An effect is how much the probability of the predicted class falls without it: positive effects support the prediction,
negative ones oppose it. Each is measured by removing one thing at a time, so they need not add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import polars as pl
import torch

from saft.classifier.estimator import SaftClassifier
from saft.errors import InputError, did_you_mean
from saft.features.folds import FOLDS
from saft.features.gathering import SIDES
from saft.online.live import Interaction, LiveNetwork
from saft.online.subgraph import EgoGraph

MOST_PARTS = 64  # of a text; from longer texts, several words are removed at a time


STRUCTURE = {
    "distance": "how near other interactions are",
    "centrality": "how central it is",
    "closeness": "how near user and item are to each other",
}


@dataclass(frozen=True)
class WordEffect:
    text: str
    start: int  # position of its first character in the text
    end: int
    effect: float


@dataclass(frozen=True)
class NeighbourEffect:
    number: int  # in the network
    interaction: Interaction
    shares: str  # "user", "item" or "user and item"
    effect: float


@dataclass(frozen=True)
class FeatureEffect:
    name: str
    meaning: str
    effect: float


@dataclass(frozen=True)
class Explanation:
    """A prediction and what moved it, the largest effect first; words in the order of the text."""

    label: Any
    probabilities: dict[str, float]
    words: list[WordEffect]
    neighbours: list[NeighbourEffect]
    features: list[FeatureEffect]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        named = [(word.effect, f"the word {word.text!r}") for word in self.words]
        named += [
            (near.effect, f"the text of {near.interaction.user} on {near.interaction.item}") for near in self.neighbours
        ]
        named += [(feature.effect, feature.meaning) for feature in self.features]
        strongest = sorted(named, key=lambda pair: -abs(pair[0]))[:5]
        lines = [f"{self.label} ({self.probabilities[str(self.label)]:.0%})"]
        return "\n".join(lines + [f"  {effect:+.1%}  {what}" for effect, what in strongest])


def explain(model: SaftClassifier | LiveNetwork, interaction: int | Mapping[str, Any] | Interaction) -> Explanation:
    """What moved the model's prediction for an interaction.

    Args:
        model: a trained classifier, or a :class:`saft.online.live.LiveNetwork` of it, to build that only once.
        interaction: the number of a known one, or a new one with ``user``, ``item`` and ``text``.
    """
    live = model if isinstance(model, LiveNetwork) else LiveNetwork(model)
    if isinstance(interaction, int):
        if not 0 <= interaction < len(live):
            raise InputError(f"There is no interaction {interaction:,}; they are numbered from 0 to {len(live) - 1:,}.")
        ego, text = live.ego_graph_of(interaction), live.text(interaction)
    else:
        asked = interaction if isinstance(interaction, Interaction) else _interaction(interaction)
        ego, text = live.ego_graphs([asked])[0], asked.text
    return _explained(live, ego, text)


def _interaction(given: Mapping[str, Any]) -> Interaction:
    known = [field.name for field in fields(Interaction)]
    for name in given:
        if name not in known:
            raise InputError(f"An interaction has no {name!r}.{did_you_mean(name, known)} It has {', '.join(known)}.")
    missing = [name for name in ("user", "item", "text") if name not in given]
    if missing:
        raise InputError(f"An interaction needs a user, an item and a text; there is no {', '.join(missing)}.")
    return Interaction(**{**given, "user": str(given["user"]), "item": str(given["item"])})


def _explained(live: LiveNetwork, ego: EgoGraph, text: str) -> Explanation:
    spans = _parts(text) if live.settings.words else []
    neighbours = _neighbours_of(live, ego)
    states: Iterable[np.ndarray | None] = [None] * len(neighbours)
    if ego.heard is not None:  # a sum says nothing of one of its parts: these are read again
        states = live.message_states([live.interaction(number) for number in neighbours])
    features = _features(live, ego)
    changed = [
        *_without_words(live, ego, text, spans),
        *(_without_neighbour(live, ego, *one) for one in zip(neighbours, states, strict=True)),
        *(without for _, _, without in features),
    ]
    probabilities = live.probabilities([ego, *changed])
    own, best = probabilities[0], int(probabilities[0].argmax())
    effects = (own[best] - probabilities[1:, best]).tolist()
    by_word, by_neighbour, by_feature = np.split(effects, np.cumsum([len(spans), len(neighbours)]))
    return Explanation(
        label=live.classes[best],
        probabilities={str(name): float(share) for name, share in zip(live.classes, own, strict=True)},
        words=[
            WordEffect(text[start:end], start, end, effect)
            for (start, end), effect in zip(spans, by_word.tolist(), strict=True)
        ],
        neighbours=_sorted(
            _neighbour(live, ego, number, effect)
            for number, effect in zip(neighbours, by_neighbour.tolist(), strict=True)
        ),
        features=_sorted(
            FeatureEffect(name, meaning, effect)
            for (name, meaning, _), effect in zip(features, by_feature.tolist(), strict=True)
        ),
    )


def _sorted(effects: Iterable[Any]) -> list[Any]:
    return sorted(effects, key=lambda found: -abs(found.effect))


def _parts(text: str) -> list[tuple[int, int]]:
    """(start, end) of every word, or of runs of several words if there are many."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    several = -(-len(words) // MOST_PARTS) or 1
    return [(words[first][0], words[: first + several][-1][1]) for first in range(0, len(words), several)]


def _without_words(live: LiveNetwork, ego: EgoGraph, text: str, spans: list[tuple[int, int]]) -> list[EgoGraph]:
    if not spans:
        return []
    shorter = [f"{text[:start]} {text[end:]}".strip() for start, end in spans]
    read = live.featurizer.read_texts(pl.Series([*shorter, text], dtype=pl.String))
    words, whole = live.read_tokens(read.tokens), read.one(len(shorter), FOLDS)
    found = []
    for at in range(len(shorter)):
        other = read.one(at, FOLDS)
        # What is read of a labelled interaction comes from other regressions, so only the change is added to it.
        own = replace(
            other,
            log_odds=ego.read.log_odds + other.log_odds - whole.log_odds,
            parts=ego.read.parts + other.parts - whole.parts,
        )
        evidence = live.evidence.of(ego.number, ego.codes, own)
        found.append(replace(ego, read=own, tokens=words[at], evidence=evidence))
    return found


def _neighbours_of(live: LiveNetwork, ego: EgoGraph) -> list[int]:
    """Numbers of the neighbours whose effect is measured: those that send states, else those with the most alike texts.

    (All neighbours count in the evidence, but of hundreds, hardly any moves the prediction alone.)
    """
    if live.settings.passes_messages and ego.heard is None:
        return ego.neighbourhood.rows.tolist()
    if not (ego.evidence.labels or ego.evidence.words or ego.evidence.likeness or ego.evidence.around):
        return []
    return live.evidence.most_alike(ego.number, ego.codes, ego.read, live.settings.sample_size).tolist()


def _without_neighbour(live: LiveNetwork, ego: EgoGraph, neighbour: int, state: np.ndarray | None = None) -> EgoGraph:
    """The ego graph without the message, the label and the words of this neighbour.

    Its message state is needed where sums are heard.
    """
    evidence = live.evidence.of(ego.number, ego.codes, ego.read, neighbour)
    heard = ego.heard
    if heard is not None and state is not None:
        heard = heard.without(torch.from_numpy(state).float(), _shared(live, ego, neighbour))
    return replace(ego, neighbourhood=ego.neighbourhood.without(neighbour), evidence=evidence, heard=heard)


def _features(live: LiveNetwork, ego: EgoGraph) -> list[tuple[str, str, EgoGraph]]:
    """(name, meaning, the ego graph without it) of every input besides words and single neighbours."""
    found: list[tuple[str, str, EgoGraph]] = []
    for role, meaning in STRUCTURE.items():
        seen_by_encoder = live.settings.structure_tokens and role != "closeness"
        if role in ego.structure and (live.trees is not None or seen_by_encoder):
            blank = ego.structure | {role: np.zeros_like(ego.structure[role])}
            found.append((role, meaning, replace(ego, structure=blank)))
    for side in SIDES:
        node = ego.nodes[side]
        if len(node.vector) or live.settings.nodes == "trained":
            unknown = ego.with_node(side, slot=0, vector=np.zeros_like(node.vector))
            found.append((side, f"which {side} it is", unknown))
        if side in ego.evidence.labels and ego.evidence.labels[side].any():
            unlabelled = replace(ego, evidence=ego.evidence.without_labels([side]))
            found.append((f"{side} labels", f"how the {side}'s other interactions are labelled", unlabelled))
    if ego.evidence.repeats.size or live.trees is not None:
        meaning = "how many interactions the user and the item have, each and with each other"
        found.append(("activity", meaning, replace(ego, evidence=ego.evidence.without_degrees())))
    if ego.evidence.log_odds.size or ego.evidence.style.size:
        silent = replace(ego, evidence=ego.evidence.without_words())
        found.append(("linear models", "words and parts of words, by the linear models", silent))
    if ego.evidence.around or ego.evidence.words or ego.evidence.likeness:
        alone = replace(ego, evidence=ego.evidence.without_neighbours_texts())
        found.append(("neighbours' texts", "what other texts of the user and the item say", alone))
    return found


def _neighbour(live: LiveNetwork, ego: EgoGraph, number: int, effect: float) -> NeighbourEffect:
    return NeighbourEffect(number, live.interaction(number), " and ".join(_shared(live, ego, number)), effect)


def _shared(live: LiveNetwork, ego: EgoGraph, number: int) -> list[str]:
    """Sides on which this interaction has the node of the ego graph."""
    return [name for name, side in live.sides.items() if side.nodes.values[number] == ego.codes[name]]
