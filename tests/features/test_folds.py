"""Which rows may not learn from which."""

import numpy as np
import pytest

from saft.features.folds import FOLDS, NO_FOLD, VIEWS, fold_of_rows, view_of_rows


@pytest.mark.parametrize("n_rows", [0, 1, 3, 101, 1000])
def test_folds_are_of_the_same_size_within_one_row(n_rows):
    sizes = np.bincount(fold_of_rows(n_rows, 0), minlength=FOLDS)
    assert len(sizes) == FOLDS
    assert sizes.sum() == n_rows
    assert sizes.max() - sizes.min() <= 1


def test_the_seed_decides_which_rows_are_of_one_fold():
    np.testing.assert_array_equal(fold_of_rows(200, 3), fold_of_rows(200, 3))
    assert (fold_of_rows(200, 3) != fold_of_rows(200, 4)).any()
    first, second = fold_of_rows(200, 3)[:100], fold_of_rows(200, 3)[100:]
    assert np.bincount(first).min() > 5  # neighbouring rows are not of one fold
    assert np.bincount(second).min() > 5


def test_a_labelled_row_is_seen_without_its_fold_and_all_others_with_all_labels():
    folds = np.array([0, 1, 4, NO_FOLD, 0, 1, 4, NO_FOLD])
    labelled = np.array([True] * 4 + [False] * 4)
    assert view_of_rows(folds, labelled).tolist() == [0, 1, 4] + [FOLDS] * 5
    assert VIEWS == FOLDS + 1  # the last one is that of all labels
