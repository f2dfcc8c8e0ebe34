"""The parts that a classifier is made of, put together: network, reader, encoder, model, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from saft.errors import InputError
from saft.feed import Feed, Memory
from saft.inputs import Inputs, Reader
from saft.model.interaction_model import InteractionModel, Sizes
from saft.model.language import LanguageModel
from saft.model.saft import SaftModel
from saft.network import TextualInteractionNetwork
from saft.settings import Settings
from saft.tokens import load_tokenizer

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

    @classmethod
    def fresh(cls, settings: Settings, network: TextualInteractionNetwork, build: Build = SaftModel) -> Assembly:
        """An untrained model for this network, its weights drawn by the seed."""
        torch.manual_seed(settings.seed)
        language = LanguageModel.load(settings.encoder, settings.layers or None)
        reader = Reader(settings, load_tokenizer(settings.encoder)).learn(network)
        return cls.of(settings, network, reader, language, build)

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
        inputs, memory = self.inputs, self.memory
        if len(network) > len(inputs):
            inputs = self.reader.read(network, inputs)
            memory = None if memory is None else memory.with_room(len(network))
        return Feed(inputs, network.labels, network.n_classes, self.settings, memory)
