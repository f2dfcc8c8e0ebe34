"""Structure: the distance and centrality embeddings, standardised as inputs of a model.

Raw entries are of order 1/√m, with a few outliers where a small part of the graph hangs on one interaction. Columns are
centred and divided by their standard deviation in the fit, then clipped; both statistics are saved with the model.
"""

from typing import Any

import numpy as np

from saft.structure import embedding
from saft.structure.interface import InteractionEmbedding

FARTHEST = 5.0  # standard deviations


class Structure:
    """Both embeddings by name, standardised. A name may be ``none``; ``sketch`` is the unbiased centrality."""

    def __init__(
        self, distance: str = "distance", centrality: str = "centrality", dim: int = 64, seed: int = 0
    ) -> None:
        self.embeddings = {
            role: _Standardised(_made(name, dim, seed))
            for role, name in (("distance", distance), ("centrality", centrality))
            if name != "none"
        }

    def fit(self, users: np.ndarray, items: np.ndarray) -> "Structure":
        for part in self.embeddings.values():
            part.fit(users, items)
        return self

    def transform(self, users: np.ndarray, items: np.ndarray) -> dict[str, np.ndarray]:
        """Role → (interactions, dim), float32; ``closeness`` has one column, see InteractionEmbedding.closeness."""
        found = {role: part.transform(users, items) for role, part in self.embeddings.items()}
        if "distance" in self.embeddings:
            found["closeness"] = self.embeddings["distance"].raw.closeness(users, items)
        return found

    def extend(self, users: np.ndarray, items: np.ndarray) -> None:
        """Fold in users and items that are new in these interactions."""
        for part in self.embeddings.values():
            part.raw.extend(users, items)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was learnt, for saving."""
        return {
            f"{role}.{name}": array for role, part in self.embeddings.items() for name, array in part.arrays().items()
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> "Structure":
        for role, part in self.embeddings.items():
            part.restore(
                {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{role}.")}
            )
        return self


class _Standardised:
    def __init__(self, raw: InteractionEmbedding) -> None:
        self.raw = raw

    def fit(self, users: np.ndarray, items: np.ndarray) -> None:
        vectors = self.raw.fit_transform(users, items)
        self.centre = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        spread = vectors.std(axis=0, dtype=np.float64)
        self.spread = np.where(spread > 1e-12, spread, 1.0).astype(np.float32)

    def transform(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        vectors = self.raw.transform(users, items).astype(np.float32)
        return np.clip((vectors - self.centre) / self.spread, -FARTHEST, FARTHEST)

    def arrays(self) -> dict[str, np.ndarray]:
        learnt: dict[str, Any] = {name: value for name, value in vars(self.raw).items() if name.endswith("_")}
        return learnt | {"centre": self.centre, "spread": self.spread}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.centre, self.spread = arrays.pop("centre"), arrays.pop("spread")
        for name, array in arrays.items():
            setattr(self.raw, name, array)


def _made(name: str, dim: int, seed: int) -> InteractionEmbedding:
    if name == "sketch":
        return embedding("centrality", method="sketch", dim=dim, seed=seed)
    return embedding(name, dim=dim, seed=seed)
