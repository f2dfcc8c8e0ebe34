"""Assembly: the parts of a model put together: network, featurizer, features, encoder, model, cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError
from saft.features.featurizer import Features, Featurizer
from saft.features.regression import regress
from saft.features.tokens import load_tokenizer
from saft.learning.frozen_layers import FrozenLayerCache
from saft.learning.loader import BatchLoader
from saft.learning.neighbour_cache import NeighbourCache
from saft.model.base import InteractionModel, Sizes
from saft.model.encoder import TextEncoder
from saft.model.saft import SaftModel
from saft.settings import Settings

# Of the regression on side features that the head starts from (docs/experiments.md).
MOST_FITTED, STRENGTH, STEPS = 20_000, 0.1, 100

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
    frozen: FrozenLayerCache | None = None  # of ``network``; a loaded model reads tokens

    @classmethod
    def fresh(cls, settings: Settings, network: TextualInteractionNetwork, build: Build = SaftModel) -> Assembly:
        """An untrained model for this network, its weights drawn by the seed."""
        torch.manual_seed(settings.seed)
        encoder = TextEncoder.load(settings.encoder, settings.layers or None, settings.frozen_layers)
        featurizer = Featurizer(settings, load_tokenizer(settings.encoder)).fit(network)
        assembly = cls.of(settings, network, featurizer, encoder, build)
        if encoder.frozen:
            assembly = replace(assembly, frozen=FrozenLayerCache.create(encoder, assembly.features.tokens))
        if isinstance(assembly.model, SaftModel) and assembly.model.n_side_features:
            assembly.model.start_from_side_features(fit_side_head(assembly.loader()))
        return assembly

    @classmethod
    def of(
        cls,
        settings: Settings,
        network: TextualInteractionNetwork,
        featurizer: Featurizer,
        encoder: TextEncoder,
        build: Build = SaftModel,
        cache: NeighbourCache | None = None,
    ) -> Assembly:
        """The model around a featurizer that is fitted; the cache is empty if none is given."""
        if settings.max_length > encoder.longest_text:
            raise InputError(f"The encoder reads at most {encoder.longest_text} tokens; got {settings.max_length=}.")
        features = featurizer.transform(network)
        columns = (known.shape[1] for known in (features.user_vectors, features.item_vectors, features.ngram_log_odds))
        model = build(encoder, settings, Sizes(network.n_classes, network.n_users, network.n_items, *columns))
        if not (settings.cache_neighbours and not settings.full_batch and model.message_shape):
            cache = None
        elif cache is None:
            cache = NeighbourCache.empty(len(network), *model.message_shape)
        return cls(settings, network, featurizer, features, model, cache)

    def start_logits(self, rows: np.ndarray) -> np.ndarray | None:
        """Logits of unlabelled rows before training, if the head starts from side features; else they mean nothing.

        At the start all other weights of the head are zero, so that no text has to be encoded for this.
        """
        if not isinstance(self.model, SaftModel) or not self.model.n_side_features:
            return None
        return self.model.side_logits(torch.from_numpy(self.loader().side_features_of(rows))).numpy()

    def with_network(self, network: TextualInteractionNetwork) -> Assembly:
        """The same with other visible labels."""
        return replace(self, network=network)

    def loader(
        self, network: TextualInteractionNetwork | None = None, targets: np.ndarray | None = None
    ) -> BatchLoader:
        """Batches of this network: the known one, or one that begins with it."""
        network = network or self.network
        features, cache, frozen = self.features, self.cache, self.frozen
        if len(network) > len(features):
            features, frozen = self.featurizer.transform(network, features), None
            cache = None if cache is None else cache.extended(len(network))
        return BatchLoader(
            features, network.labels, network.n_classes, self.settings, cache, frozen=frozen, targets=targets
        )


def fit_side_head(loader: BatchLoader) -> torch.Tensor:
    """(side features + 1, classes) weights and, last, biases: the best prediction from the side features alone.

    Weights are pulled to what needs no learning: n-gram log-odds pass straight to their class, known labels count
    nothing. The optimiser, whose steps are small for the encoder's sake, would hardly get there in a few epochs.
    """
    rows, side_features = loader.masked_side_features(MOST_FITTED)
    n_ngram_columns = loader.features.ngram_log_odds.shape[1]
    start = np.zeros((side_features.shape[1] + 1, loader.n_classes))
    start[-1 - n_ngram_columns : -1] = np.eye(n_ngram_columns, loader.n_classes)
    counts = np.bincount(loader.labels[rows], minlength=loader.n_classes)
    start[-1] = np.log((counts + 1) / (counts + 1).sum())
    columns = torch.from_numpy(side_features)
    return torch.from_numpy(regress(columns, columns.T, loader.labels[rows], start, STRENGTH, STEPS))
