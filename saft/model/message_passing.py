"""Message passing between interactions that share a user (or an item): line graph attention and gated attention.

Both apply P = E diag(d + 1)⁻¹ Eᵀ, where E says which node each interaction belongs to: a scatter-sum to the nodes, a
division and a gather back. P itself, with its Σ d² entries, is never built; time and memory are linear in interactions.

(Gathers are ``index_select``: the gradient of plain indexing is summed by several threads, in an order that no seed
determines.)

Input to both: u⁰ of every interaction, the token of its user (or item). Output: û = LayerNorm(Linear(u^R)).

P is constant within a node, so an interaction depends on its neighbours only through the sum of their u⁰, their number,
and its own: ``from_sums`` computes the same from these, for line graph attention with any R and gated attention with
R ≤ 1. Let S be the sum of u⁰ over a node of d interactions. With line graph attention the sum of u^r is f_r · S, where
f_0 = 1 and f_r = d / (d + 1) · f_(r−1) + δ, and an interaction ends at u^R = f_(R−1) · S / (d + 1) + δ u⁰.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


def propagate(
    states: Tensor, nodes: Tensor, n_nodes: int, is_source: Tensor | None = None, n_receivers: int | None = None
) -> Tensor:
    """P times the states: for each interaction, the sum over all interactions of its node, divided by d + 1.

    Args:
        states: (interactions, width).
        nodes: (interactions,) node of each interaction, from 0 to n_nodes − 1.
        is_source: (interactions,) which of them are in the sample of their node; None means all. An interaction that
            is not receives the sample and itself, and sends nothing: a prediction must not depend on which other rows
            are predicted.
        n_receivers: only the first so many interactions receive; None means all.
    """
    receiving = nodes[:n_receivers]
    if is_source is None:
        sums = states.new_zeros(n_nodes, states.shape[1]).index_add(0, nodes, states)
        degrees = torch.bincount(nodes, minlength=n_nodes).to(states.dtype)
        return (sums / (degrees + 1)[:, None]).index_select(0, receiving)
    sends = is_source.to(states.dtype)[:, None]
    sums = states.new_zeros(n_nodes, states.shape[1]).index_add(0, nodes, states * sends)
    degrees = states.new_zeros(n_nodes, 1).index_add(0, nodes, sends)
    only_itself = (1 - sends)[:n_receivers]
    return (sums.index_select(0, receiving) + only_itself * states[:n_receivers]) / (
        degrees[receiving] + only_itself + 1
    )


class LineGraphAttention(nn.Module):
    """u^r = P u^(r−1) + δ u⁰ for r = 1 … R.

    Args:
        width: of the tokens.
        rounds: R.
        delta: δ, how much of u⁰ is added back in each round.
        identity: the output map starts as the identity instead of a random map.
    """

    def __init__(self, width: int, rounds: int = 2, delta: float = 1.0, identity: bool = False) -> None:
        super().__init__()
        self.rounds, self.delta = rounds, delta
        self.out = _out(width, identity)
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        start: Tensor,
        nodes: Tensor,
        n_nodes: int,
        is_source: Tensor | None = None,
        n_receivers: int | None = None,
    ) -> Tensor:
        """(receivers, width) from u⁰, (interactions, width), and the node of each; the rest as in ``propagate``."""
        state = start
        for wanted in _wanted(self.rounds, n_receivers):
            state = propagate(state, nodes, n_nodes, is_source, wanted) + self.delta * start[:wanted]
        return self.norm(self.out(state[:n_receivers]))

    def from_sums(self, start: Tensor, others: Tensor, n_others: Tensor) -> Tensor:
        """The same from u⁰ of each, the sum of u⁰ over the others of its node, (interactions, width), and their number,
        (interactions,)."""
        size = n_others[:, None] + 1
        factor = torch.ones_like(size)
        for _ in range(self.rounds - 1):
            factor = size / (size + 1) * factor + self.delta
        state = start
        if self.rounds:
            state = factor * _propagated(start, others, n_others) + self.delta * start
        return self.norm(self.out(state))


class GatedAttentionUnit(nn.Module):
    """u^r = Linear(Γ ⊙ (P u^(r−1) + δ Δ)) for r = 1 … R, with Γ = SiLU(Linear(u⁰)), Δ = SiLU(Linear(u⁰)).

    The paper's formula has no index on the outer map, so it is one map for all rounds. Arguments as above.
    """

    def __init__(self, width: int, rounds: int = 2, delta: float = 1.0, identity: bool = False) -> None:
        super().__init__()
        self.rounds, self.delta = rounds, delta
        self.gate = nn.Linear(width, width)
        self.shift = nn.Linear(width, width)
        self.mix = nn.Linear(width, width)
        self.out = _out(width, identity)
        self.norm = nn.LayerNorm(width)

    def forward(
        self,
        start: Tensor,
        nodes: Tensor,
        n_nodes: int,
        is_source: Tensor | None = None,
        n_receivers: int | None = None,
    ) -> Tensor:
        """As above."""
        gate, shift = functional.silu(self.gate(start)), functional.silu(self.shift(start))
        state = start
        for wanted in _wanted(self.rounds, n_receivers):
            received = propagate(state, nodes, n_nodes, is_source, wanted)
            state = self.mix(gate[:wanted] * (received + self.delta * shift[:wanted]))
        return self.norm(self.out(state[:n_receivers]))

    def from_sums(self, start: Tensor, others: Tensor, n_others: Tensor) -> Tensor:
        """As above; a second round would need the gates of the others, so there is one at most."""
        state = start
        if self.rounds:
            gate, shift = functional.silu(self.gate(start)), functional.silu(self.shift(start))
            state = self.mix(gate * (_propagated(start, others, n_others) + self.delta * shift))
        return self.norm(self.out(state))


def _propagated(start: Tensor, others: Tensor, n_others: Tensor) -> Tensor:
    """P u⁰: the sum over the node, itself included, divided by d + 1."""
    return (others + start) / (n_others[:, None] + 2)


def _wanted(rounds: int, n_receivers: int | None) -> list[int | None]:
    """How many interactions receive in each round: all, and in the last one those whose output is used."""
    return [None] * (rounds - 1) + [n_receivers] * min(rounds, 1)


def _out(width: int, identity: bool) -> nn.Linear:
    linear = nn.Linear(width, width)
    if identity:
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    return linear
