"""LiveNetwork: a trained model and its network, to which interactions and verdicts are added while it answers.

Everything that an answer needs is looked up around the interaction in question: an answer costs the same with ten
thousand interactions as with a million. What is added is a neighbour to everything that is asked afterwards. What is
asked is not added, and questions that are answered together know nothing of each other.

Answers are those of ``SaftClassifier.predict`` for the same network. Not to be used by several threads at once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from saft.classifier.estimator import SaftClassifier
from saft.data.joining import match_classes
from saft.data.network import HIDDEN
from saft.errors import InputError
from saft.features.tokens import tokenise
from saft.learning.loader import Feed, Memory
from saft.learning.prediction import refresh
from saft.learning.sampling import Neighbours, all_neighbours, neighbour_weights, race, steady_keys
from saft.metrics import softmax
from saft.online.subgraph import SIDES, Around, Case, Node, Reading


@dataclass(frozen=True)
class Interaction:
    """This user did this with that item, in these words."""

    user: str
    item: str
    text: str
    label: Any = None
    time: str | None = None
    attributes: dict[str, dict[str, Any]] = field(default_factory=dict)  # side → name → value


@dataclass(frozen=True)
class Answer:
    label: Any
    probabilities: np.ndarray  # (classes,)
    known_user: bool
    known_item: bool


class Growing:
    """An array that can be appended to without copying it each time."""

    def __init__(self, values: np.ndarray) -> None:
        self._room, self._length = values, len(values)

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> np.ndarray:
        return self._room[: self._length]

    def append(self, more: np.ndarray) -> None:
        needed = self._length + len(more)
        if needed > len(self._room) or not self._room.flags.writeable:
            room = np.zeros((max(needed, len(self._room) * 5 // 4), *self._room.shape[1:]), self._room.dtype)
            room[: self._length] = self.values
            self._room = room
        self._room[self._length : needed] = more
        self._length = needed


class Side:
    """The users, or the items: ids, vectors, interactions and labels of each."""

    def __init__(self, name: str, ids: pl.Series, codes: np.ndarray, vectors: np.ndarray, counts: np.ndarray) -> None:
        self.name, self.n_seen = name, len(ids)
        self.ids = ids.cast(pl.String).to_list()
        self.codes = {text: code for code, text in reversed(list(enumerate(self.ids)))}  # the first place counts
        self.nodes = Growing(codes)
        self.vectors, self.label_counts = Growing(vectors), Growing(counts)
        self._members = all_neighbours(codes, self.n_seen)
        self._added: dict[int, list[int]] = {}

    def members(self, code: int) -> np.ndarray:
        """Numbers of its interactions, in order."""
        own = self._members.of(np.array([code])) if code < self.n_seen else np.empty(0, np.int64)
        return np.concatenate([own, np.array(self._added.get(code, []), np.int64)])

    def code_of(self, text: str, vector: np.ndarray) -> int:
        """Of this id, which is new if it is not known."""
        if text not in self.codes:
            self.codes[text] = len(self.ids)
            self.ids.append(text)
            self.vectors.append(vector[None])
            self.label_counts.append(np.zeros((1, self.label_counts.values.shape[1]), np.int32))
        return self.codes[text]

    def append(self, number: int, code: int) -> None:
        self.nodes.append(np.array([code]))
        self._added.setdefault(code, []).append(number)


class LiveNetwork:
    """
    Args:
        classifier: trained; neither it nor its network is changed.
    """

    def __init__(self, classifier: SaftClassifier) -> None:
        assembly, network = classifier.assembly_, classifier.network_
        if classifier.settings.fusion == "paper":
            raise InputError(
                "Under fusion='paper' what an interaction says depends on its own neighbours, so a network cannot grow "
                "without reading it again. Train with fusion='residual'."
            )
        self.classifier, self.settings, self.reader = classifier, classifier.settings, assembly.reader
        self.structure = copy.deepcopy(assembly.reader.structure)  # new users and items are folded in for good
        self.n_known, self.n_classes = len(network), network.n_classes
        self.classes = network.classes
        self.labels = Growing(network.labels.copy())
        self._known_texts, self._known_tokens = network.texts, assembly.inputs.tokens
        self.times: list[str | None] = _times(network.times, len(network))
        self._added_texts: list[str] = []
        self.label_totals = np.bincount(network.labels[network.labels != HIDDEN], minlength=self.n_classes)
        self.sides = {
            "user": self._side("user", network.user_ids, network.users, assembly.inputs.user_vectors),
            "item": self._side("item", network.item_ids, network.items, assembly.inputs.item_vectors),
        }
        self.reading = Reading(assembly.model, self._known_tokens.padding, self.n_classes, self.settings.labels)
        self._states = Growing(self._remembered())

    def __len__(self) -> int:
        return len(self.labels)

    def interaction(self, number: int) -> Interaction:
        """The one with this number; those of training come first, in the order of their table."""
        code = int(self.labels.values[number])
        ids = {name: side.ids[int(side.nodes.values[number])] for name, side in self.sides.items()}
        label = None if code == HIDDEN else self.classes[code]
        return Interaction(ids["user"], ids["item"], self.text(number), label, self.times[number])

    def text(self, number: int) -> str:
        return str(self._known_texts[number]) if number < self.n_known else self._added_texts[number - self.n_known]

    def add(self, interactions: Sequence[Interaction], states: np.ndarray | None = None) -> np.ndarray:
        """Their numbers. They are heard by whatever is asked about their users and items from now on.

        Args:
            states: what they pass on, if that is known from an earlier :meth:`passed_on`.
        """
        labels = self.label_codes([interaction.label for interaction in interactions])
        states = self.passed_on(interactions) if states is None else states
        vectors = {name: self._vectors(interactions, name) for name in SIDES}
        first = len(self)
        self._states.append(states)
        self.labels.append(np.full(len(interactions), HIDDEN, np.int32))
        for place, interaction in enumerate(interactions):
            self._added_texts.append(interaction.text)
            self.times.append(interaction.time)
            ends = {}
            for name, side in self.sides.items():
                ends[name] = side.code_of(getattr(interaction, name), vectors[name][place])
                side.append(first + place, ends[name])
            # One by one: what becomes of a new user must not depend on who arrived in the same portion.
            self.structure.extend(np.array([ends["user"]]), np.array([ends["item"]]))
            self._relabel(first + place, int(labels[place]))
        return np.arange(first, len(self))

    def label(self, number: int, label: Any) -> None:
        """A verdict on an interaction; None takes it back."""
        self._relabel(number, int(self.label_codes([label])[0]))

    def label_codes(self, labels: Sequence[Any]) -> np.ndarray:
        """HIDDEN for None; an error names what is not among the classes."""
        given = pl.Series([None if label is None else str(label) for label in labels], dtype=pl.String)
        codes = np.where(given.is_null().to_numpy(), HIDDEN, match_classes(self.classes, given))
        for label, code in zip(labels, codes, strict=True):
            if code == -1:
                known = ", ".join(map(str, self.classes))
                raise InputError(f"There is no class {label!r}. The classes are {known}.")
        return codes.astype(np.int32)

    def predict(self, interactions: Sequence[Interaction]) -> list[Answer]:
        """What the model says of these, each as if it were the next one to come."""
        known = [{name: getattr(one, name) in side.codes for name, side in self.sides.items()} for one in interactions]
        probabilities = self.probabilities(self.cases(interactions))
        return [
            Answer(self.classes[int(row.argmax())], row, of["user"], of["item"])
            for row, of in zip(probabilities, known, strict=True)
        ]

    def probabilities(self, cases: Sequence[Case]) -> np.ndarray:
        """(cases, classes), calibrated."""
        if not cases:
            return np.empty((0, self.n_classes))
        return softmax(self.reading.answers(cases), self.classifier.temperature_)

    def cases(self, interactions: Sequence[Interaction]) -> list[Case]:
        """Each as if it were the next one to come."""
        if not interactions:
            return []
        vectors = {name: self._vectors(interactions, name) for name in SIDES}
        # Whoever is unknown is another one for every interaction, so that they say nothing about each other.
        codes = {
            name: np.array(
                [side.codes.get(getattr(one, name), len(side.ids) + at) for at, one in enumerate(interactions)]
            )
            for name, side in self.sides.items()
        }
        texts = pl.Series([one.text for one in interactions], dtype=pl.String)
        tokens, clues = self.read_texts(texts)
        structure = self.structure.transform(codes["user"], codes["item"])
        surroundings = self._surroundings(len(self), codes, vectors)
        return [
            Case(tokens[at], clues[at], {role: rows[at] for role, rows in structure.items()}, **surroundings[at])
            for at in range(len(interactions))
        ]

    def case_of(self, number: int) -> Case:
        """The interaction with this number, without its own label."""
        codes = {name: side.nodes.values[number : number + 1] for name, side in self.sides.items()}
        vectors = {name: side.vectors.values[codes[name]] for name, side in self.sides.items()}
        structure = self.structure.transform(codes["user"], codes["item"])
        tokens, clues = self.read_texts(pl.Series([self.text(number)], dtype=pl.String))
        if self.reader.phrases is not None and number < len(self.reader.phrases.learnt):
            clues = self.reader.phrases.learnt[number][None]  # by a regression that does not know its label
        [surroundings] = self._surroundings(number, codes, vectors)
        return Case(tokens[0], clues[0], {role: rows[0] for role, rows in structure.items()}, **surroundings)

    def read_texts(self, texts: pl.Series) -> tuple[list[np.ndarray], np.ndarray]:
        """Tokens of each, and their clues."""
        if not self.settings.words:
            texts = pl.repeat("", len(texts), eager=True)
        tokens = tokenise(texts, self.reader.tokenizer, self.settings.max_length)
        clues = np.empty((len(texts), 0), np.float32)
        if self.reader.phrases is not None:
            clues = self.reader.phrases.read(texts)
        return np.split(tokens.flat, tokens.starts[1:-1]), clues

    def passed_on(self, interactions: Sequence[Interaction]) -> np.ndarray:
        """What these would pass on to their neighbours."""
        if not interactions or not self.reading.model.passes_on:
            return np.empty((len(interactions), *self._states.values.shape[1:]), np.float16)
        return self.reading.passed_on(self.cases(interactions))

    def states(self, numbers: np.ndarray) -> np.ndarray:
        """What these pass on to their neighbours."""
        return self._states.values[numbers]

    def neighbours(self, number: int) -> dict[str, np.ndarray]:
        """Side → numbers of all other interactions of its user, of its item."""
        found = {name: side.members(int(side.nodes.values[number])) for name, side in self.sides.items()}
        return {name: rows[rows != number] for name, rows in found.items()}

    def _surroundings(
        self, number: int, codes: dict[str, np.ndarray], vectors: dict[str, np.ndarray]
    ) -> list[dict[str, Any]]:
        """What is around each of these (user, item); ``number`` is that of the interaction, or of the next to come."""
        own = np.zeros(self.n_classes, np.int32)  # its own label, which must not count
        if number < len(self) and self.labels.values[number] != HIDDEN:
            own[self.labels.values[number]] = 1
        samples = {name: self._samples(number, name, codes) for name in SIDES}
        found = []
        for at in range(len(codes["user"])):
            sampled = {name: samples[name][at] for name in SIDES}
            nodes = {}
            for name, side in self.sides.items():
                code = int(codes[name][at])
                counts = side.label_counts.values[code] - own if code < len(side.ids) else np.zeros_like(own)
                place = code + 1 if code < side.n_seen else 0
                nodes[name] = Node(place, vectors[name][at], counts, bool((sampled[name] == number).any()))
            around = self._around(number, sampled, {name: int(codes[name][at]) for name in SIDES})
            found.append({"nodes": nodes, "around": around, "label_totals": self.label_totals - own})
        return found

    def _around(self, number: int, sampled: dict[str, np.ndarray], codes: dict[str, int]) -> Around:
        rows = np.unique(np.concatenate(list(sampled.values())))
        rows = rows[rows != number]
        return Around(
            rows,
            {name: (rows[:, None] == sample).any(axis=1) for name, sample in sampled.items()},
            {name: side.nodes.values[rows] == codes[name] for name, side in self.sides.items()},
            self.labels.values[rows],
            self._states.values[rows],
        )

    def _samples(self, number: int, name: str, codes: dict[str, np.ndarray]) -> list[np.ndarray]:
        """For each (user, item), numbers of the interactions that speak for this node, perhaps its own among them."""
        if self.settings.fusion == "none":
            return [np.empty(0, np.int64)] * len(codes[name])
        own = [number] if number == len(self) else []  # a known one is among the members already
        members = [np.append(self.sides[name].members(code), own).astype(np.int64) for code in codes[name].tolist()]
        starts = np.cumsum([0, *map(len, members)])
        rows, weights = np.concatenate(members), None
        if self.settings.sampling != "random":
            of = np.repeat(np.arange(len(members)), np.diff(starts))
            known = np.minimum(rows, len(self) - 1)
            ends = {
                side: np.where(rows == number, codes[side][of], self.sides[side].nodes.values[known]) for side in SIDES
            }
            vectors = self.structure.transform(ends["user"], ends["item"])[self.settings.sampling]
            weights = neighbour_weights(self.settings.sampling, of, len(members), vectors)
        candidates = Neighbours(starts, np.arange(len(rows)))
        drawn = race(candidates, self.settings.neighbours, steady_keys(rows, self.settings.seed), weights)
        return np.split(rows[drawn.rows], drawn.starts[1:-1])

    def _vectors(self, interactions: Sequence[Interaction], name: str) -> np.ndarray:
        """(interactions, ·) of their users, or items: what is known of them, else what comes with the interaction."""
        side = self.sides[name]
        codes = [side.codes.get(getattr(one, name)) for one in interactions]
        vectors = np.empty((len(interactions), side.vectors.values.shape[1]), np.float32)
        new = [at for at, code in enumerate(codes) if code is None]
        for at, code in enumerate(codes):
            if code is not None:
                vectors[at] = side.vectors.values[code]
        if new:
            ids = pl.Series([getattr(interactions[at], name) for at in new], dtype=pl.String)
            given = pl.DataFrame([interactions[at].attributes.get(name, {}) for at in new], infer_schema_length=None)
            vectors[new] = self.reader.node_vectors(name, ids, given if given.width else None)
        return vectors

    def _relabel(self, number: int, code: int) -> None:
        before = int(self.labels.values[number])
        for change, label in ((-1, before), (1, code)):
            if label != HIDDEN:
                self.label_totals[label] += change
                for side in self.sides.values():
                    side.label_counts.values[side.nodes.values[number], label] += change
        self.labels.values[number] = code

    def _side(self, name: str, ids: pl.Series, codes: np.ndarray, vectors: np.ndarray) -> Side:
        counts = np.zeros((len(ids), self.n_classes), np.int32)
        visible = self.labels.values != HIDDEN
        np.add.at(counts, (codes[visible], self.labels.values[visible]), 1)
        return Side(name, ids, codes, vectors, counts)

    def _remembered(self) -> np.ndarray:
        """(interactions, ·) what the known ones pass on."""
        assembly = self.classifier.assembly_
        if not assembly.model.passes_on:
            return np.empty((self.n_known, 0), np.float16)
        memory = assembly.memory
        if memory is None:
            memory = Memory.empty(self.n_known, *assembly.model.passes_on)
            feed = Feed(assembly.inputs, assembly.network.labels, self.n_classes, self.settings, memory)
            refresh(assembly.model, feed, np.arange(self.n_known))
        return memory.states.numpy()


def _times(times: np.ndarray | None, count: int) -> list[str | None]:
    if times is None:
        return [None] * count
    return [None if text == "NaT" else text for text in np.datetime_as_string(times, unit="s").tolist()]
