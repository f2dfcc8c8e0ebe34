"""Messages against a dense P written out."""

import pytest
import torch

from saft.model.message_passing import GatedAttentionUnit, LineGraphAttention, propagate

WIDTH, NODES = 8, 5


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Node tokens of 12 interactions, and their nodes; node 4 has none."""
    generator = torch.Generator().manual_seed(0)
    nodes = torch.tensor([0, 0, 0, 1, 2, 2, 3, 3, 3, 3, 0, 1])
    return torch.randn(12, WIDTH, generator=generator, dtype=torch.float64), nodes


def dense_operator(nodes: torch.Tensor) -> torch.Tensor:
    """P = E diag(d + 1)⁻¹ Eᵀ, with every entry in its place."""
    incidence = torch.nn.functional.one_hot(nodes, NODES).double()
    return incidence @ torch.diag(1 / (incidence.sum(0) + 1)) @ incidence.T


def test_propagation_is_the_product_with_the_dense_operator(batch):
    start, nodes = batch
    torch.testing.assert_close(propagate(start, nodes, NODES), dense_operator(nodes) @ start)


def test_gradients_of_a_large_batch_are_the_same_every_time():
    """Bit by bit, with threads: results are reproducible only if sums are added up in a fixed order."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    nodes = torch.randint(40, (4000,), generator=torch.Generator().manual_seed(0))
    weights = torch.randn(4000, 64, generator=torch.Generator().manual_seed(1))
    found = []
    for _ in range(6):
        states = torch.randn(4000, 64, generator=torch.Generator().manual_seed(2)).requires_grad_()
        (propagate(propagate(states, nodes, 40), nodes, 40) * weights).sum().backward()
        found.append(states.grad)
    torch.set_num_threads(before)
    assert all(torch.equal(gradient, found[0]) for gradient in found)


def test_interactions_outside_of_the_sample_receive_it_and_themselves_and_send_nothing(batch):
    start, nodes = batch
    is_source = torch.tensor([True, False, True, True, False, False] * 2)
    receives = (nodes[:, None] == nodes[None]) & (is_source[None] | torch.eye(12, dtype=torch.bool))
    dense = receives.double() / (receives.double().sum(dim=1, keepdim=True) + 1)
    torch.testing.assert_close(propagate(start, nodes, NODES, is_source), dense @ start)


def test_rows_of_the_operator_sum_to_the_degree_over_one_more(batch):
    _, nodes = batch
    ones = torch.ones(12, 1, dtype=torch.float64)
    degrees = torch.bincount(nodes)[nodes].double()[:, None]
    torch.testing.assert_close(propagate(ones, nodes, NODES), degrees / (degrees + 1))


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_line_graph_attention_is_the_formula_on_the_dense_operator(batch, rounds):
    start, nodes = batch
    layer = LineGraphAttention(WIDTH, rounds, delta=0.7).double()
    operator = dense_operator(nodes)
    state = start
    for _ in range(rounds):
        state = operator @ state + 0.7 * start
    expected = layer.norm(state @ layer.out.weight.T + layer.out.bias)
    torch.testing.assert_close(layer(start, nodes, NODES), expected)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_gated_attention_unit_is_the_formula_on_the_dense_operator(batch, rounds):
    start, nodes = batch
    unit = GatedAttentionUnit(WIDTH, rounds, delta=0.7).double()
    operator = dense_operator(nodes)
    gate, shift = (x * torch.sigmoid(x) for x in (unit.gate(start), unit.shift(start)))
    state = start
    for _ in range(rounds):
        state = unit.mix(gate * (operator @ state + 0.7 * shift))
    torch.testing.assert_close(unit(start, nodes, NODES), unit.norm(unit.out(state)))


@pytest.mark.parametrize("kind", [LineGraphAttention, GatedAttentionUnit])
def test_an_interaction_receives_only_from_those_that_share_its_node(batch, kind):
    start, nodes = batch
    layer = kind(WIDTH).double()
    before = layer(start, nodes, NODES)
    changed = start.clone()
    changed[3] += 1  # of node 1
    difference = (layer(changed, nodes, NODES) - before).abs().amax(1) > 1e-12
    assert difference.nonzero()[:, 0].tolist() == (nodes == 1).nonzero()[:, 0].tolist()


def test_a_hub_of_two_hundred_thousand_interactions_needs_linear_memory_only():
    nodes = torch.zeros(200_000, dtype=torch.long)  # P would have 4 · 10¹⁰ entries
    result = propagate(torch.ones(200_000, 4), nodes, 1)
    torch.testing.assert_close(result, torch.full((200_000, 4), 200_000 / 200_001))


@pytest.mark.parametrize("kind", [LineGraphAttention, GatedAttentionUnit])
def test_only_receivers_are_computed_and_their_output_is_the_same(batch, kind):
    states, nodes = batch
    torch.manual_seed(0)
    unit = kind(WIDTH).double()
    whole = unit(states, nodes, NODES)
    torch.testing.assert_close(unit(states, nodes, NODES, n_receivers=4), whole[:4])


def test_attention_that_starts_as_the_identity_gives_the_normalised_sum_of_received_and_own_states(batch):
    states, nodes = batch
    found = LineGraphAttention(WIDTH, rounds=1, identity=True).double()(states, nodes, NODES)
    received = propagate(states, nodes, NODES) + states
    torch.testing.assert_close(found, torch.nn.functional.layer_norm(received, received.shape[1:]))


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 4, 5])
def test_line_graph_attention_from_sums_is_that_of_all_rows(rounds):
    assert_from_sums_is_literal(LineGraphAttention(6, rounds, delta=0.7))


@pytest.mark.parametrize("rounds", [0, 1])
def test_gated_attention_with_one_round_from_sums_is_that_of_all_rows(rounds):
    assert_from_sums_is_literal(GatedAttentionUnit(6, rounds, delta=0.7))


def assert_from_sums_is_literal(layer):
    """On random networks; several interactions of the same user and item are interactions of the same node."""
    drawn = torch.Generator().manual_seed(1)
    for n_rows in (1, 7, 40):
        nodes = torch.randint(0, 5, (n_rows,), generator=drawn)
        start = torch.randn(n_rows, 6, generator=drawn)
        others = torch.stack([
            sum((start[y] for y in range(n_rows) if y != x and nodes[y] == nodes[x]), torch.zeros(6))
            for x in range(n_rows)
        ])  # fmt: skip
        counts = torch.tensor([float((nodes == nodes[x]).sum() - 1) for x in range(n_rows)])
        torch.testing.assert_close(layer.from_sums(start, others, counts), layer(start, nodes, 5), atol=1e-5, rtol=0)
