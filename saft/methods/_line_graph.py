"""The line graph of interactions, never built: two interactions are neighbours if they share a user or an item.

With E_u (interactions × users) and E_i (interactions × items) the incidence matrices, E_u E_uᵀ x is a sum over each
user's interactions, copied to each of them: a scatter and a gather. Every operator below is two of each, linear in
interactions. Parallel interactions (the same user and item) share both and count twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from saft.data.network import TextualInteractionNetwork


@dataclass(frozen=True, eq=False)
class LineGraph:
    users: Tensor  # (interactions,)
    items: Tensor
    n_users: int
    n_items: int

    @classmethod
    def of(cls, network: TextualInteractionNetwork) -> LineGraph:
        users, items = (torch.from_numpy(codes.astype("int64")) for codes in (network.users, network.items))
        return cls(users, items, network.n_users, network.n_items)

    def user_sums(self, x: Tensor) -> Tensor:
        """(users, ·) Σ over each user's interactions."""
        return x.new_zeros(self.n_users, x.shape[1]).index_add(0, self.users, x)

    def item_sums(self, x: Tensor) -> Tensor:
        return x.new_zeros(self.n_items, x.shape[1]).index_add(0, self.items, x)

    def shared(self, x: Tensor) -> Tensor:
        """(E_u E_uᵀ + E_i E_iᵀ) x. Gathers are ``index_select``, whose gradient adds up in a fixed order."""
        return self.user_sums(x).index_select(0, self.users) + self.item_sums(x).index_select(0, self.items)

    @cached_property
    def user_degrees(self) -> Tensor:
        """(users, 1), at least 1."""
        return torch.bincount(self.users, minlength=self.n_users).clamp(min=1)[:, None]

    @cached_property
    def item_degrees(self) -> Tensor:
        return torch.bincount(self.items, minlength=self.n_items).clamp(min=1)[:, None]

    @cached_property
    def degrees(self) -> Tensor:
        """(interactions, 1) d_u + d_i − 2: neighbours of each."""
        return self.user_degrees[self.users] + self.item_degrees[self.items] - 2

    def user_means(self, x: Tensor) -> Tensor:
        """P_u x = E_u D_u⁻¹ E_uᵀ x: the mean over the interactions of the same user, itself included."""
        return (self.user_sums(x) / self.user_degrees).index_select(0, self.users)

    def item_means(self, x: Tensor) -> Tensor:
        return (self.item_sums(x) / self.item_degrees).index_select(0, self.items)

    def walk(self, x: Tensor, users: float = 0.5) -> Tensor:
        """(β P_u + (1 − β) P_i) x; with β = ½ one step of a walk from interaction to interaction."""
        return users * self.user_means(x) + (1 - users) * self.item_means(x)

    def neighbour_means(self, x: Tensor) -> Tensor:
        """(E_u E_uᵀ + E_i E_iᵀ − 2 I) x / degree: the mean over neighbours, itself not included; 0 without any."""
        return (self.shared(x) - 2 * x) / self.degrees.clamp(min=1)

    def convolve(self, x: Tensor) -> Tensor:
        """D^(-1/2) (E_u E_uᵀ + E_i E_iᵀ − I) D^(-1/2) x: adjacency with a loop at each, D its degrees d_u + d_i − 1."""
        scale = (self.degrees + 1).to(x.dtype) ** -0.5
        scaled = scale * x
        return scale * (self.shared(scaled) - scaled)

    def diffuse(self, x: Tensor) -> Tensor:
        """D^(-1/2) (E_u E_uᵀ + E_i E_iᵀ − 2 I) D^(-1/2) x: adjacency without loops, D its degrees; 0 without any."""
        scale = self.degrees.clamp(min=1).to(x.dtype) ** -0.5
        scaled = scale * x
        return scale * (self.shared(scaled) - 2 * scaled)
