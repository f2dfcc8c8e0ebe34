"""GraphFormers against loops over neighbours and the encoder's layers called one by one."""

import pytest
import torch

from tests.methods.conftest import texts_of
from tests.methods.test_bert_graphsage import in_order, neighbours
from tests.methods.test_edgeformers import read_alone


def attended(model, centre: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    """Attention of the centre over itself and the others, head by head."""
    aggregation, states = model.aggregation, torch.stack([centre, *others])
    query, keys, values = aggregation.query(centre), aggregation.key(states), aggregation.value(states)
    size, parts = len(centre) // aggregation.heads, []
    for head in range(aggregation.heads):
        part = slice(head * size, (head + 1) * size)
        weights = torch.softmax(keys[:, part] @ query[part] / size**0.5, dim=0)
        parts.append(weights @ values[:, part])
    return torch.cat(parts)


def alone(model, text: torch.Tensor) -> torch.Tensor:
    """(layers − 1, width) the mean of a text before each layer but the first, without neighbours."""
    _, *layers = model.encoder.model.encoder.layer
    states, means = read_alone(model.encoder, text), []
    for layer in layers:
        means.append(states[0].mean(dim=0))
        states = layer(states, None)
    return torch.stack(means)


@pytest.mark.parametrize(("trained_layers", "cache_neighbours"), [(3, True), (3, False), (2, True)])
def test_logits_are_the_formula_written_out_neighbour_by_neighbour(made, trained_layers, cache_neighbours):
    model, batch = made("graphformers", {"trained_layers": trained_layers, "cache_neighbours": cache_neighbours})
    logits, texts = model(batch).logits, texts_of(batch)
    _, *layers = model.encoder.model.encoder.layer
    around = [alone(model, text) for text in texts]
    if cache_neighbours:
        around += list(batch.cached)
    for place, e in enumerate(batch.seed_rows.tolist()):
        states = read_alone(model.encoder, texts[e])
        for number, layer in enumerate(layers):
            others = [around[other][number] for other in neighbours(batch, place)]
            station = attended(model, states[0].mean(dim=0), others)
            states = layer(torch.cat([states, station[None, None]], dim=1), None)[:, :-1]
        torch.testing.assert_close(logits[place], model.head(states[0].mean(dim=0)), atol=2e-3, rtol=1e-3)


def test_logits_with_cached_neighbours_are_those_with_encoded_neighbours(made):
    (first, encoded), (second, cached) = (made("graphformers", {"cache_neighbours": flag}) for flag in (False, True))
    torch.testing.assert_close(in_order(first, encoded), in_order(second, cached), atol=5e-3, rtol=0)


def test_the_message_state_of_an_interaction_does_not_depend_on_its_neighbours(made):
    model, batch = made("graphformers")
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    expected = torch.stack([alone(model, text) for text in texts_of(batch)])
    torch.testing.assert_close(model(batch).message_state, expected, atol=1e-5, rtol=1e-4)
