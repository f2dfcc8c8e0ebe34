"""BERT against the library's own encoder."""

import pytest
import torch

from tests.methods.conftest import texts_of


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_logits_are_a_linear_map_of_the_pooled_states_of_each_text(made, pooling):
    model, batch = made("bert", {"pooling": pooling})
    logits = model(batch).logits
    texts = texts_of(batch)
    for place, e in enumerate(batch.seed_rows.tolist()):
        states = model.encoder.model(input_ids=texts[e]).last_hidden_state[0]
        pooled = states.mean(dim=0) if pooling == "mean" else states[0]
        torch.testing.assert_close(logits[place], model.head.weight @ pooled + model.head.bias, atol=1e-5, rtol=1e-4)
