"""Edgeformers against the encoder's layers called one by one."""

import pytest
import torch

import saft
from saft.methods import find
from tests.methods.conftest import texts_of


def read_alone(encoder, text: torch.Tensor) -> torch.Tensor:
    """States of a text after the encoder's first layer. Where that layer is frozen, a batch has them already."""
    return text if encoder.frozen else encoder.model.encoder.layer[0](encoder.model.embeddings(input_ids=text), None)


@pytest.mark.parametrize("trained_layers", [3, 2])
def test_fresh_node_tokens_are_added_to_the_text_in_every_layer_but_the_first(made, trained_layers):
    model, batch = made("edgeformers", {"trained_layers": trained_layers})
    logits, texts = model(batch).logits, texts_of(batch)
    _, *others = model.encoder.model.encoder.layer
    for place, e in enumerate(batch.seed_rows.tolist()):
        z_u = model.nodes.users.vectors.weight[batch.user_nodes.slots[batch.users[e]]]
        z_i = model.nodes.items.vectors.weight[batch.item_nodes.slots[batch.items[e]]]
        added = torch.stack([model.nodes.linear(z_u), model.nodes.linear(z_i)])[None]
        states = read_alone(model.encoder, texts[e])
        for layer in others:
            states = layer(torch.cat([states, added], dim=1), None)[:, :-2]
        torch.testing.assert_close(logits[place], model.head(states[0].mean(dim=0)), atol=1e-5, rtol=1e-4)


def test_one_layer_is_too_few(toy, toy_settings):
    with pytest.raises(saft.InputError, match="at least 2 layers"):
        find("edgeformers").make(toy_settings, {"layers": 1}).fit(toy, [0, 1], [2])
