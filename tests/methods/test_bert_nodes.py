"""BERT+NODES against the encoder's layers called one by one."""

import torch

from tests.methods.conftest import texts_of


def test_two_node_tokens_pass_through_all_layers_beside_the_text(made):
    model, batch = made("bert_nodes")
    logits, texts = model(batch).logits, texts_of(batch)
    layers = model.encoder.model.encoder.layer
    for place, e in enumerate(batch.seed_rows.tolist()):
        z_u = model.nodes.users.vectors.weight[batch.user_nodes.slots[batch.users[e]]]
        z_i = model.nodes.items.vectors.weight[batch.item_nodes.slots[batch.items[e]]]
        added = torch.stack([model.nodes.linear(z_u), model.nodes.linear(z_i)])[None]
        states = torch.cat([model.encoder.model.embeddings(input_ids=texts[e]), added], dim=1)
        for layer in layers:
            states = layer(states, None)
        pooled = states[0, :-2].mean(dim=0)
        torch.testing.assert_close(logits[place], model.head(pooled), atol=1e-5, rtol=1e-4)
