"""BERT+LABELS: the input of the head, which has no label of the row's fold."""

import numpy as np
import torch

from saft.data.network import HIDDEN
from saft.features.folds import fold_of_rows
from tests.methods.conftest import texts_of


def test_logits_are_a_linear_map_of_the_text_beside_both_histograms(made, toy):
    model, batch = made("bert_labels")
    logits = model(batch).logits
    texts, n_classes = texts_of(batch), toy.n_classes
    folds = fold_of_rows(len(toy), seed=0)
    for place, e in enumerate(batch.seed_rows.tolist()):
        row, histograms = int(batch.rows[e]), []
        visible = np.where(folds == folds[row], HIDDEN, toy.showing(range(100)).labels)  # the row has a label
        shares = torch.tensor([(visible == c).sum() + 1.0 for c in range(n_classes)])
        shares = shares / shares.sum()
        for nodes in (toy.users, toy.items):
            counts = torch.tensor([((nodes == nodes[row]) & (visible == c)).sum() for c in range(n_classes)]).float()
            own = (counts + 2 * shares) / (counts.sum() + 2)
            histograms += [torch.log(own / shares), torch.log1p(counts.sum())[None]]
        joined = torch.cat([model.encoder(texts[e], torch.ones_like(texts[e]))[0].mean(dim=0), *histograms]).float()
        torch.testing.assert_close(logits[place], model.head.weight @ joined + model.head.bias, atol=1e-5, rtol=1e-4)
