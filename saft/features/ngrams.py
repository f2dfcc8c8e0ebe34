"""Phrases: what the words, pairs of words and parts of words of a text say about its class, by a linear model.

An encoder reads the first so many tokens of a text, in the languages that it was trained on. This reads nearly all of
it, in any language: n-grams by their hash, weighed as TF-IDF does it, and multinomial logistic regression.

    clue of class k = log p(k | n-grams) − log share of k,   clipped

A labelled interaction's clue comes from a regression that was fitted without it, so it never contains its own label,
and is as trustworthy in training as it is for interactions without a label.
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
from saft.features.regression import regress

WORDS, PARTS = (1, 2), (2, 3, 4)  # lengths of the n-grams: of words, and of characters
BITS = 17  # 2^17 buckets for each of the two kinds
LONGEST = 2_000  # characters of a text that are read
AT_ONCE = 2_000  # texts whose n-grams are spelt out at the same time
FOLDS = 3
MOST_FITTED = 20_000  # rows that a regression learns from; more cost time and hardly help a linear model
STRENGTH = 3.0  # C of the regression: how little its weights are pulled to zero
STEPS = 30  # of its solver; stopping early measured as well as or better than convergence
LARGEST = 6.0  # clues beyond this are cut

_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
_MIX = 0xBF58476D1CE4E5B9


@dataclass(frozen=True)
class Phrases:
    """
    Args:
        classes: that there are enough rows of to learn something; clues of others are 0.
        rarity: (buckets,) how much an n-gram weighs, by how few texts have it.
        weights, offsets, log_shares: (buckets, classes), (classes,), (classes,) of the regression.
        learnt: (texts, all classes) the clues of the texts that it learnt with, labelled or not.
    """

    classes: np.ndarray
    rarity: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    log_shares: np.ndarray
    learnt: np.ndarray

    @classmethod
    def learn(cls, texts: pl.Series, labels: np.ndarray, n_classes: int, seed: int) -> Phrases:
        """From texts with a label; HIDDEN ones are only read."""
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(np.flatnonzero(labels != HIDDEN))[:MOST_FITTED]
        # Folds do not go by labels, so that nothing about an interaction's clue depends on its own.
        folds = np.arange(len(chosen)) % FOLDS
        classes = np.flatnonzero(np.bincount(labels[chosen], minlength=n_classes) >= 2 * FOLDS)
        enough = np.isin(labels[chosen], classes)
        chosen, folds = chosen[enough], folds[enough]
        counted = count(texts.gather(pl.Series(chosen)))
        occurs_in = counted.getnnz(axis=0)
        rarity = np.log((1 + len(chosen)) / (1 + occurs_in)).astype(np.float32) + 1
        rows, answers = weigh(counted, rarity), np.searchsorted(classes, labels[chosen])

        def fitted(some: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return _fitted(rows[some], answers[some], len(classes), np.flatnonzero(occurs_in > 1))

        whole = cls(classes, rarity, *fitted(np.arange(len(chosen))), np.empty((0, n_classes), np.float32))
        learnt = np.zeros((len(texts), n_classes), dtype=np.float32)
        others = np.setdiff1d(np.arange(len(texts)), chosen)
        learnt[others] = whole.read(texts.gather(pl.Series(others)))
        for fold in range(FOLDS if len(classes) > 1 else 0):
            own = np.flatnonzero(folds == fold)
            learnt[chosen[own]] = whole.judge(rows[own], *fitted(np.flatnonzero(folds != fold)))
        return replace(whole, learnt=learnt)

    def read(self, texts: pl.Series) -> np.ndarray:
        """(texts, all classes) clues of texts that it has not learnt from."""
        clues = np.zeros((len(texts), self.learnt.shape[1]), dtype=np.float32)
        for first in range(0, len(texts) if len(self.classes) > 1 else 0, AT_ONCE):
            rows = weigh(count(texts[first : first + AT_ONCE]), self.rarity)
            clues[first : first + AT_ONCE] = self.judge(rows, self.weights, self.offsets, self.log_shares)
        return clues

    def judge(self, rows: Any, weights: np.ndarray, offsets: np.ndarray, log_shares: np.ndarray) -> np.ndarray:
        """(rows, all classes) clues by this regression."""
        clues = np.zeros((rows.shape[0], self.learnt.shape[1]), dtype=np.float32)
        clues[:, self.classes] = log_softmax(rows @ weights + offsets, axis=1) - log_shares
        return clues.clip(-LARGEST, LARGEST)


def count(texts: pl.Series) -> Any:
    """(texts, buckets) sparse: how often each n-gram occurs in each text, those of words before those of characters."""
    parts = [_count_some(texts[first : first + AT_ONCE]) for first in range(0, len(texts), AT_ONCE)]
    return sparse.vstack(parts, format="csr") if parts else sparse.csr_matrix((0, 2 << BITS), dtype=np.float32)


def _count_some(texts: pl.Series) -> Any:
    cleaned = [" ".join(text[:LONGEST].lower().split()) for text in texts]
    # A space before every text and one behind the last: text r stands between borders[r] and borders[r + 1].
    letters = np.frombuffer("".join([f" {text}" for text in cleaned] + [" "]).encode("utf-32-le"), dtype=np.uint32)
    borders = np.concatenate([[0], np.cumsum([len(text) + 1 for text in cleaned])])
    text_of = np.repeat(np.arange(len(texts)), np.diff(borders))
    hashes = SubstringHashes(letters)
    spaces, places = np.flatnonzero(letters == ord(" ")), np.arange(len(letters) + 1)
    # Words with the spaces at both ends; characters as they stand.
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
    """The hash of any part of a long string, without going through its letters again.

    With p_i = Σ_{j<i} letter_j · B^j, the part from s to e is (p_e − p_s) · B^−s, all modulo 2^64, whatever stands
    before it; then mixed, so that the highest bits depend on all letters.
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


def weigh(counted: Any, rarity: np.ndarray) -> Any:
    """TF-IDF: (1 + log count) · rarity; words and characters each of length 1, so that neither drowns the other."""
    weighed = counted.copy()
    weighed.data = (1 + np.log(counted.data)) * rarity[counted.indices]
    row = np.repeat(np.arange(counted.shape[0]), np.diff(counted.indptr))
    part = 2 * row + (counted.indices >> BITS)  # which text, and which of the two kinds
    lengths = np.sqrt(np.bincount(part, weighed.data**2, minlength=2 * counted.shape[0]))
    weighed.data = (weighed.data / lengths[part]).astype(np.float32)
    return weighed


def _fitted(
    rows: Any, answers: np.ndarray, n_classes: int, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (buckets, classes), offsets and log shares (classes,) of the regression on these buckets."""
    weights = np.zeros((rows.shape[1], n_classes), dtype=np.float32)
    shares = (np.bincount(answers, minlength=n_classes) + 1) / (len(answers) + max(n_classes, 1))
    if n_classes < 2:
        return weights, np.zeros(n_classes, np.float32), np.log(shares).astype(np.float32)
    used = rows[:, columns]
    both_ways = _as_tensor(used), _as_tensor(used.T.tocsr())
    solved = regress(*both_ways, answers, np.zeros((len(columns) + 1, n_classes)), STRENGTH, STEPS)
    weights[columns] = solved[:-1]
    return weights, solved[-1], np.log(shares).astype(np.float32)


def _as_tensor(rows: Any) -> torch.Tensor:
    """Sparse rows, for products that take torch a third of scipy's time."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        starts, columns, values = map(torch.from_numpy, (rows.indptr, rows.indices, rows.data))
        return torch.sparse_csr_tensor(starts, columns, values, rows.shape, check_invariants=True)
