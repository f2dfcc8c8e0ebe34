"""BERT+LABELS: the input of the head, which has no labels of seed rows."""

import torch

from saft.data.network import HIDDEN
from tests.methods.conftest import texts_of


def test_logits_are_a_linear_map_of_the_text_beside_both_histograms(made, toy):
    model, batch = made("bert_labels")
    logits = model(batch).logits
    texts, n_classes = texts_of(batch), toy.n_classes
    visible = toy.showing(range(100)).labels.copy()
    visible[batch.rows[batch.seed_rows]] = HIDDEN  # the seed rows of this pass
    shares = torch.tensor([(visible == c).sum() + 1.0 for c in range(n_classes)])
    shares = shares / shares.sum()
    for place, e in enumerate(batch.seed_rows.tolist()):
        row, histograms = int(batch.rows[e]), []
        for nodes in (toy.users, toy.items):
            counts = torch.tensor([((nodes == nodes[row]) & (visible == c)).sum() for c in range(n_classes)]).float()
            own = (counts + 2 * shares) / (counts.sum() + 2)
            histograms += [torch.log(own / shares), torch.log1p(counts.sum())[None]]
        joined = torch.cat([model.encoder(texts[e], torch.ones_like(texts[e]))[0].mean(dim=0), *histograms]).float()
        torch.testing.assert_close(logits[place], model.head.weight @ joined + model.head.bias, atol=1e-5, rtol=1e-4)
