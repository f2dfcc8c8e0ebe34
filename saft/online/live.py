"""LiveNetwork: a trained model and its network, to which interactions and labels are added while it is queried.

Everything that a prediction needs is looked up around the interaction in question, so it costs the same with ten
thousand interactions as with a million. Interactions that are added are neighbours of everything predicted afterwards.
Interactions that are only predicted are not added, and do not influence each other.

Predictions are those of ``SaftClassifier.predict`` for the same network. Not safe for several threads at once.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import torch

from saft.classifier.estimator import SaftClassifier
from saft.data.joining import class_codes
from saft.data.network import HIDDEN
from saft.data.times import times_as_text
from saft.errors import InputError
from saft.features.evidence import Evidence
from saft.features.featurizer import Featurizer
from saft.features.gathering import SIDES
from saft.features.tokens import Tokens
from saft.features.trees import SideFeatures
from saft.hashing import fixed_keys
from saft.learning.frozen_layers import Read
from saft.learning.neighbour_cache import NeighbourCache, fill_cache
from saft.learning.prediction import Forward
from saft.learning.sampling import Neighbours, neighbour_weights, race
from saft.metrics import softmax
from saft.model.regression import RegressionModel
from saft.online.growing import GrowingArray
from saft.online.live_evidence import LiveEvidence
from saft.online.live_sums import LiveSums
from saft.online.subgraph import EgoGraph, EgoNode, EgoPredictor, Neighbourhood, stacked_structure


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
class Prediction:
    label: Any
    probabilities: np.ndarray  # (classes,)
    known_user: bool
    known_item: bool
    classes: Sequence[str] = ()  # of the probabilities


class LiveNetwork:
    """
    Args:
        classifier: trained; neither it nor its network is changed.
    """

    def __init__(self, classifier: SaftClassifier) -> None:
        assembly, network = classifier.assembly_, classifier.network_
        if classifier.settings.fusion == "paper":
            raise InputError(
                "Under fusion='paper' the state of an interaction depends on its own neighbours, so a network cannot "
                "grow without being encoded again. Train with fusion='residual'."
            )
        self.classifier, self.settings = classifier, assembly.settings
        self.layers = copy.copy(assembly.layers)  # the encoder's frozen ones; use_session replaces how they are run
        reads, vectors = assembly.featurizer, None if self.layers is None else self.layers.vectors
        self.featurizer = Featurizer.restored(reads.settings, reads.tokenizer, reads.state_, vectors)
        self.structure = copy.deepcopy(assembly.featurizer.state_.structure)  # new users and items are folded into it
        self.n_known, self.n_classes, self.classes = len(network), network.n_classes, network.classes
        self.evidence = evidence = LiveEvidence(self.settings, network, assembly.features)
        self.labels, self.sides, self.label_totals = evidence.labels, evidence.sides, evidence.label_totals
        self.times: list[str | None] = times_as_text(network.times, len(network))
        self._known_texts, self._added_texts = network.texts, list[str]()
        self.model, self.trees, self._padding = assembly.model, assembly.trees, assembly.features.tokens.padding
        self.predictor = self._predictor()
        self._states = GrowingArray(self._known_states())  # where single neighbours are heard
        self._sums = LiveSums.of(assembly.cache)  # where sums over all of them are

    def __len__(self) -> int:
        return len(self.labels)

    def use_session(self, session: Forward | None, read: Read | None = None) -> None:
        """Compute logits, and the output of the frozen layers, with these instead of torch."""
        self.predictor = self._predictor(session)
        if self.layers is not None and read is not None:
            self.layers.read = read

    def _predictor(self, session: Forward | None = None) -> EgoPredictor:
        return EgoPredictor(self.model, self.settings, self.n_classes, self._padding, self.trees, session)

    def interaction(self, number: int) -> Interaction:
        """The one with this number; those of training come first, in the order of their table."""
        code = int(self.labels.values[number])
        ids = {name: side.ids[int(side.nodes.values[number])] for name, side in self.sides.items()}
        label = None if code == HIDDEN else self.classes[code]
        return Interaction(ids["user"], ids["item"], self.text(number), label, self.times[number])

    def text(self, number: int) -> str:
        return str(self._known_texts[number]) if number < self.n_known else self._added_texts[number - self.n_known]

    def add(self, interactions: Sequence[Interaction], states: np.ndarray | None = None) -> np.ndarray:
        """Add interactions; returns their numbers.

        Args:
            states: their message states, if they are known from an earlier :meth:`message_states`.
        """
        labels = self.label_codes([interaction.label for interaction in interactions])
        states = self.message_states(interactions) if states is None else states
        vectors = {name: self._vectors(interactions, name) for name in SIDES}
        read = self.featurizer.read_texts(pl.Series([one.text for one in interactions], dtype=pl.String))
        first = len(self)
        if self._sums is None:
            self._states.append(states)
        for place, interaction in enumerate(interactions):
            self._added_texts.append(interaction.text)
            self.times.append(interaction.time)
            codes = {
                name: side.code_of(getattr(interaction, name), vectors[name][place])
                for name, side in self.sides.items()
            }
            number = self.evidence.append(read, codes, place)
            # One by one: the vector of a new user must not depend on what else was in the same request.
            self.structure.extend(np.array([codes["user"]]), np.array([codes["item"]]))
            self.evidence.relabel(number, int(labels[place]))
        numbers = np.arange(first, len(self))
        if self._sums is not None:
            self._sums.add({name: self.sides[name].nodes.values[numbers] for name in SIDES}, states)
        return numbers

    def label(self, number: int, label: Any) -> None:
        """Set the label of an interaction; None removes it."""
        self.evidence.relabel(number, int(self.label_codes([label])[0]))

    def label_codes(self, labels: Sequence[Any]) -> np.ndarray:
        """HIDDEN for None; an error names what is not among the classes."""
        return class_codes(self.classes, labels)

    def predict(self, interactions: Sequence[Interaction]) -> list[Prediction]:
        """Predictions, each as if its interaction were the next one to come."""
        known = [{name: getattr(one, name) in side.codes for name, side in self.sides.items()} for one in interactions]
        probabilities = self.probabilities(self.ego_graphs(interactions))
        return [
            Prediction(self.classes[int(row.argmax())], row, of["user"], of["item"], [*map(str, self.classes)])
            for row, of in zip(probabilities, known, strict=True)
        ]

    def probabilities(self, egos: Sequence[EgoGraph]) -> np.ndarray:
        """(egos, classes), calibrated."""
        if not egos:
            return np.empty((0, self.n_classes))
        return softmax(self._logits(egos), self.classifier.temperature_)

    def _logits(self, egos: Sequence[EgoGraph]) -> np.ndarray:
        if isinstance(self.model, RegressionModel):  # no batch is needed where nothing but the evidence counts
            evidence = Evidence.stacked([ego.evidence for ego in egos])
            columns = SideFeatures(evidence, stacked_structure(egos), self.trees).of(np.arange(len(egos)))
            return self.model.side_logits(torch.from_numpy(columns)).numpy()
        return self.predictor.logits(egos)

    def ego_graphs(self, interactions: Sequence[Interaction]) -> list[EgoGraph]:
        """Each as if it were the next interaction to come."""
        if not interactions:
            return []
        vectors = {name: self._vectors(interactions, name) for name in SIDES}
        # Every interaction gets an unknown node of its own, so that they do not influence each other.
        codes = {
            name: np.array(
                [side.codes.get(getattr(one, name), len(side.ids) + at) for at, one in enumerate(interactions)]
            )
            for name, side in self.sides.items()
        }
        texts = pl.Series([one.text for one in interactions], dtype=pl.String)
        return self._ego_graphs(len(self), texts, codes, vectors)

    def ego_graph_of(self, number: int) -> EgoGraph:
        """The interaction with this number, without its own label."""
        codes = {name: side.nodes.values[number : number + 1] for name, side in self.sides.items()}
        vectors = {name: side.vectors.values[codes[name]] for name, side in self.sides.items()}
        return self._ego_graphs(number, pl.Series([self.text(number)], dtype=pl.String), codes, vectors)[0]

    @property
    def message_shape(self) -> tuple[int, ...]:
        """Of a message state; that of nothing where no states are passed."""
        return self.model.message_shape or (0,)

    def message_states(self, interactions: Sequence[Interaction]) -> np.ndarray:
        """(interactions, *message shape) in half precision, of some that need not be in the network."""
        if not interactions or not self.model.message_shape:
            return np.empty((len(interactions), *self.message_shape), np.float16)
        return self.predictor.message_states(self.ego_graphs(interactions)).astype(np.float16)

    def neighbours(self, number: int) -> dict[str, np.ndarray]:
        """Side → numbers of all other interactions of its user, of its item."""
        found = {name: side.members(int(side.nodes.values[number])) for name, side in self.sides.items()}
        return {name: rows[rows != number] for name, rows in found.items()}

    def _ego_graphs(
        self, number: int, texts: pl.Series, codes: dict[str, np.ndarray], vectors: dict[str, np.ndarray]
    ) -> list[EgoGraph]:
        """Of these (text, user, item); ``number`` is that of the interaction, or of the next one to come."""
        read = self.featurizer.read_texts(texts, number if number < self.n_known else None)
        words = self.read_tokens(read.tokens)
        view = self.evidence.view(number)
        structure = self.structure.transform(codes["user"], codes["item"])
        samples = {name: self._samples(number, name, codes) for name in SIDES}
        egos = []
        for at, tokens in enumerate(words):
            sampled = {name: samples[name][at] for name in SIDES}
            code = {name: int(codes[name][at]) for name in SIDES}
            nodes = {}
            for name in SIDES:
                slot = int(self.featurizer.node_slots(name, np.array([code[name]]))[0])
                nodes[name] = EgoNode(slot, vectors[name][at], bool((sampled[name] == number).any()))
            around = self._neighbourhood(number, sampled)
            heard = None if self._sums is None else self._sums.heard(code, is_counted=number < len(self))
            embeddings = {role: rows[at] for role, rows in structure.items()}
            own = read.one(at, view)
            evidence = self.evidence.of(number, code, own)
            egos.append(EgoGraph(number, code, own, tokens, evidence, embeddings, nodes, around, heard))
        return egos

    def read_tokens(self, tokens: Tokens) -> list[np.ndarray]:
        """Of each text its token ids, or their states if the encoder has frozen layers, and trained ones above."""
        if self.layers is None or not self.settings.trains_encoder:
            return np.split(tokens.flat, tokens.starts[1:-1])
        states = self.layers.states(tokens)
        return [states.of(text) for text in range(len(tokens))]

    def _neighbourhood(self, number: int, sampled: dict[str, np.ndarray]) -> Neighbourhood:
        rows = np.setdiff1d(np.concatenate(list(sampled.values())), [number])
        return Neighbourhood(
            rows,
            {name: (rows[:, None] == sample).any(axis=1) for name, sample in sampled.items()},
            self.labels.values[rows],
            self._states.values[rows],
        )

    def _samples(self, number: int, name: str, codes: dict[str, np.ndarray]) -> list[np.ndarray]:
        """For each (user, item), numbers of the interactions in this node's sample, perhaps its own among them."""
        if not self.settings.passes_messages or self.settings.sums_states:
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
        drawn = race(candidates, self.settings.sample_size, fixed_keys(rows, self.settings.seed), weights)
        return np.split(rows[drawn.rows], drawn.starts[1:-1])

    def _vectors(self, interactions: Sequence[Interaction], name: str) -> np.ndarray:
        """(interactions, ·) of their users, or items: the stored ones, else from the interaction's attributes."""
        side = self.sides[name]
        codes = [side.codes.get(getattr(one, name)) for one in interactions]
        vectors = np.empty((len(interactions), side.vectors.values.shape[1]), np.float32)
        new = [at for at, code in enumerate(codes) if code is None]
        for at, code in enumerate(codes):
            if code is not None:
                vectors[at] = side.vectors.values[code]
        if new:
            vectors[new] = [self._new_vector(name, interactions[at]) for at in new]
        return vectors

    def _new_vector(self, name: str, interaction: Interaction) -> np.ndarray:
        """Of an unknown user, or item. One by one: types of attributes must not depend on what else is asked."""
        given = pl.DataFrame([interaction.attributes.get(name, {})], infer_schema_length=None)
        ids = pl.Series([getattr(interaction, name)], dtype=pl.String)
        return self.featurizer.new_node_vectors(name, ids, given if given.width else None)[0]

    def _known_states(self) -> np.ndarray:
        """(interactions, *message shape) of the network of training."""
        assembly = self.classifier.assembly_
        if not assembly.model.message_shape or self.settings.sums_states:
            return np.empty((self.n_known, 0), np.float16)
        cache = assembly.cache
        if not isinstance(cache, NeighbourCache):
            cache = NeighbourCache.empty(self.n_known, *assembly.model.message_shape)
            fill_cache(assembly.model, replace(assembly, cache=cache).loader(), np.arange(self.n_known))
        return cache.states.numpy()
