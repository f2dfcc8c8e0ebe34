"""NgramModel: class log-odds of a text by a linear model of its words, pairs of words and parts of words.

An encoder is limited to the first tokens of a text and to the languages that it was trained on. This model uses nearly
all of the text, in any language: hashed n-grams, weighted by TF-IDF, and multinomial logistic regression.

    log-odds of class k = log p(k | n-grams) − log share of k,   clipped

The log-odds of a labelled interaction come from a regression that was fitted without its fold. So they never contain
its own label, and they are as reliable in training as they are for interactions without a label.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
import torch
from scipy import sparse
from scipy.special import log_softmax

from saft.data.network import HIDDEN
from saft.features.folds import FOLDS, VIEWS
from saft.features.regression import regress

WORDS, PARTS = (1, 2), (2, 3, 4)  # lengths of the n-grams: of words, and of characters
BITS = 17  # 2^17 buckets for each of the two kinds
LONGEST = 2_000  # characters of a text that are used
AT_ONCE = 2_000  # texts whose n-grams are in memory at the same time
LEAST = 2  # rows of a class in each fold, on average; a class with fewer is left out
MOST_FITTED = 20_000  # rows that a regression is fitted to; more cost time and hardly help a linear model
STRENGTH = 3.0  # C of the regression: larger is less regularised
STEPS = 30  # iterations of its solver; stopping early measured as well as or better than convergence
LARGEST = 6.0  # larger log-odds are clipped

_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_MIX = 0xBF58476D1CE4E5B9


@dataclass(frozen=True)
class NgramModel:
    """
    Args:
        classes: those with enough labelled rows; the log-odds of others are 0.
        idf: (buckets,) inverse document frequencies.
        weights, bias, log_priors: (buckets, classes), (classes,), (classes,) of the regression.
        fitted_log_odds: (views, texts, all classes) of the texts given to ``fit``, see :mod:`~saft.features.folds`.
    """

    classes: np.ndarray
    idf: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    log_priors: np.ndarray
    fitted_log_odds: np.ndarray

    @classmethod
    def fit(cls, texts: pl.Series, labels: np.ndarray, n_classes: int, folds: np.ndarray, seed: int) -> NgramModel:
        """Fit to the texts with a label; of the others, only log-odds are computed."""
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(np.flatnonzero(labels != HIDDEN))[:MOST_FITTED]
        known, fold = labels[chosen], folds[chosen]
        counted = count(texts.gather(pl.Series(chosen)))
        occurs_in = counted.getnnz(axis=0)
        idf = np.log((1 + len(chosen)) / (1 + occurs_in)).astype(np.float32) + 1
        rows, columns = weigh(counted, idf), np.flatnonzero(occurs_in > 1)

        def fitted(some: np.ndarray, least: int) -> NgramModel:
            """To these rows, as far as there are at least so many of their class."""
            classes = np.flatnonzero(np.bincount(known[some], minlength=n_classes) >= least)
            some = some[np.isin(known[some], classes)]
            parameters = _regression(rows[some], np.searchsorted(classes, known[some]), len(classes), columns)
            return cls(classes, idf, *parameters, np.empty((VIEWS, 0, n_classes), np.float32))

        # What is fitted without a fold does not depend on the fold's labels in any way, not even on how many there are.
        models = [fitted(np.flatnonzero(fold != hidden), LEAST * (FOLDS - 1)) for hidden in range(FOLDS)]
        models.append(fitted(np.arange(len(chosen)), LEAST * FOLDS))
        return replace(models[-1], fitted_log_odds=_log_odds_of_all(models, texts))

    def log_odds(self, texts: pl.Series) -> np.ndarray:
        """(texts, all classes) of texts that were not given to ``fit``."""
        return _log_odds_of_all([self], texts)[0]

    def predict(self, rows: Any) -> np.ndarray:
        """(rows, all classes) log-odds of weighed n-grams; 0 for all if fewer than two classes are known."""
        found = np.zeros((rows.shape[0], self.fitted_log_odds.shape[2]), dtype=np.float32)
        if len(self.classes) > 1:
            found[:, self.classes] = log_softmax(rows @ self.weights + self.bias, axis=1) - self.log_priors
        return found.clip(-LARGEST, LARGEST)


def _log_odds_of_all(models: list[NgramModel], texts: pl.Series) -> np.ndarray:
    """(models, texts, all classes); the models share their inverse document frequencies."""
    found = np.zeros((len(models), len(texts), models[0].fitted_log_odds.shape[2]), dtype=np.float32)
    for first in range(0, len(texts), AT_ONCE):
        rows = weigh(count(texts[first : first + AT_ONCE]), models[0].idf)
        for place, model in enumerate(models):
            found[place, first : first + AT_ONCE] = model.predict(rows)
    return found


def count(texts: pl.Series) -> Any:
    """(texts, buckets) sparse: how often each n-gram occurs in each text, those of words before those of characters."""
    parts = [_count_some(texts[first : first + AT_ONCE]) for first in range(0, len(texts), AT_ONCE)]
    if len(parts) == 1:
        return parts[0]
    return sparse.vstack(parts, format="csr") if parts else sparse.csr_matrix((0, 2 << BITS), dtype=np.float32)


def _count_some(texts: pl.Series) -> Any:
    cleaned = [" ".join(text[:LONGEST].lower().split()) for text in texts]
    # A space before every text and one behind the last: text r lies between borders[r] and borders[r + 1].
    letters = np.frombuffer("".join([f" {text}" for text in cleaned] + [" "]).encode("utf-32-le"), dtype=np.uint32)
    borders = np.concatenate([[0], np.cumsum([len(text) + 1 for text in cleaned])])
    text_of = np.repeat(np.arange(len(texts)), np.diff(borders))
    hashes = SubstringHashes(letters)
    spaces, places = np.flatnonzero(letters == ord(" ")), np.arange(len(letters) + 1)
    # Words with the spaces at both ends; characters as they are.
    spans = [(0, spaces[:-length], spaces[length:] + 1) for length in WORDS]
    spans += [(1, places[:-length], places[length:]) for length in PARTS]
    rows, buckets = [], []
    for kind, starts, ends in spans:
        inside = ends <= borders[text_of[starts] + 1] + 1  # not reaching into the next text
        rows.append(text_of[starts[inside]])
        buckets.append(hashes.of(starts[inside], ends[inside]) + (kind << BITS))
    row, bucket = np.concatenate(rows), np.concatenate(buckets)
    return sparse.csr_matrix((np.ones(len(row), np.float32), (row, bucket)), shape=(len(texts), 2 << BITS))


class SubstringHashes:
    """Hashes of parts of a long string, each in constant time.

    With p_i = Σ_{j<i} letter_j · B^j, the part from s to e has the hash (p_e − p_s) · B^−s modulo 2^64,
    independent of what precedes it; then mixed, so that the highest bits depend on all letters.
    """

    def __init__(self, letters: np.ndarray) -> None:
        terms = (letters.astype(np.uint64) + np.uint64(1)) * _powers(_BASE, len(letters))
        self._before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])
        self._down = _powers(pow(_BASE, -1, 2**64), len(letters))

    def of(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The bucket of each part, below 2^BITS."""
        hashed = (self._before[ends] - self._before[starts]) * self._down[starts]
        hashed ^= hashed >> np.uint64(29)
        hashed *= np.uint64(_MIX)
        return (hashed >> np.uint64(64 - BITS)).astype(np.int32)


def _powers(base: int, number: int) -> np.ndarray:
    """1, B, B², … modulo 2^64."""
    factors = np.full(number, base, dtype=np.uint64)
    factors[:1] = 1
    return np.multiply.accumulate(factors)


def weigh(counted: Any, idf: np.ndarray) -> Any:
    """TF-IDF: (1 + log count) · idf; words and characters are each scaled to norm 1, so that neither dominates."""
    weighed = counted.copy()
    weighed.data = (1 + np.log(counted.data)) * idf[counted.indices]
    row = np.repeat(np.arange(counted.shape[0]), np.diff(counted.indptr))
    part = 2 * row + (counted.indices >> BITS)  # which text, and which of the two kinds
    lengths = np.sqrt(np.bincount(part, weighed.data**2, minlength=2 * counted.shape[0]))
    weighed.data = (weighed.data / lengths[part]).astype(np.float32)
    return weighed


def _regression(
    rows: Any, targets: np.ndarray, n_classes: int, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (buckets, classes), bias and log shares (classes,) of the regression on these buckets."""
    weights = np.zeros((rows.shape[1], n_classes), dtype=np.float32)
    shares = (np.bincount(targets, minlength=n_classes) + 1) / (len(targets) + max(n_classes, 1))
    if n_classes < 2:
        return weights, np.zeros(n_classes, np.float32), np.log(shares).astype(np.float32)
    used = rows[:, columns]
    both_ways = _as_tensor(used), _as_tensor(used.T.tocsr())
    solved = regress(*both_ways, targets, np.zeros((len(columns) + 1, n_classes)), STRENGTH, STEPS)
    weights[columns] = solved[:-1]
    return weights, solved[-1], np.log(shares).astype(np.float32)


def _as_tensor(rows: Any) -> torch.Tensor:
    """Sparse rows as a tensor: products take torch a third of scipy's time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        starts, columns, values = map(torch.from_numpy, (rows.indptr, rows.indices, rows.data))
        return torch.sparse_csr_tensor(starts, columns, values, rows.shape, check_invariants=True)
