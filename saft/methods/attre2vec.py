"""AttrE2vec: an interaction and the walks around both of its ends, encoded without labels.

Bielak, Kajdanowicz and Chawla: AttrE2vec: Unsupervised attributed edge representation learning. Information Sciences
592, 2022.

From each end w of e, 16 random walks of 8 interactions that never use e (a dead end is filled with zeros):

    S_w = mean over walks of the mean of their vectors h (``walk=mean``) or of Σ_j e^{−j} h_j / 8 (``walk=exponential``)
    α = softmax(tanh(a₀·h_e), tanh(a_u·S_u), tanh(a_i·S_i));   z = MLP([α₀ h_e; α_u S_u; α_i S_i]), 64 wide
    loss = ½ cosine loss(z_e with 5 interactions of its walks, against 10 others) + ½ ‖decoder(z_e) − h_e‖²

then logistic regression on z. h are frozen text vectors. Differs from the release: S_i is that of the item (there S_u
is used twice, so that one side is ignored); vectors are standardised by training rows only, and the zeros at dead ends
stay zeros; walks of all interactions are drawn at once; aggregators without parameters, so that S is computed once;
batches of 256 instead of 32 and 20 epochs instead of up to 150, after which the loss hardly moves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from saft.data.network import TextualInteractionNetwork
from saft.learning.callbacks import Callback, CallbackList
from saft.learning.sampling import Neighbours, all_neighbours
from saft.methods._card import Method
from saft.methods._features import RowLoader, Rows
from saft.methods._fine_tuned import count_parameters, run_training
from saft.methods._logistic import Logistic
from saft.methods._text_vectors import text_vectors
from saft.settings import Settings

WALKS, LENGTH, WIDTH = 16, 8, 64
POSITIVES, NEGATIVES = 5, 10
TRAINING = {
    "epochs": 20, "least_steps": 0, "head_learning_rate": 1e-3, "weight_decay": 0.0, "warmup": 0.0, "clip": 0.0,
    "batch_size": 256,
}  # fmt: skip
ROWS_AT_ONCE = 4096


class WalkGraph:
    """Steps from interaction to interaction through their users and items, for many walks at once."""

    def __init__(self, network: TextualInteractionNetwork) -> None:
        self.nodes = network.users.astype(np.int64), network.items.astype(np.int64)
        self.of = (
            all_neighbours(self.nodes[0], network.n_users),
            all_neighbours(self.nodes[1], network.n_items),
        )
        # Index of each interaction among those of its user, and of its item.
        self.places = tuple(_places(lists, nodes) for lists, nodes in zip(self.of, self.nodes, strict=True))

    def walks(self, seed_rows: np.ndarray, side: int, rng: np.random.Generator) -> np.ndarray:
        """(seeds, WALKS, LENGTH) interactions, from the user (side 0) or the item (1) of each; −1 past a dead end."""
        avoided = np.repeat(seed_rows, WALKS)
        node = self.nodes[side][avoided]
        steps = np.full((len(avoided), LENGTH), -1, dtype=np.int32)
        going = np.arange(len(avoided))
        for place in range(LENGTH):
            chosen = self._step(node[going], avoided[going], side, rng)
            going, chosen = going[chosen >= 0], chosen[chosen >= 0]
            steps[going, place] = chosen
            side = 1 - side
            node[going] = self.nodes[side][chosen]
        return steps.reshape(len(seed_rows), WALKS, LENGTH)

    def _step(self, node: np.ndarray, avoided: np.ndarray, side: int, rng: np.random.Generator) -> np.ndarray:
        """An interaction of each node, drawn from all but the avoided one; −1 where there is no other."""
        starts, rows = self.of[side].starts, self.of[side].rows
        here = self.nodes[side][avoided] == node
        free = starts[node + 1] - starts[node] - here
        drawn = (rng.random(len(node)) * free).astype(np.int64)
        drawn += here & (drawn >= self.places[side][avoided])  # skip the avoided one
        return np.where(free > 0, rows[np.minimum(starts[node] + drawn, len(rows) - 1)], -1)


def _places(lists: Neighbours, nodes: np.ndarray) -> np.ndarray:
    places = np.empty(len(nodes), dtype=np.int64)
    places[lists.rows] = np.arange(len(nodes)) - lists.starts[nodes[lists.rows]]
    return places


def summarised(vectors: np.ndarray, walks: np.ndarray, aggregator: str) -> np.ndarray:
    """(seeds, d) S: the mean over walks of the aggregated vectors along each."""
    weights = np.exp(-np.arange(LENGTH)) / LENGTH if aggregator == "exponential" else np.full(LENGTH, 1 / LENGTH)
    padded = np.vstack([vectors, np.zeros((1, vectors.shape[1]), vectors.dtype)])  # −1 is the last row
    return sum(weights[place] * padded[walks[:, :, place]].mean(axis=1) for place in range(LENGTH)).astype(np.float32)


@dataclass(frozen=True)
class Coded:
    own: Tensor  # (batch, 64)
    positives: Tensor  # (batch, 5, 64)
    negatives: Tensor  # (batch, 10, 64)
    strange: Tensor  # (batch, 10) which negatives are neither itself nor in its pool; the loss leaves out the others
    decoded: Tensor  # (batch, d)
    vectors: Tensor  # (batch, d)


class EdgeEncoder(nn.Module):
    """z of interactions, from (interactions, 3, d): own vector, S_u, S_i. ``pool``: some of those on their walks."""

    def __init__(self, parts: Tensor, pool: Tensor) -> None:
        super().__init__()
        self.parts, self.pool = parts, pool
        width = parts.shape[2]
        self.attention = nn.Parameter(torch.randn(3, width) * width**-0.5)
        self.encoder = nn.Sequential(
            nn.Linear(3 * width, 2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, width),
            nn.ReLU(),
            nn.Linear(width, WIDTH),
            nn.Tanh(),
        )
        between = (WIDTH + width) // 2
        self.decoder = nn.Sequential(
            nn.Linear(WIDTH, between), nn.Tanh(), nn.Linear(between, between), nn.Tanh(), nn.Linear(between, width)
        )

    def code(self, parts: Tensor) -> Tensor:
        scores = torch.tanh((parts * self.attention).sum(dim=-1))
        weighed = torch.softmax(scores, dim=-1)[..., None] * parts
        return self.encoder(weighed.flatten(-2))

    def forward(self, batch: Rows) -> Coded:
        rows = batch.seed_rows
        walked = self.pool[rows]
        positives = torch.gather(walked, 1, torch.randint(walked.shape[1], (len(rows), POSITIVES)))
        # Negatives of the whole batch come from as many drawn interactions as it has rows: each is coded once.
        drawn = torch.randint(len(self.parts), (len(rows),))
        picks = torch.randint(len(rows), (len(rows), NEGATIVES))
        strange = (drawn[picks][:, :, None] != walked[:, None]).all(dim=2) & (drawn[picks] != rows[:, None])
        own = self.code(self.parts[rows])
        return Coded(
            own=own,
            positives=self.code(self.parts[positives]),
            negatives=self.code(self.parts[drawn]).index_select(0, picks.flatten()).reshape(*picks.shape, -1),
            strange=strange,
            decoded=self.decoder(own),
            vectors=self.parts[rows, 0],
        )


def unsupervised_loss(output: Coded, batch: Rows) -> Tensor:
    """½ cosine embedding loss (margin 0) + ½ squared error of the decoded vectors."""
    near = 1 - functional.cosine_similarity(output.own[:, None], output.positives, dim=2)
    far = functional.cosine_similarity(output.own[:, None], output.negatives, dim=2).clamp(min=0)
    pairs = near.numel() + output.strange.sum()
    apart = (near.sum() + (far * output.strange).sum()) / pairs
    return apart / 2 + functional.mse_loss(output.decoded, output.vectors) / 2


class AttrE2vec:
    def __init__(self, settings: Settings, callbacks: Iterable[Callback], walk: str) -> None:
        self.settings, self.walk = settings, walk
        self.callbacks = CallbackList(callbacks)

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self:
        vectors = self._texts(network)
        self.centre_, self.spread_ = vectors[train].mean(axis=0), np.maximum(vectors[train].std(axis=0), 1e-6)
        parts, pool = self._parts(network)
        torch.manual_seed(self.settings.seed)
        self.encoder_ = EdgeEncoder(parts, pool)
        settings = self.settings.changed(**TRAINING)
        hidden = network.showing(np.empty(0, np.int64))
        loader = RowLoader(hidden.labels, network.n_classes, settings.seed, settings.batch_size)
        run_training(
            self.encoder_, loader, np.arange(len(network)), None, settings, self.callbacks, loss=unsupervised_loss
        )
        codes = self._codes(parts)
        self.logistic_ = Logistic(network.n_classes).fit(
            (codes[train], network.labels[train]), (codes[valid], network.labels[valid])
        )
        self.n_parameters_ = count_parameters(self.encoder_) + self.logistic_.n_parameters_
        return self

    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray:
        parts, _ = self._parts(network)
        return self.logistic_.predict_proba(self._codes(parts)[interactions])

    def _texts(self, network: TextualInteractionNetwork) -> np.ndarray:
        return text_vectors(network.texts, self.settings, "mean", self.callbacks.on_message)

    def _parts(self, network: TextualInteractionNetwork) -> tuple[Tensor, Tensor]:
        """((interactions, 3, d): own vector, S_u, S_i; (interactions, 32): some of the interactions on its walks)."""
        vectors = ((self._texts(network) - self.centre_) / self.spread_).astype(np.float32)
        parts = np.stack([vectors, np.zeros_like(vectors), np.zeros_like(vectors)], axis=1)
        pool = np.empty((len(network), 2 * WALKS), dtype=np.int64)
        graph, rng = WalkGraph(network), np.random.default_rng(self.settings.seed)
        for first in range(0, len(network), ROWS_AT_ONCE):
            rows = np.arange(first, min(first + ROWS_AT_ONCE, len(network)))
            for side in (0, 1):
                walks = graph.walks(rows, side, rng)
                parts[rows, 1 + side] = summarised(vectors, walks, self.walk)
                # A random step of each walk; where the walk ended before it, the interaction itself.
                met = np.take_along_axis(walks, rng.integers(LENGTH, size=(*walks.shape[:2], 1)), axis=2)[:, :, 0]
                pool[rows, side * WALKS : (side + 1) * WALKS] = np.where(met >= 0, met, rows[:, None])
            self.callbacks.on_message(f"Walking: {rows[-1] + 1:,} of {len(network):,}")
        return torch.from_numpy(parts), torch.from_numpy(pool)

    @torch.inference_mode()
    def _codes(self, parts: Tensor) -> np.ndarray:
        self.encoder_.train(False)
        return torch.cat([self.encoder_.code(some) for some in torch.split(parts, ROWS_AT_ONCE)]).numpy()


METHOD = Method(
    title="AttrE2vec",
    paper="Bielak et al., Information Sciences 2022",
    build=AttrE2vec,
    options={"walk": ("mean", "exponential")},
)
