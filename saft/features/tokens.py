"""Texts as tokens: tokenised once, kept in two flat arrays, padded only to the longest of the requested texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from saft.errors import InputError
from saft.features.backbones import open_backbone

TEXTS_AT_ONCE = 2_000
NARROWER = 0.75  # a chunk of texts ends where they get shorter than this share of its longest
SMALLEST_CHUNK = 12
MOST_TOKENS, FEWEST_TOKENS = 128, 8  # of a text, where the number is chosen by the texts
SAMPLED = 5_000  # texts that this choice is made by


@dataclass(frozen=True)
class Tokens:
    """Token ids of all texts, one after the other: those of text t are ``flat[starts[t]:starts[t + 1]]``.

    Where an encoder has read them already, ``flat`` holds states of tokens instead of ids.
    """

    flat: np.ndarray  # int32, or (tokens, width)
    starts: np.ndarray  # (texts + 1,) int64
    padding: int  # the id used where a text has no token

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def padded(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(tokens, mask) of these texts, int64, as wide as the longest of them."""
        positions, there = self.positions(texts)
        if self.flat.ndim > 1:  # states
            tokens = np.zeros((*there.shape, self.flat.shape[1]), dtype=np.float32)
        else:
            tokens = np.full(there.shape, self.padding, dtype=np.int64)
        tokens[there] = self.flat[positions]
        return tokens, there.astype(np.int64)

    def positions(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions of their tokens in ``flat``, and a (texts, longest) mask of where these go in a padded matrix."""
        lengths = self.starts[texts + 1] - self.starts[texts]
        columns = np.arange(lengths.max(initial=0))[None]
        there = columns < lengths[:, None]
        return (self.starts[texts][:, None] + columns)[there], there

    def take(self, texts: np.ndarray) -> Tokens:
        """Of these texts only."""
        positions, _ = self.positions(texts)
        starts = np.concatenate([[0], np.cumsum(self.lengths[texts])])
        return Tokens(self.flat[positions], starts, self.padding)

    def with_text(self, texts: np.ndarray, tokens: np.ndarray) -> Tokens:
        """A copy in which each of these texts consists of the given tokens."""
        pieces = np.split(self.flat, self.starts[1:-1])
        for text in texts.tolist():
            pieces[text] = tokens
        starts = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces], dtype=np.int64)])
        return Tokens(np.concatenate(pieces), starts, self.padding)

    def followed_by(self, more: Tokens) -> Tokens:
        """These texts, then those of ``more``."""
        return Tokens(
            np.concatenate([self.flat, more.flat]),
            np.concatenate([self.starts, more.starts[1:] + self.starts[-1]]),
            self.padding,
        )


def cut_by_length(rows: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Rows, longest text first, in chunks that end where the texts get much shorter, to save padding."""
    starts = [0]
    for place, length in enumerate(lengths.tolist()):
        if length < NARROWER * lengths[starts[-1]] and place - starts[-1] >= SMALLEST_CHUNK:
            starts.append(place)
    return np.split(rows, starts[1:])


def load_tokenizer(name: str) -> Any:
    """The tokenizer that belongs to this encoder."""
    from transformers import AutoTokenizer

    return open_backbone(AutoTokenizer, name)


def enough_tokens(texts: pl.Series, tokenizer: Any) -> int:
    """How many tokens nine of ten texts have at most, special ones included; never more than MOST_TOKENS."""
    sample = texts.sample(min(len(texts), SAMPLED), seed=0)
    lengths = tokenise(sample, tokenizer, MOST_TOKENS).lengths
    return max(int(np.quantile(lengths, 0.9, method="higher")), FEWEST_TOKENS) if len(lengths) else FEWEST_TOKENS


def tokenise(
    texts: pl.Series, tokenizer: Any, max_length: int, on_progress: Callable[[int], None] = lambda rows: None
) -> Tokens:
    """Tokens of every text, cut to ``max_length``, with the encoder's special tokens."""
    if max_length < (least := tokenizer.num_special_tokens_to_add()):
        raise InputError(f"The encoder adds {least} tokens to every text, so max_length has to be more than that.")
    pieces, lengths = [], []
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        some = texts[first : first + TEXTS_AT_ONCE].to_list()
        ids = tokenizer(some, truncation=True, max_length=max_length, return_attention_mask=False)["input_ids"]
        lengths += [len(text) for text in ids]
        pieces.append(np.concatenate([np.asarray(text, dtype=np.int32) for text in ids]))
        on_progress(len(some))
    flat = np.concatenate(pieces) if pieces else np.empty(0, np.int32)
    return Tokens(flat, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), int(tokenizer.pad_token_id or 0))
