"""A small network with every awkward case, and untrained models in evaluation mode with a batch."""

import numpy as np
import polars as pl
import pytest
import torch

import saft
from saft.classifier.assembly import Assembly
from saft.learning.neighbour_cache import fill_cache
from saft.methods import find
from saft.model.base import InteractionModel
from saft.model.batch import Batch

GOOD, BAD = "lovely perfect", "broken awful"
NEUTRAL = ("the", "it", "and", "a", "is", "for")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def toy() -> saft.TextualInteractionNetwork:
    """Users write well or badly of everything: words and graph agree. Three components, the last a single interaction;
    repeated pairs; users and items that occur once."""
    rng = np.random.default_rng(0)
    rows = []
    for part in range(2):
        for _ in range(75):
            user, item = rng.integers(12), rng.integers(9)
            rows.append((f"{part}-{user}", f"{part}-{item}", user % 2))
        rows += [rows[-1]] * 2  # the same user and item three times
        rows += [(f"{part}-once-{n}", f"{part}-{n}", n % 2) for n in range(4)]
        rows.append((f"{part}-0", f"{part}-only", 0))
    rows.append(("alone", "with itself", 1))
    texts = [f"{' '.join(rng.choice(NEUTRAL, 4))} {(GOOD, BAD)[label]}" for _, _, label in rows]
    frame = pl.DataFrame(rows, schema=["user", "item", "label"], orient="row").with_columns(text=pl.Series(texts))
    return saft.read(frame.with_columns(pl.col("label").replace_strict({0: "good", 1: "bad"})))


@pytest.fixture(scope="session")
def toy_settings(tiny_encoder) -> dict:
    return {
        "encoder": tiny_encoder, "max_length": 16, "epochs": 6, "least_steps": 0, "patience": 6, "batch_size": 8,
        "structure_dim": 8, "node_dim": 8, "learning_rate": 2e-3, "head_learning_rate": 5e-3,
    }  # fmt: skip


@pytest.fixture(scope="session")
def made(toy, toy_settings):
    """(method, settings of its own) → (untrained model in evaluation mode, batch of some of the rows 3 to 9).

    All layers are trained unless the settings say something else, so that batches hold token ids.
    """

    def make(name: str, own: dict | None = None) -> tuple[InteractionModel, Batch]:
        method = find(name).make(toy_settings, {"trained_layers": 3} | (own or {}))
        assembly = Assembly.fresh(method.settings, toy.showing(np.arange(100)), method.build)
        model = assembly.model.train(False)
        torch.manual_seed(1)
        for parameter in model.parameters():  # those that start at zero take part too
            if parameter.requires_grad and not parameter.any():
                torch.nn.init.normal_(parameter, std=0.1)
        loader = assembly.loader()
        fill_cache(model, loader, np.arange(len(toy)))
        view = next(loader.prediction_passes(np.arange(3, 10)))
        return model, loader.batch(view.batches[0], view)

    return make


def texts_of(batch: Batch) -> list[torch.Tensor]:
    """(1, length) token ids of every interaction that is encoded, without padding."""
    return [tokens[row : row + 1, : mask[row].sum()] for tokens, mask in batch.texts for row in range(len(tokens))]


def dense_operators(network) -> tuple[torch.Tensor, torch.Tensor]:
    """E_u and E_i: (interactions, users) and (interactions, items), written out, double precision."""
    users = torch.nn.functional.one_hot(torch.from_numpy(network.users.astype(np.int64)), network.n_users)
    items = torch.nn.functional.one_hot(torch.from_numpy(network.items.astype(np.int64)), network.n_items)
    return users.double(), items.double()


def walk_matrix(network, share: float = 0.5) -> torch.Tensor:
    """β P_u + (1 − β) P_i, written out."""
    users, items = dense_operators(network)
    parts = [side @ torch.diag(1 / side.sum(dim=0).clamp(min=1)) @ side.T for side in (users, items)]
    return share * parts[0] + (1 - share) * parts[1]
