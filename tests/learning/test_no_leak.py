"""The whole way from a table to side features, with every reader on: no label reaches the row it belongs to.

Nor do labels of rows of the same fold. What is fitted is fitted anew to the changed labels, and compared bit for bit.
"""

from dataclasses import replace

import numpy as np
import pytest

import saft
from saft.data.joining import join
from saft.data.network import HIDDEN, TextualInteractionNetwork
from saft.features.featurizer import Featurizer
from saft.features.folds import FOLDS
from saft.features.style import measure
from saft.features.tokens import load_tokenizer
from saft.learning.frozen_layers import FrozenLayers
from saft.learning.loader import BatchLoader
from saft.model.encoder import TextEncoder
from saft.settings import Settings

N, LABELLED = 200, 150


@pytest.fixture(scope="module")
def network():
    """The last rows have no label."""
    return saft.demo_network(N).hiding(np.arange(LABELLED, N))


@pytest.fixture(scope="module")
def featurizer(tiny_settings) -> Featurizer:
    settings = Settings.of(tiny_settings | {"layers": 2, "trained_layers": 1})
    layers = FrozenLayers(TextEncoder.load(settings.encoder, settings.layers, settings.trained_layers))
    return Featurizer(settings, load_tokenizer(settings.encoder), layers.vectors)


def read(featurizer, network) -> BatchLoader:
    features = featurizer.fit_transform(network)
    return BatchLoader(features, network.labels, network.n_classes, featurizer.settings)


@pytest.fixture(scope="module")
def loader(featurizer, network):
    return read(featurizer, network)


def relabelled(network, rows: np.ndarray, by: int = 1) -> TextualInteractionNetwork:
    labels = network.labels.copy()
    labels[rows] = (labels[rows] + by) % network.n_classes
    return replace(network, labels=labels)


def test_every_kind_of_evidence_takes_part(loader, network):
    assert loader.evidence.groups().keys() == {
        "words", "labels", "alike", "likeness", "neighbours", "context", "style", "style around",
        "repeats",
    }  # fmt: skip
    assert loader.evidence.log_odds.shape[1] == 2 * network.n_classes  # n-grams and sentence vectors
    used = (loader.side_features != 0).any(axis=0)
    groups = loader.evidence.groups()
    varies = np.ptp(measure(network.texts), axis=0) > 0  # no text of the marketplace has two lines, say
    np.testing.assert_array_equal(used[groups["style"]], varies)
    np.testing.assert_array_equal(used[groups["style around"]], np.tile(varies, 2))
    assert used[: groups["style"].start].all()


def test_the_own_label_of_a_row_changes_nothing_of_its_side_features(featurizer, network, loader):
    for row in (0, 41, 77):
        for by in (1, 2):
            other = read(featurizer, relabelled(network, np.array([row]), by))
            np.testing.assert_array_equal(other.side_features[row], loader.side_features[row])
            moved = (other.side_features != loader.side_features).any(axis=1)
            assert moved.sum() > N / 4  # it reaches others


@pytest.mark.parametrize("fold", range(FOLDS))
def test_labels_of_a_fold_change_no_side_features_of_its_labelled_rows(featurizer, network, loader, fold):
    mates = np.flatnonzero((loader.features.folds == fold) & network.is_labelled)
    other = read(featurizer, relabelled(network, mates))
    np.testing.assert_array_equal(other.side_features[mates], loader.side_features[mates])
    np.testing.assert_array_equal(other.features.log_odds[fold], loader.features.log_odds[fold])
    np.testing.assert_array_equal(other.features.parts[fold], loader.features.parts[fold])
    np.testing.assert_array_equal(other.features.vectors, loader.features.vectors)
    rest = np.setdiff1d(np.arange(N), mates)
    assert (other.side_features[rest] != loader.side_features[rest]).any(axis=1).all()


def test_labels_that_came_after_the_readers_were_fitted_do_not_reach_their_own_rows(featurizer, network):
    """Validation rows, whose labels are shown after training, and new rows that come with a label."""
    known = featurizer.fit_transform(network)
    first = saft.demo_network(N)
    shown = network.labels.copy()
    shown[LABELLED:] = first.labels[LABELLED:]
    new = first.take(np.arange(10))
    new = replace(new, texts=new.texts + " indeed", labels=new.labels.copy())
    grown = join(replace(network, labels=shown), new)
    features = featurizer.transform(grown, known)

    def side_features(labels) -> np.ndarray:
        return BatchLoader(features, labels, network.n_classes, featurizer.settings).side_features

    before = side_features(grown.labels)
    for row in (LABELLED, LABELLED + 7, N, N + 9):
        labels = grown.labels.copy()
        assert labels[row] != HIDDEN
        labels[row] = (labels[row] + 1) % network.n_classes
        after = side_features(labels)
        np.testing.assert_array_equal(after[row], before[row])
        assert (after != before).any()
