"""Batch: the tensors that a model is given at once."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Nodes:
    """The distinct users (or items) of a batch."""

    slots: Tensor  # (nodes,) row in the table of trained vectors; 0 for nodes that training did not see
    vectors: Tensor  # (nodes, ·) attributes and fixed numbers

    @classmethod
    def of(cls, codes: np.ndarray, vectors: np.ndarray, slots: np.ndarray) -> tuple[Tensor, Nodes]:
        """The node of each interaction as an index into the distinct nodes, and these."""
        distinct, inside = np.unique(codes, return_inverse=True)
        return torch.from_numpy(inside), cls(torch.from_numpy(slots[distinct]), torch.from_numpy(vectors[distinct]))

    def __len__(self) -> int:
        return len(self.slots)

    def to(self, device: torch.device) -> Nodes:
        return Nodes(self.slots.to(device), self.vectors.to(device))


@dataclass(frozen=True)
class Heard:
    """What encoded interactions hear of all others of their user and of their item, in this order."""

    sums: Tensor  # (encoded, layers, 2, width) of message states
    counts: Tensor  # (encoded, 2) how many others
    labels: Tensor  # (encoded, 2, classes) how many of them have each label, as far as it may be seen
    counted: Tensor  # (encoded,) 1 where the interaction's own state is in the sums, and has to be taken out

    @classmethod
    def nobody(cls, n_encoded: int, shape: tuple[int, ...], n_classes: int) -> Self:
        counted = torch.zeros(n_encoded)
        return cls(
            torch.zeros(n_encoded, *shape), torch.zeros(n_encoded, 2), torch.zeros(n_encoded, 2, n_classes), counted
        )

    def to(self, device: torch.device) -> Heard:
        return Heard(self.sums.to(device), self.counts.to(device), self.labels.to(device), self.counted.to(device))


@dataclass(frozen=True)
class Batch:
    """Interactions whose texts are encoded, then neighbours whose message states come from the cache.

    Where sums of states are heard instead, there are no neighbours in the batch.

    The seed rows, those to predict, are among the encoded ones. Encoded interactions stand in the order of their
    texts, chunk after chunk; every chunk is as wide as its longest text.
    """

    texts: list[tuple[Tensor, Tensor]]  # (tokens, mask) of each chunk; token states where layers are frozen
    users: Tensor  # (encoded + cached,) index into user_nodes
    items: Tensor  # (encoded + cached,) index into item_nodes
    user_nodes: Nodes
    item_nodes: Nodes
    structure: dict[str, Tensor]  # role → (encoded, dim)
    seed_rows: Tensor  # (seeds,) positions among the encoded interactions
    targets: Tensor  # (seeds,) their labels, HIDDEN where unknown; for the loss, the model does not read them
    labels: Tensor | None = None  # (encoded + cached,) visible label, or the number of classes for none
    side_features: Tensor | None = None  # (encoded, ·) known labels around the interaction, then n-gram log-odds
    cached: Tensor | None = None  # (cached, layers, 2, width) message states: user token and item token
    is_source: dict[str, Tensor] = field(default_factory=dict)  # side → (encoded + cached,) in the sample of its node
    heard: Heard | None = None  # sums over all neighbours, if the model hears these
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # (encoded,) numbers in the network
    for_cache: bool = False  # message states are needed although the model only predicts

    @property
    def n_encoded(self) -> int:
        return self.rows.shape[0]  # not len: the exporter has to see a size that may change

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        if self.users.device == device:
            return self

        def moved(value: Any) -> Any:
            if isinstance(value, list):
                return [tuple(map(moved, pair)) if isinstance(pair, tuple) else pair for pair in value]
            if isinstance(value, dict):
                return {name: moved(tensor) for name, tensor in value.items()}
            return value.to(device) if isinstance(value, Tensor | Nodes | Heard) else value

        return replace(self, **{entry.name: moved(getattr(self, entry.name)) for entry in fields(self)})

    def to_tensors(self) -> dict[str, Tensor]:
        """What the model reads, by name, for a runtime that takes flat inputs. The texts have to be one chunk."""
        [(tokens, mask)] = self.texts
        found: dict[str, Tensor | None] = {
            "tokens": tokens,
            "mask": mask,
            "users": self.users,
            "items": self.items,
            "user_slots": self.user_nodes.slots,
            "user_vectors": self.user_nodes.vectors,
            "item_slots": self.item_nodes.slots,
            "item_vectors": self.item_nodes.vectors,
            "seed_rows": self.seed_rows,
            "labels": self.labels,
            "side_features": self.side_features,
            "cached": self.cached,
            **(
                {}
                if self.heard is None
                else {f"heard.{entry.name}": getattr(self.heard, entry.name) for entry in fields(Heard)}
            ),
            **{f"is_source.{side}": which for side, which in self.is_source.items()},
            **{f"structure.{role}": vectors for role, vectors in self.structure.items()},
        }
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    @classmethod
    def from_tensors(cls, given: dict[str, Tensor]) -> Self:
        """The inverse of :meth:`to_tensors`, without targets."""

        def group(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): given[name] for name in given if name.startswith(prefix)}

        tokens = given["tokens"]
        return cls(
            texts=[(tokens, given["mask"])],
            users=given["users"],
            items=given["items"],
            user_nodes=Nodes(given["user_slots"], given["user_vectors"]),
            item_nodes=Nodes(given["item_slots"], given["item_vectors"]),
            structure=group("structure."),
            seed_rows=given["seed_rows"],
            targets=given["seed_rows"],  # not read by the model
            labels=given.get("labels"),
            side_features=given.get("side_features"),
            cached=given.get("cached"),
            is_source=group("is_source."),
            heard=Heard(**group("heard.")) if "heard.sums" in given else None,
            rows=tokens,  # type: ignore[arg-type]  # only its length is used
        )
