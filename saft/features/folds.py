"""Folds: who may not learn from whom. Whatever describes a labelled row is made without the labels of its fold.

A row belongs to a fold by its number and the seed, never by its label. Readers of texts are fitted once without each
fold and once to all labels; neighbours show a labelled row no label of its own fold. So what is computed for a labelled
row is what it would be if the row, and every fifth row beside it, had no label: training looks like prediction.
"""

from __future__ import annotations

import numpy as np

FOLDS = 5
NO_FOLD = -1  # of rows that were not there when the readers were fitted; no reader has seen their labels
VIEWS = FOLDS + 1  # what readers say: fitted without fold 0, 1, …, and last to all labels


def fold_of_rows(n_rows: int, seed: int) -> np.ndarray:
    """(rows,) the fold of each."""
    return np.random.default_rng([seed, n_rows]).permutation(n_rows) % FOLDS


def view_of_rows(folds: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """(rows,) which view describes each row: without its fold if it has a label, else the last one."""
    return np.where(labelled & (folds != NO_FOLD), folds, FOLDS)
