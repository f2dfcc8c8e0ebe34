"""N-grams+LABELS: the input of its regression, which has no label of the row's fold."""

import numpy as np
import pytest

import saft
from saft.data.network import HIDDEN
from saft.features.folds import FOLDS, fold_of_rows
from saft.learning.prediction import predict_logits
from saft.methods import find


def histogram(nodes: np.ndarray, row: int, visible: np.ndarray, n_classes: int) -> np.ndarray:
    """Log share of each class among the visible labels of the row's node, and the log of their number."""
    shares = np.array([(visible == c).sum() + 1.0 for c in range(n_classes)])
    shares = shares / shares.sum()
    counts = np.array([((nodes == nodes[row]) & (visible == c)).sum() for c in range(n_classes)])
    return np.append(np.log((counts + 2 * shares) / (counts.sum() + 2) / shares), np.log1p(counts.sum()))


@pytest.fixture(scope="module")
def fitted(toy, toy_settings):
    parts = saft.split(toy, seed=0)
    return find("ngrams_labels").make(toy_settings).fit(toy.hiding(parts.test), parts.train, parts.valid)


def test_logits_are_a_linear_map_of_log_odds_and_both_histograms_without_the_labels_of_the_fold(fitted, toy):
    loader, head = fitted.loader(toy), fitted.assembly.model.head
    rows, folds, labels = np.arange(20, 60), fold_of_rows(len(toy), seed=0), toy.showing(fitted.train).labels
    logits = predict_logits(fitted.assembly.model, loader, rows)
    said = fitted.assembly.featurizer.state_.ngrams.fitted_log_odds
    assert (labels[rows] == HIDDEN).any()
    for place, row in enumerate(rows):
        labelled = labels[row] != HIDDEN
        visible = np.where(folds == folds[row], HIDDEN, labels) if labelled else labels
        words = said[folds[row] if labelled else FOLDS, row]
        seen = np.concatenate([words, *(histogram(nodes, row, visible, 2) for nodes in (toy.users, toy.items))])
        expected = head.weight.detach().numpy() @ seen + head.bias.detach().numpy()
        np.testing.assert_allclose(logits[place], expected, atol=1e-4)


def test_it_has_no_encoder_and_does_not_need_one(fitted):
    assert fitted.assembly.model.encoder is None
    assert not fitted.assembly.features.tokens.flat.size
    assert not find("ngrams_labels").reads_with_encoder
