"""Operators on the line graph against the same written out as matrices."""

import numpy as np
import torch

from saft.methods._line_graph import LineGraph
from tests.methods.conftest import dense_operators, walk_matrix


def test_every_operator_is_its_matrix_written_out(toy):
    users, items = dense_operators(toy)
    both, n = users @ users.T + items @ items.T, len(toy)
    adjacency = both - 2 * torch.eye(n)
    graph, x = LineGraph.of(toy), torch.randn(n, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    degrees = adjacency.sum(dim=1)
    torch.testing.assert_close(graph.degrees[:, 0].double(), degrees)
    torch.testing.assert_close(graph.neighbour_means(x), adjacency @ x / degrees.clamp(min=1)[:, None])
    root = torch.diag((degrees + 1) ** -0.5)
    torch.testing.assert_close(graph.convolve(x), root @ (adjacency + torch.eye(n)) @ root @ x)
    root = torch.diag(degrees.clamp(min=1) ** -0.5)
    torch.testing.assert_close(graph.diffuse(x), root @ adjacency @ root @ x)
    torch.testing.assert_close(graph.walk(x, 0.3), walk_matrix(toy, 0.3) @ x)


def test_repeated_pairs_are_neighbours_twice_and_an_interaction_alone_has_none(toy):
    graph = LineGraph.of(toy)
    pairs = toy.users.astype(np.int64) * toy.n_items + toy.items
    repeated = np.flatnonzero(np.bincount(pairs, minlength=1)[pairs] > 2)[0]
    others = sum(
        int(toy.users[e] == toy.users[repeated]) + int(toy.items[e] == toy.items[repeated])
        for e in range(len(toy))
        if e != repeated
    )
    assert int(graph.degrees[repeated]) == others
    assert int(graph.degrees[-1]) == 0
    assert not graph.neighbour_means(torch.ones(len(toy), 1))[-1].any()
