"""Trees as arrays against scikit-learn's models and against a walk from node to node; what they may learn from."""

from dataclasses import asdict, fields

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier

from saft.features import trees
from saft.features.folds import FOLDS, VIEWS
from saft.features.ngrams import LARGEST
from saft.features.trees import IMPOSSIBLE, LEAST_ROWS, TreeModel

N, COLUMNS, ROUNDS, BAG = 300, 5, 12, 3


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch):
    monkeypatch.setattr(trees, "MOST_ROUNDS", ROUNDS)
    monkeypatch.setattr(trees, "BAG", BAG)


def drawn(n_classes: int, seed: int = 0, n_rows: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(columns, targets, folds): a class holds under a condition on two columns, mostly."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n_rows, COLUMNS)).astype(np.float32)
    columns[:, 4] = rng.integers(0, 3, n_rows)  # many rows have the same number
    told = ((columns[:, 0] > 0) ^ (columns[:, 1] > 0)) + (columns[:, 4] == 2) * (n_classes > 2)
    return columns, np.where(rng.random(n_rows) < 0.8, told, rng.integers(0, n_classes, n_rows)), np.arange(n_rows) % 5


def bag_of(columns, targets, rounds: int, seed: int) -> list[HistGradientBoostingClassifier]:
    """Fitted on their own, with the settings written out."""
    return [
        HistGradientBoostingClassifier(
            learning_rate=0.1, max_leaf_nodes=7, min_samples_leaf=20, l2_regularization=1.0, max_features=0.5,
            max_iter=rounds, early_stopping=False,
            random_state=int(np.random.SeedSequence([seed, number]).generate_state(1)[0]),
        ).fit(columns, targets)
        for number in range(BAG)
    ]  # fmt: skip


def mean_logits(bag, columns, n_classes: int) -> np.ndarray:
    """(rows, classes); one that no model has seen is all but impossible."""
    logits = np.full((len(columns), n_classes), IMPOSSIBLE)
    raw = sum(model.decision_function(columns) for model in bag) / len(bag)
    logits[:, bag[0].classes_] = np.stack([0 * raw, raw], axis=1) if raw.ndim == 1 else raw
    return logits


def centred(logits: np.ndarray) -> np.ndarray:
    logs = log_softmax(logits, axis=1)
    return np.clip(logs - logs.mean(axis=1, keepdims=True), -LARGEST, LARGEST)


def n_rounds(model: TreeModel, view: int) -> int:
    """Trees of this view, by the models of a bag and by the classes that have trees."""
    own = model.views == view
    return int(own.sum()) // BAG // len(np.unique(model.classes[own]))


def views_of(number: int, view: int) -> np.ndarray:
    return np.full(number, view)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_log_odds_are_the_mean_of_scikit_learns_models_of_the_same_rows(n_classes):
    """Of those without the fold, and in the last view of those fitted to all rows. Of 4 classes one is rare."""
    columns, targets, folds = drawn(n_classes)
    model, new = TreeModel.fit(columns, targets, n_classes, folds, seed=7), drawn(n_classes, seed=1)[0]
    rounds = n_rounds(model, FOLDS)
    for view in range(VIEWS):
        rows = folds != view
        expected = centred(mean_logits(bag_of(columns[rows], targets[rows], rounds, 7), new, n_classes))
        found = model.log_odds(new, views_of(N, view))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert found.dtype == np.float32
        assert found.std(axis=0).min() > 0.1  # the trees say something


@pytest.mark.parametrize(("n_classes", "missing"), [(3, 0), (3, 2), (4, 1)])
def test_a_class_without_a_row_is_all_but_impossible_and_the_others_are_scikit_learns(n_classes, missing):
    columns, targets, folds = drawn(n_classes - 1)
    targets = targets + (targets >= missing)
    model = TreeModel.fit(columns, targets, n_classes, folds, seed=0)
    bag = bag_of(columns, targets, n_rounds(model, FOLDS), 0)
    found = model.log_odds(columns, views_of(N, FOLDS))
    np.testing.assert_allclose(found, centred(mean_logits(bag, columns, n_classes)), atol=1e-5)
    assert (found[:, missing] == -LARGEST).all()
    assert missing not in model.classes


def test_a_class_whose_rows_are_all_of_one_fold_is_impossible_without_this_fold_only():
    columns, targets, folds = drawn(2)
    targets = np.where((folds == 3) & (columns[:, 0] > 1), 2, targets)
    model = TreeModel.fit(columns, targets, 3, folds, seed=0)
    said = [model.log_odds(columns, views_of(N, view))[:, 2] for view in range(VIEWS)]
    assert [bool((logs == -LARGEST).all()) for logs in said] == [view == 3 for view in range(VIEWS)]
    bag = bag_of(columns[folds != 3], targets[folds != 3], n_rounds(model, 3), 0)
    np.testing.assert_allclose(
        model.log_odds(columns, views_of(N, 3)), centred(mean_logits(bag, columns, 3)), atol=1e-5
    )


def walked(model: TreeModel, row: np.ndarray, view: int) -> np.ndarray:
    """(classes,) log-odds of one row, every tree from its root to a leaf."""
    logits = list(model.baselines[view])
    for root, label, of in zip(model.roots, model.classes, model.views, strict=True):
        if of == view:
            node = root
            while set(model.children[node]) != {node}:
                left, right = model.children[node]
                node = left if float(row[model.columns[node]]) <= model.thresholds[node] else right
            logits[label] += model.values[node]
    return centred(np.array([logits]))[0]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_odds_are_those_of_a_walk_from_node_to_node_in_the_view_of_each_row(n_classes):
    columns, targets, folds = drawn(n_classes)
    model = TreeModel.fit(columns, targets, n_classes, folds, seed=0)
    new, views = drawn(n_classes, seed=1)[0][:60], np.arange(60) % VIEWS
    expected = [walked(model, row, view) for row, view in zip(new, views, strict=True)]
    np.testing.assert_allclose(model.log_odds(new, views), expected, atol=1e-5)
    assert len(np.unique(model.log_odds(np.repeat(new[:1], VIEWS, axis=0), np.arange(VIEWS))[:, 0])) == VIEWS


def test_a_number_that_is_the_threshold_goes_to_the_first_child():
    model = TreeModel(
        columns=np.array([1, 0, 0]),
        thresholds=np.array([0.5, np.inf, np.inf]),
        children=np.array([[1, 2], [1, 1], [2, 2]]),
        values=np.array([0.0, 1.0, -1.0]),
        roots=np.array([0]),
        classes=np.array([1]),
        views=np.array([FOLDS]),
        baselines=np.zeros((VIEWS, 2)),
    )
    rows = np.array([[9, 0.4], [9, 0.5], [9, 0.6], [-9, 0.6]], np.float32)
    odds = model.log_odds(rows, views_of(4, FOLDS))
    np.testing.assert_allclose(odds[:, 1] - odds[:, 0], [1, 1, -1, -1], atol=1e-6)
    assert not model.log_odds(rows, views_of(4, 0)).any()  # a view without trees


def test_trees_that_find_nothing_to_split_are_one_leaf_each():
    columns, targets, folds = drawn(2)
    model = TreeModel.fit(np.zeros_like(columns), targets, 2, folds, seed=0)
    assert len(model.columns) == len(model.roots)
    shares = np.bincount(targets) / N
    expected = np.log(shares) - np.log(shares).mean()
    np.testing.assert_allclose(model.log_odds(columns, views_of(N, FOLDS)), np.tile(expected, (N, 1)), atol=1e-4)


@pytest.mark.parametrize("at_once", [1, 7, 1_000])
def test_many_rows_are_told_some_at_a_time(monkeypatch, at_once):
    columns, targets, folds = drawn(3)
    model = TreeModel.fit(columns, targets, 3, folds, seed=0)
    expected = model.log_odds(columns, folds)
    monkeypatch.setattr(trees, "ROWS_AT_ONCE", at_once)
    np.testing.assert_allclose(model.log_odds(columns, folds), expected, atol=1e-6)
    assert model.log_odds(columns[:0], folds[:0]).shape == (0, 3)


def of_view(model: TreeModel, view: int) -> list[tuple]:
    """(class, columns, thresholds, values) of every tree of this view, in their order."""
    ends = [*model.roots[1:], len(model.columns)]
    return [
        (label, model.columns[root:end].tolist(), model.thresholds[root:end].tolist(), model.values[root:end].tolist())
        for root, end, label, of in zip(model.roots, ends, model.classes, model.views, strict=True)
        if of == view
    ]


def test_labels_of_a_fold_do_not_reach_what_is_said_of_its_rows(monkeypatch):
    """But for the number of rounds, which all rows decide together."""
    monkeypatch.setattr(trees, "MOST_ROUNDS", 1)
    columns, targets, folds = drawn(3)
    before = TreeModel.fit(columns, targets, 3, folds, seed=0)
    for fold in range(FOLDS):
        own = folds == fold
        after = TreeModel.fit(columns, np.where(own, (targets + 1) % 3, targets), 3, folds, seed=0)
        assert of_view(after, fold) == of_view(before, fold)
        moved = (after.log_odds(columns, folds) != before.log_odds(columns, folds)).any(axis=1)
        assert not moved[own].any()
        assert moved[~own].mean() > 0.9  # they reach others
        assert of_view(after, FOLDS) != of_view(before, FOLDS)


def test_flipped_labels_of_a_fold_change_the_number_of_its_trees_at_most():
    columns, targets, folds = drawn(2)
    before = TreeModel.fit(columns, targets, 2, folds, seed=0)
    after = TreeModel.fit(columns, np.where(folds == 1, 1 - targets, targets), 2, folds, seed=0)
    of_bag = [[of_view(model, 1)[n * n_rounds(model, 1) :] for n in range(BAG)] for model in (before, after)]
    common = min(n_rounds(before, 1), n_rounds(after, 1))
    for first, second in zip(*of_bag, strict=True):
        assert first[:common] == second[:common]


def held_out_losses(columns, targets, folds, n_classes, most: int, seed: int) -> list[float]:
    """After 1, 2, … rounds, each fitted anew: summed −log p of every row by the trees without its fold."""
    losses = []
    for rounds in range(1, most + 1):
        losses.append(0.0)
        for fold in range(FOLDS):
            own = folds == fold
            logits = mean_logits(bag_of(columns[~own], targets[~own], rounds, seed), columns[own], n_classes)
            losses[-1] -= log_softmax(logits, axis=1)[np.arange(own.sum()), targets[own]].sum()
    return losses


@pytest.mark.parametrize(("shuffled", "n_classes"), [(True, 2), (False, 3)])
def test_as_many_rounds_are_kept_as_make_rows_without_their_fold_likeliest(monkeypatch, shuffled, n_classes):
    """Many where there is something to find, few where there is nothing."""
    monkeypatch.setattr(trees, "MOST_ROUNDS", 6)
    columns, targets, folds = drawn(n_classes)
    if shuffled:
        targets = np.random.default_rng(0).permutation(targets)
    model = TreeModel.fit(columns, targets, n_classes, folds, seed=3)
    losses = held_out_losses(columns, targets, folds, n_classes, 6, 3)
    best = int(np.argmin(losses)) + 1
    assert {n_rounds(model, view) for view in range(VIEWS)} == {best}
    assert best < 6 if shuffled else best == 6


def test_too_few_rows_or_one_class_give_no_trees():
    columns, targets, folds = drawn(2)
    few = slice(LEAST_ROWS - 1)
    assert TreeModel.fit(columns[few], targets[few], 2, folds[few], seed=0) is None
    enough = slice(LEAST_ROWS)
    assert TreeModel.fit(columns[enough], targets[enough], 2, folds[enough], seed=0) is not None
    assert TreeModel.fit(columns, np.zeros(N, np.int64), 2, folds, seed=0) is None
    in_one_fold = np.where((folds == 2) & (targets == 1), 1, 0)  # without this fold there is one class
    assert TreeModel.fit(columns, in_one_fold, 2, folds, seed=0) is None
    assert TreeModel.fit(columns, targets, 2, np.zeros(N, np.int64), seed=0) is None  # nothing is left without fold 0


def test_folds_without_a_row_are_no_obstacle():
    columns, targets, _ = drawn(2)
    model = TreeModel.fit(columns, targets, 2, np.arange(N) % 2, seed=0)
    assert of_view(model, 3) == of_view(model, FOLDS)  # nothing is left out of it


def test_the_same_seed_gives_the_same_arrays_and_another_one_others():
    given = drawn(3)
    first, again, other = (TreeModel.fit(given[0], given[1], 3, given[2], seed) for seed in (5, 5, 6))
    for entry in fields(TreeModel):
        np.testing.assert_array_equal(getattr(first, entry.name), getattr(again, entry.name))
    assert of_view(first, FOLDS) != of_view(other, FOLDS)


def test_trees_survive_a_file(tmp_path):
    columns, targets, folds = drawn(3)
    model = TreeModel.fit(columns, targets, 3, folds, seed=0)
    expected = model.log_odds(columns, folds)  # what is remembered of it does not belong to the file
    save_file({name: np.ascontiguousarray(array) for name, array in asdict(model).items()}, tmp_path / "trees")
    again = TreeModel(**load_file(tmp_path / "trees"))
    np.testing.assert_array_equal(again.log_odds(columns, folds), expected)
    assert asdict(again).keys() == {entry.name for entry in fields(TreeModel)}
