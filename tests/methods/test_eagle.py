"""EAGLE against dense matrices."""

import torch

from saft.methods._line_graph import LineGraph
from saft.methods.eagle import DAMPING, EagleNet, spread
from tests.methods.conftest import walk_matrix


def dense_spread(network) -> torch.Tensor:
    return torch.linalg.inv(torch.eye(len(network)) - DAMPING * walk_matrix(network, 0.5))


def test_features_are_spread_by_the_whole_sum(toy):
    x = torch.randn(len(toy), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(spread(x, LineGraph.of(toy)), dense_spread(toy) @ x, atol=1e-3, rtol=0)


def test_the_net_is_its_formula_written_out(toy):
    torch.manual_seed(0)
    net, x, seed_rows = EagleNet(8, 3).double().train(False), torch.randn(len(toy), 8).double(), torch.tensor([5, 0, 9])
    hidden = dense_spread(toy) @ net.norm(torch.relu(x @ net.first.weight.T + net.first.bias))
    both = torch.cat([hidden, x], dim=1)[seed_rows]
    first, _, norm, _, last = net.perceptron.layers
    expected = norm(torch.relu(both @ first.weight.T + first.bias)) @ last.weight.T + last.bias
    torch.testing.assert_close(net(x, LineGraph.of(toy), seed_rows), expected, atol=1e-3, rtol=0)
