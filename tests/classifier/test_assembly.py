"""What a model predicts before training."""

import numpy as np
import pytest

import saft
from saft.classifier.assembly import Assembly
from saft.features.evidence import NEIGHBOURS_TELL
from saft.features.regression import fit_groups
from saft.features.trees import tree_columns
from saft.learning.prediction import predict_logits
from saft.settings import WORDS_ALONE, Settings


@pytest.mark.parametrize("changes", [{}, {"ngrams": False}, {"labels": False}, {"fusion": "none"}])
def test_the_start_is_the_best_that_side_features_give_alone(network, parts, tiny_settings, changes):
    settings = Settings.of(tiny_settings | {"trees": False} | changes)
    assembly = Assembly.fresh(settings, network.showing(parts.train))
    loader, rows = assembly.loader(), np.sort(parts.train)
    solved = fit_groups(
        loader.side_features[rows],
        loader.evidence.groups(),
        loader.evidence.blocks(),
        network.labels[rows],
        network.n_classes,
        loader.features.folds[rows],
    ).weights
    expected = loader.side_features @ solved[:-1] + solved[-1]
    np.testing.assert_allclose(assembly.start(parts.test).logits, expected[parts.test], atol=0.02)


def test_trees_count_as_much_as_held_out_rows_say_and_the_regression_the_rest(tiny_settings):
    network = saft.demo_network(900)
    train = np.arange(700)
    assembly = Assembly.fresh(Settings.of(tiny_settings | {"encoder": "none"}), network.showing(train))
    without = Assembly.fresh(Settings.of(tiny_settings | {"encoder": "none", "trees": False}), network.showing(train))
    assert assembly.trees is not None
    rows, loader = np.arange(700, 900), assembly.loader()
    said = assembly.trees.log_odds(tree_columns(loader.evidence, loader.features.structure), loader.evidence.views)
    weight = float(assembly.start_weights[-2, -1])  # of what the trees say of a class, for that class
    assert 0 < weight <= 1
    expected = (1 - weight) * without.start(rows).logits + weight * said[rows]
    np.testing.assert_allclose(assembly.start(rows).logits, expected, atol=1e-4)


def test_before_training_the_head_gives_the_best_that_neighbours_tell(network, parts, tiny_settings):
    assembly = Assembly.fresh(Settings.of(tiny_settings), network.showing(parts.train))
    loader, rows = assembly.loader(), np.sort(parts.train)
    evidence, told = loader.evidence, loader.learnt_columns
    groups = {name: columns for name, columns in evidence.groups().items() if name in NEIGHBOURS_TELL}
    assert [*groups] == [*NEIGHBOURS_TELL]
    assert (told.start, told.stop) == (groups["labels"].start, groups["neighbours"].stop)
    solved = fit_groups(
        evidence.features()[rows][:, told],
        {name: slice(own.start - told.start, own.stop - told.start) for name, own in groups.items()},
        [
            slice(block.start - told.start, block.stop - told.start)
            for block in evidence.blocks()
            if told.start <= block.start < told.stop
        ],
        network.labels[rows],
        network.n_classes,
        loader.features.folds[rows],
    ).weights
    expected = evidence.features()[parts.test][:, told] @ solved[:-1] + solved[-1]
    found = predict_logits(assembly.model.eval(), loader, parts.test)
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_where_states_are_passed_the_head_starts_from_known_labels_alone(network, parts, tiny_settings):
    assembly = Assembly.fresh(Settings.of(tiny_settings | {"messages": "lga"}), network.showing(parts.train))
    labels_only = Settings.of(tiny_settings | WORDS_ALONE | {"fusion": "none"})
    alone = Assembly.fresh(labels_only, network.showing(parts.train)).start(parts.test)
    assert alone.is_head
    assert not assembly.start(parts.test).is_head
    found = predict_logits(assembly.model.eval(), assembly.loader(), parts.test)
    np.testing.assert_allclose(found, alone.logits, atol=1e-4)


def test_a_head_that_learns_from_no_side_feature_gives_them_no_weight(network, parts, tiny_settings):
    settings = Settings.of(tiny_settings | {"fusion": "none", "labels": False})
    assembly = Assembly.fresh(settings, network.showing(parts.train))
    assert assembly.model.n_side_features
    assert not assembly.model.n_learnt
    found = predict_logits(assembly.model.eval(), assembly.loader(), parts.test)
    shares = np.log(np.bincount(network.labels[parts.train], minlength=network.n_classes))
    np.testing.assert_allclose(found - found[:, :1], np.tile(shares - shares[0], (len(found), 1)), atol=0.1)
