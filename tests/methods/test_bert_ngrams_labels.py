"""BERT+N-grams+LABELS: the input of the head, which has nothing of the graph but counts of labels."""

import torch

from saft.features.style import NUMBERS
from saft.methods import find


def test_logits_are_a_linear_map_of_the_text_beside_both_readers_both_histograms_and_style(made, toy):
    model, batch = made("bert_ngrams_labels", {"trained_layers": 2})
    assert batch.side_features.shape[1] == 2 * toy.n_classes + 2 * (toy.n_classes + 1) + len(NUMBERS)
    logits = model(batch).logits
    texts = [(states[row : row + 1], mask[row : row + 1]) for states, mask in batch.texts for row in range(len(states))]
    for place, e in enumerate(batch.seed_rows.tolist()):
        states, mask = texts[e]
        length = int(mask.sum())
        states = model.encoder(states[:, :length], mask[:, :length])[0]
        joined = torch.cat([states.mean(dim=0), batch.side_features[e]])
        torch.testing.assert_close(logits[place], model.head.weight @ joined + model.head.bias, atol=1e-5, rtol=1e-4)


def test_no_neighbour_is_in_a_batch_and_there_is_no_token_beside_the_text(made):
    model, batch = made("bert_ngrams_labels", {"trained_layers": 2})
    assert len(batch.users) == len(batch.seed_rows)
    assert batch.cached is None
    assert not model.message_shape
    assert not batch.structure
    assert {name.partition(".")[0] for name, _ in model.named_parameters()} == {"encoder", "head"}


def test_it_trains_the_layers_that_saft_trains(toy_settings):
    own, ours = (find(name).make(toy_settings).settings for name in ("bert_ngrams_labels", "saft"))
    same = (
        "encoder",
        "layers",
        "trained_layers",
        "max_length",
        "epochs",
        "learning_rate",
        "ngrams",
        "sentences",
        "style",
    )
    assert all(getattr(own, name) == getattr(ours, name) for name in same)
