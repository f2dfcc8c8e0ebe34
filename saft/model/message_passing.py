"""Messages between interactions that share a user (or an item): line graph attention and gated attention, side by side.

Both apply P = E diag(d + 1)⁻¹ Eᵀ, where E says which node each interaction belongs to: a scatter-sum to the nodes, a
division and a gather back. P itself, with its Σ d² entries, is never built; time and memory are linear in interactions.

(Gathers are ``index_select``: the gradient of plain indexing adds up from several threads at once, in an order that no
seed decides.)

Input to both: u⁰ of every interaction, the token of its user (or item). Output: û = LayerNorm(Linear(u^R)).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


def propagate(
    states: Tensor, nodes: Tensor, n_nodes: int, speaks: Tensor | None = None, asked: int | None = None
) -> Tensor:
    """P times the states: for each interaction, the sum over all interactions of its node, divided by d + 1.

    Args:
        states: (interactions, width).
        nodes: (interactions,) node of each interaction, from 0 to n_nodes − 1.
        speaks: (interactions,) which of them are in the sample of their node. The others hear the sample and
            themselves, and are heard by nobody else: an answer must not depend on who else is asked about.
        asked: how many of the first interactions are to hear; None means all.
    """
    hearing = nodes[:asked]
    if speaks is None:
        sums = states.new_zeros(n_nodes, states.shape[1]).index_add(0, nodes, states)
        degrees = torch.bincount(nodes, minlength=n_nodes).to(states.dtype)
        return (sums / (degrees + 1)[:, None]).index_select(0, hearing)
    heard = speaks.to(states.dtype)[:, None]
    sums = states.new_zeros(n_nodes, states.shape[1]).index_add(0, nodes, states * heard)
    degrees = states.new_zeros(n_nodes, 1).index_add(0, nodes, heard)
    only_itself = (1 - heard)[:asked]
    return (sums.index_select(0, hearing) + only_itself * states[:asked]) / (degrees[hearing] + only_itself + 1)


class LineGraphAttention(nn.Module):
    """u^r = P u^(r−1) + δ u⁰ for r = 1 … R.

    Args:
        width: of the tokens.
        rounds: R.
        delta: δ, how much of u⁰ is added back in each round.
        identity: begin with what was heard as it is, not with a random mixture of it.
    """

    def __init__(self, width: int, rounds: int = 2, delta: float = 1.0, identity: bool = False) -> None:
        super().__init__()
        self.rounds, self.delta = rounds, delta
        self.out = _out(width, identity)
        self.norm = nn.LayerNorm(width)

    def forward(
        self, start: Tensor, nodes: Tensor, n_nodes: int, speaks: Tensor | None = None, asked: int | None = None
    ) -> Tensor:
        """(asked, width) of the first ``asked`` interactions (all, if None is given).

        From u⁰, (interactions, width), the node of each and, see above, who speaks.
        """
        state = start
        for wanted in _wanted(self.rounds, asked):
            state = propagate(state, nodes, n_nodes, speaks, wanted) + self.delta * start[:wanted]
        return self.norm(self.out(state[:asked]))


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
        self, start: Tensor, nodes: Tensor, n_nodes: int, speaks: Tensor | None = None, asked: int | None = None
    ) -> Tensor:
        """As above."""
        gate, shift = functional.silu(self.gate(start)), functional.silu(self.shift(start))
        state = start
        for wanted in _wanted(self.rounds, asked):
            heard = propagate(state, nodes, n_nodes, speaks, wanted)
            state = self.mix(gate[:wanted] * (heard + self.delta * shift[:wanted]))
        return self.norm(self.out(state[:asked]))


def _wanted(rounds: int, asked: int | None) -> list[int | None]:
    """How many interactions each round is for: all, and in the last one those that are asked."""
    return [None] * (rounds - 1) + [asked] * min(rounds, 1)


def _out(width: int, identity: bool) -> nn.Linear:
    linear = nn.Linear(width, width)
    if identity:
        nn.init.eye_(linear.weight)
        nn.init.zeros_(linear.bias)
    return linear
