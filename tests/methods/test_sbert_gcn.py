"""Graph convolution behind sentence vectors, against dense matrices.

Covers: methods._gcn.
"""

import pytest
import torch

import saft
from saft.methods import find
from saft.methods._gcn import BipartiteGcn, LineGcn
from saft.methods._line_graph import LineGraph
from tests.methods.conftest import dense_operators


@pytest.fixture
def x(toy) -> torch.Tensor:
    return torch.randn(len(toy), 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_convolution_on_the_line_graph_is_its_formula_written_out(toy, x):
    torch.manual_seed(0)
    net = LineGcn(6, 3).double().train(False)
    users, items = dense_operators(toy)
    loops = users @ users.T + items @ items.T - torch.eye(len(toy))
    root = torch.diag(loops.sum(dim=1) ** -0.5)
    operator = root @ loops @ root
    hidden = torch.relu(operator @ (net.norm(x) @ net.first.weight.T + net.first.bias))
    expected = operator @ (hidden @ net.second.weight.T + net.second.bias)
    seed_rows = torch.tensor([4, 100, 7])
    torch.testing.assert_close(net(x, LineGraph.of(toy), seed_rows), expected[seed_rows])


def test_convolution_between_users_and_items_is_its_formula_written_out(toy, x):
    torch.manual_seed(0)
    net = BipartiteGcn(6, 3).double().train(False)
    users, items = dense_operators(toy)
    x_, n_users = net.norm(x), users.shape[1]
    incidence = torch.cat([users, items], dim=1)
    states = (incidence.T @ x_) / incidence.sum(dim=0).clamp(min=1)[:, None]
    adjacency = torch.eye(incidence.shape[1]).double()
    adjacency[:n_users, n_users:] = users.T @ items
    adjacency[n_users:, :n_users] = items.T @ users
    root = torch.diag(adjacency.sum(dim=1) ** -0.5)
    for layer in (net.first, net.second):
        states = torch.relu(root @ adjacency @ root @ (states @ layer.weight.T + layer.bias))
    graph, seed_rows = LineGraph.of(toy), torch.tensor([4, 100, 7])
    own = torch.cat([states[graph.users], states[n_users + graph.items], x_], dim=1)[seed_rows]
    torch.testing.assert_close(net(x, graph, seed_rows), net.judge(own))


def test_the_graph_can_be_chosen_and_anything_else_is_an_error(toy_settings):
    card = find("sbert_gcn")
    assert card.make(toy_settings).kind is BipartiteGcn
    assert card.make(toy_settings, {"graph": "line"}).kind is LineGcn
    with pytest.raises(saft.InputError, match=r"cannot be 'lines'\. Known are bipartite, line"):
        card.make(toy_settings, {"graph": "lines"})
    with pytest.raises(saft.InputError, match=r"no setting 'grpah'\. Did you mean 'graph'"):
        card.make(toy_settings, {"grpah": "line"})
