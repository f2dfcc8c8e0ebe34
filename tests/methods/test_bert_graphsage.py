"""BERT+GraphSAGE against loops over neighbours."""

import pytest
import torch

from saft.methods._line_graph import LineGraph
from saft.methods.bert_graphsage import GraphSage, masked_max
from tests.methods.conftest import dense_operators, texts_of


def neighbours(batch, place: int) -> list[int]:
    """Positions in the batch of the sampled interactions that share the seed row's user or item, itself left out."""
    e = int(batch.seed_rows[place])
    return [
        other
        for other in range(len(batch.users))
        if other != e
        and (
            (batch.users[other] == batch.users[e] and batch.is_source["user"][other])
            or (batch.items[other] == batch.items[e] and batch.is_source["item"][other])
        )
    ]


def in_order(model, batch) -> torch.Tensor:
    """Logits of the seed rows by their row in the network."""
    return model(batch).logits[torch.from_numpy(batch.rows)[batch.seed_rows].argsort()]


@pytest.mark.parametrize("cache_neighbours", [True, False])
def test_logits_are_the_formula_written_out_neighbour_by_neighbour(made, cache_neighbours):
    model, batch = made("bert_graphsage", {"cache_neighbours": cache_neighbours})
    words = [model.encoder(text, torch.ones_like(text))[0].mean(dim=0) for text in texts_of(batch)]
    if cache_neighbours:
        words += list(batch.cached)
    assert len(words) == len(batch.users)
    logits = model(batch).logits
    for place, e in enumerate(batch.seed_rows.tolist()):
        around = [torch.relu(model.pool(words[other])) for other in neighbours(batch, place)]
        pooled = torch.stack(around).amax(dim=0) if around else torch.zeros_like(words[e])
        joined = torch.relu(model.join.weight @ torch.cat([words[e], pooled]))
        torch.testing.assert_close(
            logits[place], model.head(joined), atol=2e-3 if cache_neighbours else 1e-5, rtol=1e-3
        )


def test_logits_with_cached_neighbours_are_those_with_encoded_neighbours(made):
    """With the same weights and the same sample; half precision aside."""
    (first, encoded), (second, cached) = (made("bert_graphsage", {"cache_neighbours": flag}) for flag in (False, True))
    torch.testing.assert_close(in_order(first, encoded), in_order(second, cached), atol=5e-3, rtol=0)


def test_the_maximum_over_no_neighbour_is_zero():
    values = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
    mask = torch.tensor([[True, True], [False, True], [False, False]])
    torch.testing.assert_close(masked_max(values, mask), torch.tensor([[3.0, 2.0], [3.0, 0.0], [0.0, 0.0]]))


def test_on_frozen_vectors_two_layers_of_means_are_the_formula_written_out(toy):
    torch.manual_seed(0)
    net, x = GraphSage(6, 2).double().train(False), torch.randn(len(toy), 6).double()
    users, items = dense_operators(toy)
    adjacency = users @ users.T + items @ items.T - 2 * torch.eye(len(toy))
    operator = adjacency / adjacency.sum(dim=1).clamp(min=1)[:, None]
    states = net.norm(x)
    for layer in (net.first, net.second):
        states = torch.relu(layer(torch.cat([states, operator @ states], dim=1)))
        states = states / states.norm(dim=1, keepdim=True).clamp(min=1e-12)
    seed_rows = torch.tensor([3, 90])
    torch.testing.assert_close(net(x, LineGraph.of(toy), seed_rows), net.head(states[seed_rows]))
