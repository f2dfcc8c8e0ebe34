"""GIANT: the encoder first learns to predict from a text the clusters of its user and its item, then is frozen.

Chien, Chang, Hsieh, Yu, Zhang, Milenkovic and Dhillon: Node Feature Extraction by Self-Supervised Multi-scale
Neighborhood Prediction. ICLR 2022.

Users (and items) are described by the normalised sum of their texts' TF-IDF and divided by a balanced tree: each part
in halves by spherical 2-means, until a part holds about 16. The encoder is fine-tuned to predict the parts of an
interaction's user and item, coarse ones in one epoch, fine ones in the next:

    loss = mean over its parts c of max(0, 1 − s_c)² + mean over the others of max(0, 1 + s_c)²
    s = Linear(mean of the last layer's tokens)

(The mean over all parts at once is near its least where every score is −1, and the vectors of texts collapsed to one.)

Its vectors then go into graph convolution (``_gcn.py``). Labels of interactions are not used in the first step.
Differs from the original, which predicts neighbouring nodes: here the neighbourhood of an interaction is its user and
its item. All parts of a level are scored, as there are at most 1,024; the original scores a shortlist out of millions.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array, csr_matrix
from torch import Tensor, nn
from torch.nn import functional

from saft.classifier.assembly import Assembly
from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback
from saft.learning.prediction import represent
from saft.methods._card import Method
from saft.methods._features import FeatureMethod
from saft.methods._fine_tuned import count_parameters, run_training
from saft.methods._gcn import GRAPH, GRAPH_TRAINING, GRAPHS
from saft.methods.tfidf import learn_words
from saft.model.base import InteractionModel, Output, Sizes
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder, masked_mean
from saft.settings import TEXT_ONLY, Settings

MOST_LEVELS, LEAF = 10, 16  # at most 1,024 parts of about 16 nodes
ROUNDS = 5  # of 2-means


def levels_for(n_nodes: int) -> int:
    """How often nodes are halved."""
    return int(np.clip(np.log2(max(n_nodes / LEAF, 1)), 1, MOST_LEVELS))


def describe(words: csr_matrix, nodes: np.ndarray, n_nodes: int) -> csr_array:
    """(nodes, words) the normalised sum of the rows of each node's interactions; zero for nodes without words."""
    from sklearn.preprocessing import normalize

    belongs = csr_array((np.ones(len(nodes), np.float32), (nodes, np.arange(len(nodes)))), shape=(n_nodes, len(nodes)))
    return csr_array(normalize(belongs @ csr_array(words)))


def halve(vectors: csr_array, levels: int, rng: np.random.Generator) -> np.ndarray:
    """(nodes,) the part of each node after ``levels`` halvings; parts differ by at most one node at every cut.

    The part of a coarser level is the same number without its last binary digits.
    """
    parts = np.zeros(vectors.shape[0], dtype=np.int64)
    for _ in range(levels):
        deeper = parts * 2
        for part in np.unique(parts):
            members = np.flatnonzero(parts == part)
            deeper[members[_upper_half(vectors[members], rng)]] += 1
        parts = deeper
    return parts


def _upper_half(vectors: csr_array, rng: np.random.Generator) -> np.ndarray:
    """Indices of the half that is nearer to the second of two centres, by spherical 2-means with equal shares."""
    count = vectors.shape[0]
    order = rng.permutation(count)
    for _ in range(ROUNDS if count > 2 else 0):
        lower, upper = (np.asarray(vectors[half].sum(axis=0)).ravel() for half in np.array_split(order, 2))
        lower, upper = (centre / max(np.linalg.norm(centre), 1e-12) for centre in (lower, upper))
        order = np.argsort(vectors @ (upper - lower), kind="stable")
    return np.array_split(order, 2)[1]


class PartFinder(InteractionModel):
    """Scores of all parts of users, then of items."""

    def __init__(self, encoder: TextEncoder, settings: Settings, sizes: Sizes, parts: int) -> None:
        super().__init__(encoder, settings, sizes)
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(encoder.width, parts)

    def forward(self, batch: Batch) -> Output:
        words = torch.cat([masked_mean(self.encoder(*chunk), chunk[1]) for chunk in batch.texts])[batch.seed_rows]
        return Output(self.head(self.dropout(words)), words)


def squared_hinge(output: Output, batch: Batch) -> Tensor:
    """``targets`` (batch, 2) are the parts of user and item; items' parts are numbered after those of users."""
    own = torch.zeros_like(output.logits).scatter(1, batch.targets, 1.0)
    missed = (functional.relu(1 - output.logits).square() * own).sum() / own.sum()
    mistaken = (functional.relu(1 + output.logits).square() * (1 - own)).sum() / (1 - own).sum().clamp(min=1)
    return missed + mistaken


class Giant(FeatureMethod):
    training: ClassVar[dict[str, Any]] = GRAPH_TRAINING

    def __init__(self, settings: Settings, callbacks: Iterable[Callback], graph: str = "bipartite") -> None:
        super().__init__(settings, callbacks)
        self.kind = GRAPHS[graph]

    def learn(self, network: TextualInteractionNetwork, train: np.ndarray) -> None:
        """Fine-tune the encoder, level by level."""
        settings = self.settings.changed(epochs=1)
        network = network.showing(np.empty(0, np.int64))
        self.callbacks.on_message("Dividing users and items by their words")
        words, rng = learn_words(network.texts).transform(network.texts.to_list()), np.random.default_rng(settings.seed)
        sides = ((network.users, network.n_users), (network.items, network.n_items))
        trees = [halve(describe(words, nodes, count), levels_for(count), rng) for nodes, count in sides]
        depths = [levels_for(count) for _, count in sides]
        before = None
        for share in (0.5, 1.0):  # of the tree's depth
            cuts = [depth - max(round(depth * share), 1) for depth in depths]
            parts = [tree >> cut for tree, cut in zip(trees, cuts, strict=True)]
            sizes = [1 << (depth - cut) for depth, cut in zip(depths, cuts, strict=True)]
            targets = np.stack([parts[0][network.users], parts[1][network.items] + sizes[0]], axis=1)
            before = self.assembly = self._train_level(network, settings, targets, sum(sizes), before)

    def _train_level(
        self,
        network: TextualInteractionNetwork,
        settings: Settings,
        targets: np.ndarray,
        parts: int,
        before: Assembly | None,
    ) -> Assembly:
        assembly = Assembly.fresh(settings, network, partial(PartFinder, parts=parts))
        if before is not None:  # continue with its encoder
            assembly.model.encoder.load_state_dict(before.model.encoder.state_dict())
        loader = assembly.loader(targets=targets)
        run_training(
            assembly.model, loader, np.arange(len(network)), None, settings, self.callbacks, loss=squared_hinge
        )
        return assembly

    def features(self, network: TextualInteractionNetwork) -> np.ndarray:
        self.callbacks.on_message("Reading all interactions")
        return represent(self.assembly.model, self.assembly.loader(network), np.arange(len(network)))

    def net(self, width: int, network: TextualInteractionNetwork) -> nn.Module:
        return self.kind(width, network.n_classes)

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Giant:
        super().fit(network, train, valid)
        self.n_parameters_ += count_parameters(self.assembly.model)
        return self


METHOD = Method(title="GIANT", paper="Chien et al., ICLR 2022", build=Giant, settings=TEXT_ONLY, options=GRAPH)
