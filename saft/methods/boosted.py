"""Boosted trees on everything that SAFT's head is given, and on more. A rival of our own: what many would try first.

    p = softmax(Σ_t rate · tree_t(x)),   each tree fitted to the gradients of what is left (histogram gradient boosting)
    x = [side features of SAFT; distance (16); centrality (16); closeness; log degrees; sentence vector (32)]

Side features (``saft/features/evidence.py``): class log-odds by n-grams and by the sentence vector, known labels of
user and item, labels of alike texts, likeness, what is read in the texts of neighbours, style. All are made without the
labels of a training row's fold: from counts without the own label alone, trees would learn the label itself. The
sentence vector is the mean over the tokens after the last layer that is read, turned to its 32 main directions.

The number of trees and their size are those with the least log loss on the validation rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

import numpy as np

from saft.classifier.assembly import Assembly
from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback, CallbackList
from saft.methods._card import Method
from saft.settings import Settings
from saft.structure.standardised import Structure

STRUCTURE_DIMENSIONS, MAIN_DIRECTIONS = 16, 32
RATE, PULL, COLUMNS_PER_SPLIT = 0.05, 1.0, 0.5
LEAVES = (7, 31)  # of a tree, at most
AT_ONCE, PATIENCE, MOST_TREES = 25, 50, 600  # trees per class: until the next look, without a gain, altogether
TREES_WITHOUT_VALIDATION = 100


class Boosted:
    def __init__(self, settings: Settings, callbacks: Iterable[Callback]) -> None:
        self.settings, self.callbacks = settings, CallbackList(callbacks)

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        self.train, visible = np.asarray(train), network.showing(train)
        self.callbacks.on_message("Reading texts, computing structure")
        self._learn_columns(visible)
        columns, self.n_classes = self.columns(visible), network.n_classes
        self.callbacks.on_message("Growing trees")
        given = columns[train], network.labels[train], columns[valid], network.labels[valid]
        self.trees_ = min((grow(*given, leaves, self.settings.seed) for leaves in LEAVES), key=lambda trees: trees.loss)
        self.n_parameters_ = self.trees_.n_parameters
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        columns = self.columns(network.showing(self.train))[np.asarray(interactions)]
        result = np.zeros((len(columns), self.n_classes))
        result[:, self.trees_.classes] = self.trees_.predict_proba(columns)
        return result

    def _learn_columns(self, network: TextualInteractionNetwork) -> None:
        from sklearn.decomposition import PCA

        settings = self.settings
        self.assembly = Assembly.fresh(settings, network)
        self.structure = Structure(settings.distance, settings.centrality, STRUCTURE_DIMENSIONS, settings.seed)
        self.structure.fit(network.users, network.items)
        vectors = self.assembly.features.vectors
        self.directions = (
            PCA(min(MAIN_DIRECTIONS, *vectors.shape), svd_solver="covariance_eigh") if vectors.size else None
        )
        if self.directions is not None:
            self.directions.fit(vectors)

    def columns(self, network: TextualInteractionNetwork) -> np.ndarray:
        """(interactions, ·) what trees see of each; labels are those that the network shows."""
        loader = self.assembly.loader(network)
        degrees = network.user_degrees[network.users], network.item_degrees[network.items]
        parts = [loader.side_features, *self.structure.transform(network.users, network.items).values()]
        parts.append(np.log(np.stack(degrees, axis=1)))
        if self.directions is not None:
            parts.append(self.directions.transform(loader.features.vectors))
        return np.hstack(parts).astype(np.float32)


@dataclass(frozen=True)
class Trees:
    """A boosted model as it was after its best iteration.

    Args:
        model: of scikit-learn.
        iterations: those that count; there may be more in the model.
        loss: on the validation rows.
    """

    model: Any
    iterations: int
    loss: float

    @property
    def classes(self) -> np.ndarray:
        """Those with a training row, in the order of the columns of probabilities."""
        return self.model.classes_

    @property
    def n_parameters(self) -> int:
        """Leaves, at most."""
        return self.iterations * self.model.n_trees_per_iteration_ * self.model.max_leaf_nodes

    def predict_proba(self, columns: np.ndarray) -> np.ndarray:
        if not len(columns):
            return np.zeros((0, len(self.classes)))
        found = next(islice(self.model.staged_predict_proba(columns), self.iterations - 1, None))
        return found[:, : len(self.classes)]  # scikit-learn has two columns also for a single class


def grow(
    columns: np.ndarray, targets: np.ndarray, valid: np.ndarray, valid_targets: np.ndarray, leaves: int, seed: int
) -> Trees:
    """Trees of so many leaves, some at a time, until the validation rows have not become likelier for a while."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        learning_rate=RATE, max_leaf_nodes=leaves, l2_regularization=PULL, max_features=COLUMNS_PER_SPLIT,
        early_stopping=False, warm_start=True, random_state=seed,
    )  # fmt: skip
    if not len(valid):
        model.set_params(max_iter=TREES_WITHOUT_VALIDATION).fit(columns, targets)
        return Trees(model, TREES_WITHOUT_VALIDATION, 0.0)
    losses: list[float] = []
    while len(losses) < MOST_TREES and len(losses) - np.argmin([*losses, np.inf]) <= PATIENCE:
        model.set_params(max_iter=len(losses) + AT_ONCE).fit(columns, targets)
        new = islice(model.staged_predict_proba(valid), len(losses), None)
        losses += [log_loss(probabilities, model.classes_, valid_targets) for probabilities in new]
    best = int(np.argmin(losses))
    return Trees(model, best + 1, losses[best])


def log_loss(probabilities: np.ndarray, classes: np.ndarray, targets: np.ndarray) -> float:
    """Mean −log p(target); targets without a training row are left out, nothing can be learnt about them."""
    known = np.isin(targets, classes)
    found = probabilities[known, np.searchsorted(classes, targets[known])]
    return float(-np.log(np.maximum(found, 1e-12)).mean()) if known.any() else 0.0


METHOD = Method(
    title="Boosted trees", paper="ours", build=Boosted, settings={"fusion": "none", "trained_layers": 0, "trees": False}
)
