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
from saft.features.regression import LEAST_GAIN, fit_groups
from saft.features.tokens import enough_tokens, load_tokenizer
from saft.features.trees import TreeModel, mixing_weight, tree_columns
from saft.learning.frozen_layers import FrozenLayers
from saft.learning.loader import BatchLoader
from saft.learning.neighbour_cache import NeighbourCache
from saft.learning.node_sums import NodeSums
from saft.learning.start import Start
from saft.model.base import InteractionModel, SideFeatureModel, Sizes
from saft.model.encoder import TextEncoder
from saft.model.regression import RegressionModel
from saft.model.saft import SaftModel
from saft.settings import NO_ENCODER, Settings

MOST_FITTED = 20_000  # rows that the regression on side features, and trees, are fitted to

Cache = NeighbourCache | NodeSums
Build = Callable[[TextEncoder, Settings, Sizes], InteractionModel]


@dataclass(frozen=True)
class Assembly:
    """A model and what it knows. ``network`` holds the labels that may be seen, and no others."""

    settings: Settings
    network: TextualInteractionNetwork
    featurizer: Featurizer
    features: Features
    model: InteractionModel
    cache: Cache | None = None
    layers: FrozenLayers | None = None  # the encoder's frozen layers, if it has any
    trees: TreeModel | None = None  # beside the regression of the start, if they help
    start_weights: torch.Tensor | None = None  # before training only: (side features + 1, classes), biases last

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
        loader = BatchLoader(features, network.labels, network.n_classes, settings)
        if not loader.n_side_features:
            return cls._of(network, featurizer, features, encoder, layers, build)
        trees, solved = fit_start(loader)
        assembly = cls._of(network, featurizer, features, encoder, layers, build, trees=trees)
        model = assembly.model
        if not isinstance(model, SideFeatureModel):
            return assembly
        if isinstance(model, RegressionModel) or model.n_learnt == model.n_side_features:
            model.start_from_side_features(solved)
        else:
            model.start_from_side_features(fit_learnt(loader, len(solved)))
        return replace(assembly, start_weights=solved)

    @classmethod
    def restored(
        cls,
        settings: Settings,
        network: TextualInteractionNetwork,
        state: FeaturizerState,
        tokenizer: Any,
        encoder: TextEncoder | None,
        cache: Cache | None,
        trees: TreeModel | None,
    ) -> Assembly:
        """From what was stored; the weights are still to be loaded."""
        layers = _frozen_layers(encoder)
        featurizer = Featurizer.restored(settings, tokenizer, state, None if layers is None else layers.vectors)
        return cls._of(network, featurizer, featurizer.transform(network), encoder, layers, cache=cache, trees=trees)

    @classmethod
    def _of(
        cls,
        network: TextualInteractionNetwork,
        featurizer: Featurizer,
        features: Features,
        encoder: TextEncoder | None,
        layers: FrozenLayers | None,
        build: Build = SaftModel,
        cache: Cache | None = None,
        trees: TreeModel | None = None,
    ) -> Assembly:
        """The model around a featurizer that is fitted; the cache is empty if none is given."""
        settings = featurizer.settings
        if encoder is not None and settings.max_length > encoder.longest_text:
            raise InputError(f"The encoder reads at most {encoder.longest_text} tokens; got {settings.max_length=}.")
        loader = BatchLoader(features, network.labels, network.n_classes, settings, trees=trees)
        columns = features.user_vectors.shape[1], features.item_vectors.shape[1], loader.n_side_features
        sizes = Sizes(network.n_classes, network.n_users, network.n_items, *columns, loader.learnt_columns)
        model = _built(encoder, settings, sizes, build)
        if not (settings.cache_neighbours and not settings.full_batch and model.message_shape):
            cache = None
        elif cache is None:
            cache = _empty_cache(network, model)
        return cls(settings, network, featurizer, features, model, cache, layers, trees)

    def start(self, rows: np.ndarray) -> Start | None:
        """What is predicted for unlabelled rows before training, if there are side features."""
        model, weights = self.model, self.start_weights
        if not isinstance(model, SideFeatureModel) or weights is None:
            return None
        logits = self.loader().beside.of(rows) @ weights[:-1].numpy() + weights[-1].numpy()
        return Start(logits, weights, is_head=model.n_learnt == model.n_side_features)

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
            cache = None if cache is None else cache.extended(network.users, network.items)
        frozen = None
        if self.layers is not None and self.settings.trains_encoder:
            frozen = self.layers.states(features.tokens)
        return BatchLoader(
            features,
            network.labels,
            network.n_classes,
            self.settings,
            cache,
            frozen=frozen,
            targets=targets,
            trees=self.trees,
        )


def _empty_cache(network: TextualInteractionNetwork, model: InteractionModel) -> Cache:
    if not model.hears_sums:
        return NeighbourCache.empty(len(network), *model.message_shape)
    nodes = {"user": network.users, "item": network.items}
    return NodeSums.for_training(nodes, {"user": network.n_users, "item": network.n_items}, model.message_shape)


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
            "There is nothing to learn from: no layer is trained, "
            "and ngrams, sentences, style, labels and repeats are switched off."
        )
    return RegressionModel(encoder, settings, sizes)


def fit_start(loader: BatchLoader) -> tuple[TreeModel | None, torch.Tensor]:
    """The best prediction from the side features alone: trees, if they help, and (side features + 1, classes) weights
    and, last, biases of a head that sees the evidence and what the trees say of it.

    The optimiser, whose steps are small for the encoder's sake, would hardly get there in a few epochs.
    """
    rows = _fitted_rows(loader)
    evidence, targets, folds = loader.evidence.take(rows), loader.labels[rows], loader.features.folds[rows]
    fitted = fit_groups(evidence.features(), evidence.groups(), evidence.blocks(), targets, loader.n_classes, folds)
    if not loader.settings.trees:
        return None, torch.from_numpy(fitted.weights)
    columns = tree_columns(evidence, {role: vectors[rows] for role, vectors in loader.features.structure.items()})
    trees = TreeModel.fit(columns, targets, loader.n_classes, folds, loader.settings.seed)
    if trees is None:
        return None, torch.from_numpy(fitted.weights)
    weight = mixing_weight(fitted.held_out, trees.log_odds(columns, evidence.views), targets, LEAST_GAIN)
    if not weight:
        return None, torch.from_numpy(fitted.weights)
    by_class = weight * np.eye(loader.n_classes)
    mixed = np.vstack([(1 - weight) * fitted.weights[:-1], by_class, (1 - weight) * fitted.weights[-1:]])
    return trees, torch.from_numpy(mixed.astype(np.float32))


def fit_learnt(loader: BatchLoader, n_weights: int) -> torch.Tensor:
    """(``n_weights``, classes) the best prediction from the learnt columns alone; zeros for all others.

    Where none is learnt from, that is the shares of the classes.
    """
    rows, learnt = _fitted_rows(loader), loader.learnt_columns
    evidence = loader.evidence.take(rows)

    def inside(columns: slice) -> bool:
        return learnt.start <= columns.start < learnt.stop

    def shifted(columns: slice) -> slice:
        return slice(columns.start - learnt.start, columns.stop - learnt.start)

    fitted = fit_groups(
        evidence.features()[:, learnt],
        {name: shifted(columns) for name, columns in evidence.groups().items() if inside(columns)},
        [shifted(block) for block in evidence.blocks() if inside(block)],
        loader.labels[rows],
        loader.n_classes,
        loader.features.folds[rows],
    )
    solved = torch.zeros(n_weights, loader.n_classes)
    solved[learnt], solved[-1] = torch.from_numpy(fitted.weights[:-1]), torch.from_numpy(fitted.weights[-1])
    return solved


def _fitted_rows(loader: BatchLoader) -> np.ndarray:
    """Labelled rows that a start is fitted to; the same whenever it is asked."""
    labelled = np.flatnonzero(loader.labels != HIDDEN)
    return np.random.default_rng([loader.settings.seed]).permutation(labelled)[:MOST_FITTED]
