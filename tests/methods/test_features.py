"""Rows split into batches."""

import numpy as np

from saft.methods._features import RowLoader


def test_every_row_is_in_one_batch_in_an_order_that_seed_and_epoch_decide():
    labels, rows = np.zeros(50, np.int32), np.arange(5, 45)
    loader = RowLoader(labels, 2, seed=1, size=16)
    first, again = (next(loader.training_passes(rows, 0)).batches for _ in range(2))
    assert [len(batch) for batch in first] == [16, 16, 8]
    assert sorted(np.concatenate(first)) == rows.tolist()
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    other = next(iter(loader.training_passes(rows, 1))).batches
    assert (np.concatenate(other) != np.concatenate(first)).any()


def test_without_a_size_all_rows_are_one_batch():
    loader = RowLoader(np.zeros(50, np.int32), 2, seed=1)
    assert [len(batch) for view in loader.training_passes(np.arange(40), 3) for batch in view.batches] == [40]
