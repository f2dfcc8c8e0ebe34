"""The parts that a classifier is made of, put together: network, reader, encoder, model, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError
from saft.features.featurizer import Inputs, Reader
from saft.features.regression import regress
from saft.features.tokens import load_tokenizer
from saft.learning.frozen_layers import FrozenLayers
from saft.learning.loader import Feed, Memory
from saft.model.base import InteractionModel, Sizes
from saft.model.encoder import LanguageModel
from saft.model.saft import SaftModel
from saft.settings import Settings

# Of the regression on hints that the head starts from (docs/experiments.md).
MOST_FITTED, STRENGTH, STEPS = 20_000, 0.1, 100

Build = Callable[[LanguageModel, Settings, Sizes], InteractionModel]


@dataclass
class Assembly:
    """A model and what it knows. ``network`` holds the labels that may be seen, and no others."""

    settings: Settings
    network: TextualInteractionNetwork
    reader: Reader
    inputs: Inputs
    model: InteractionModel
    memory: Memory | None
    frozen: FrozenLayers | None = None  # of the known network, while it is in memory; a loaded model reads tokens

    @classmethod
    def fresh(cls, settings: Settings, network: TextualInteractionNetwork, build: Build = SaftModel) -> Assembly:
        """An untrained model for this network, its weights drawn by the seed."""
        torch.manual_seed(settings.seed)
        language = LanguageModel.load(settings.encoder, settings.layers or None, settings.frozen_layers)
        reader = Reader(settings, load_tokenizer(settings.encoder)).learn(network)
        assembly = cls.of(settings, network, reader, language, build)
        if language.frozen:
            assembly.frozen = FrozenLayers.remembered(language, assembly.inputs.tokens)
        if isinstance(assembly.model, SaftModel) and assembly.model.hints:
            assembly.model.answer_by_hints(best_answer_by_hints(assembly.feed()))
        return assembly

    @classmethod
    def of(
        cls,
        settings: Settings,
        network: TextualInteractionNetwork,
        reader: Reader,
        language: LanguageModel,
        build: Build = SaftModel,
    ) -> Assembly:
        if settings.max_length > language.longest_text:
            raise InputError(f"The encoder reads at most {language.longest_text} tokens; got {settings.max_length=}.")
        inputs = reader.read(network)
        columns = (known.shape[1] for known in (inputs.user_vectors, inputs.item_vectors, inputs.clues))
        model = build(language, settings, Sizes(network.n_classes, network.n_users, network.n_items, *columns))
        memory = None
        if settings.remember and not settings.full_batch and model.passes_on:
            memory = Memory.empty(len(network), *model.passes_on)
        return cls(settings, network, reader, inputs, model, memory)

    def feed(self, network: TextualInteractionNetwork | None = None) -> Feed:
        """What the model is fed of this network: the known one, or one that begins with it."""
        network = network or self.network
        inputs, memory, frozen = self.inputs, self.memory, self.frozen
        if len(network) > len(inputs):
            inputs, frozen = self.reader.read(network, inputs), None
            memory = None if memory is None else memory.with_room(len(network))
        return Feed(inputs, network.labels, network.n_classes, self.settings, memory, frozen=frozen)


def best_answer_by_hints(feed: Feed) -> torch.Tensor:
    """(hints + 1, classes) weights of the hints and, last, offsets: what a model without words would answer.

    Pulled to what needs no learning: clues of phrases pass straight on to their class, labels around say nothing. An
    optimiser that takes small steps for the encoder's sake would hardly get there in a few epochs.
    """
    rows, hints = feed.hints_in_training(MOST_FITTED)
    n_clues = feed.inputs.clues.shape[1]
    start = np.zeros((hints.shape[1] + 1, feed.n_classes))
    start[-1 - n_clues : -1] = np.eye(n_clues, feed.n_classes)
    counts = np.bincount(feed.labels[rows], minlength=feed.n_classes)
    start[-1] = np.log((counts + 1) / (counts + 1).sum())
    columns = torch.from_numpy(hints)
    return torch.from_numpy(regress(columns, columns.T, feed.labels[rows], start, STRENGTH, STEPS))
