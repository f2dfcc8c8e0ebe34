"""Assembly: the parts of a model put together: network, featurizer, features, encoder, model, cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from saft.data.network import HIDDEN, TextualInteractionNetwork
from saft.errors import InputError
from saft.features.arrays import Features
from saft.features.featurizer import Featurizer, FeaturizerState
from saft.features.regression import fit_groups
from saft.features.tokens import enough_tokens, load_tokenizer
from saft.learning.frozen_layers import FrozenLayers
from saft.learning.loader import BatchLoader
from saft.learning.neighbour_cache import NeighbourCache
from saft.learning.start import Start
from saft.model.base import InteractionModel, SideFeatureModel, Sizes
from saft.model.encoder import TextEncoder
from saft.model.regression import RegressionModel
from saft.model.saft import SaftModel
from saft.settings import NO_ENCODER, Settings

MOST_FITTED = 20_000  # rows of the regression on side features that the head starts from

Build = Callable[[TextEncoder, Settings, Sizes], InteractionModel]


@dataclass(frozen=True)
class Assembly:
    """A model and what it knows. ``network`` holds the labels that may be seen, and no others."""

    settings: Settings
    network: TextualInteractionNetwork
    featurizer: Featurizer
    features: Features
    model: InteractionModel
    cache: NeighbourCache | None = None
    layers: FrozenLayers | None = None  # the encoder's frozen layers, if it has any

    @classmethod
    def fresh(
        cls,
        settings: Settings,
        network: TextualInteractionNetwork,
        build: Build = SaftModel,
        on_progress: Callable[[int], None] = lambda texts: None,
    ) -> Assembly:
        """An untrained model for this network, its weights drawn by the seed.

        Args:
            on_progress: called with the number of texts that the frozen layers have read since the last call.
        """
        torch.manual_seed(settings.seed)
        encoder, tokenizer = None, None
        if settings.encoder != NO_ENCODER:
            encoder = TextEncoder.load(
                settings.encoder, settings.layers or None, settings.trained_layers, settings.precision
            )
            tokenizer = load_tokenizer(settings.encoder)
            if not settings.max_length:
                enough = enough_tokens(network.texts, tokenizer)
                settings = settings.changed(max_length=min(enough, encoder.longest_text))
        layers = _frozen_layers(encoder, on_progress)
        featurizer = Featurizer(settings, tokenizer, None if layers is None else layers.vectors)
        features = featurizer.fit_transform(network)
        if layers is not None and settings.trains_encoder:
            layers.states(features.tokens).fill()
        assembly = cls._of(network, featurizer, features, encoder, layers, build)
        if isinstance(assembly.model, SideFeatureModel) and assembly.model.n_side_features:
            assembly.model.start_from_side_features(fit_side_head(assembly.loader()))
        return assembly

    @classmethod
    def restored(
        cls,
        settings: Settings,
        network: TextualInteractionNetwork,
        state: FeaturizerState,
        tokenizer: Any,
        encoder: TextEncoder | None,
        cache: NeighbourCache | None,
    ) -> Assembly:
        """From what was stored; the weights are still to be loaded."""
        layers = _frozen_layers(encoder)
        featurizer = Featurizer.restored(settings, tokenizer, state, None if layers is None else layers.vectors)
        return cls._of(network, featurizer, featurizer.transform(network), encoder, layers, cache=cache)

    @classmethod
    def _of(
        cls,
        network: TextualInteractionNetwork,
        featurizer: Featurizer,
        features: Features,
        encoder: TextEncoder | None,
        layers: FrozenLayers | None,
        build: Build = SaftModel,
        cache: NeighbourCache | None = None,
    ) -> Assembly:
        """The model around a featurizer that is fitted; the cache is empty if none is given."""
        settings = featurizer.settings
        if encoder is not None and settings.max_length > encoder.longest_text:
            raise InputError(f"The encoder reads at most {encoder.longest_text} tokens; got {settings.max_length=}.")
        loader = BatchLoader(features, network.labels, network.n_classes, settings)
        columns = features.user_vectors.shape[1], features.item_vectors.shape[1], loader.n_side_features
        sizes = Sizes(network.n_classes, network.n_users, network.n_items, *columns)
        model = _built(encoder, settings, sizes, build)
        if not (settings.cache_neighbours and not settings.full_batch and model.message_shape):
            cache = None
        elif cache is None:
            cache = NeighbourCache.empty(len(network), *model.message_shape)
        return cls(settings, network, featurizer, features, model, cache, layers)

    def start(self, rows: np.ndarray) -> Start | None:
        """What is predicted for unlabelled rows before training, if the head starts from side features.

        At the start all other weights of the head are zero, so that no text has to be encoded for this.
        """
        model = self.model
        if not isinstance(model, SideFeatureModel) or not model.n_side_features:
            return None
        logits = model.side_logits(torch.from_numpy(self.loader().side_features[rows])).numpy()
        return Start(logits, model.side_weights())

    def with_network(self, network: TextualInteractionNetwork) -> Assembly:
        """The same with other visible labels."""
        return replace(self, network=network)

    def loader(
        self, network: TextualInteractionNetwork | None = None, targets: np.ndarray | None = None
    ) -> BatchLoader:
        """Batches of this network: the known one, or one that begins with it."""
        network = network or self.network
        features, cache = self.features, self.cache
        if len(network) > len(features):
            features = self.featurizer.transform(network, features)
            cache = None if cache is None else cache.extended(len(network))
        frozen = None
        if self.layers is not None and self.settings.trains_encoder:
            frozen = self.layers.states(features.tokens)
        return BatchLoader(
            features, network.labels, network.n_classes, self.settings, cache, frozen=frozen, targets=targets
        )


def _frozen_layers(
    encoder: TextEncoder | None, on_progress: Callable[[int], None] = lambda texts: None
) -> FrozenLayers | None:
    return FrozenLayers(encoder, on_progress) if encoder is not None and encoder.frozen else None


def _built(encoder: TextEncoder | None, settings: Settings, sizes: Sizes, build: Build) -> InteractionModel:
    if encoder is not None and settings.trains_encoder:
        return build(encoder, settings, sizes)
    if build is not SaftModel:
        raise InputError("This method trains an encoder; it needs one (encoder) and layers to train (trained_layers).")
    if not sizes.side_features:
        raise InputError(
            "There is nothing to learn from: no layer is trained, and ngrams, style and labels are switched off."
        )
    return RegressionModel(encoder, settings, sizes)


def fit_side_head(loader: BatchLoader) -> torch.Tensor:
    """(side features + 1, classes) weights and, last, biases: the best prediction from the side features alone.

    The optimiser, whose steps are small for the encoder's sake, would hardly get there in a few epochs.
    """
    labelled = np.flatnonzero(loader.labels != HIDDEN)
    rows = np.random.default_rng([loader.settings.seed]).permutation(labelled)[:MOST_FITTED]
    solved, _ = fit_groups(
        loader.side_features[rows],
        loader.evidence.groups(),
        loader.evidence.blocks(),
        loader.labels[rows],
        loader.n_classes,
        loader.features.folds[rows],
    )
    return torch.from_numpy(solved)
