"""Features: the arrays that a model reads, one entry per interaction; ReadTexts: those of them that come from texts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from saft.features.tokens import Tokens


@dataclass(frozen=True)
class Features:
    """One entry per interaction, except where stated.

    What readers of the text say is there once for every view, see :mod:`~saft.features.folds`: which view describes an
    interaction depends on which labels are visible.
    """

    users: np.ndarray
    items: np.ndarray
    tokens: Tokens
    structure: dict[str, np.ndarray]  # role → (interactions, dim)
    log_odds: np.ndarray  # (views, interactions, readers · classes) by n-grams, by sentence vectors
    parts: np.ndarray  # (views, interactions, 3 · classes) by the ContextModel; no columns without it
    vectors: np.ndarray  # (interactions, ·) sentence vectors of length 1; no columns without frozen layers
    style: np.ndarray  # (interactions, ·) by the StyleModel; no columns without it
    folds: np.ndarray  # of each; NO_FOLD for those that the readers were not fitted to
    user_vectors: np.ndarray  # (users, ·) attributes, or fixed numbers where there are none
    item_vectors: np.ndarray  # (items, ·)
    user_slots: np.ndarray  # (users,) row in the table of trained vectors; 0 for users that training did not see
    item_slots: np.ndarray  # (items,)

    def __len__(self) -> int:
        return len(self.users)

    @property
    def n_users(self) -> int:
        return len(self.user_vectors)

    @property
    def n_items(self) -> int:
        return len(self.item_vectors)

    def followed_by(self, more: Features) -> Features:
        """These interactions, users and items, then those."""
        if not len(more):
            return self
        return replace(
            self,
            users=np.concatenate([self.users, more.users]),
            items=np.concatenate([self.items, more.items]),
            tokens=self.tokens.followed_by(more.tokens),
            structure={role: np.concatenate([own, more.structure[role]]) for role, own in self.structure.items()},
            log_odds=np.concatenate([self.log_odds, more.log_odds], axis=1),
            parts=np.concatenate([self.parts, more.parts], axis=1),
            vectors=np.concatenate([self.vectors, more.vectors]),
            style=np.concatenate([self.style, more.style]),
            folds=np.concatenate([self.folds, more.folds]),
            user_vectors=np.concatenate([self.user_vectors, more.user_vectors]),
            item_vectors=np.concatenate([self.item_vectors, more.item_vectors]),
            user_slots=np.concatenate([self.user_slots, more.user_slots]),
            item_slots=np.concatenate([self.item_slots, more.item_slots]),
        )


@dataclass(frozen=True)
class ReadText:
    """What was read from one text, in the view that describes its interaction."""

    log_odds: np.ndarray  # (readers · classes,)
    parts: np.ndarray  # (3 · classes,) by the ContextModel
    vector: np.ndarray  # of length 1
    style: np.ndarray


@dataclass(frozen=True)
class ReadTexts:
    """What was read from some texts, one entry each."""

    tokens: Tokens
    log_odds: np.ndarray  # (views, texts, readers · classes)
    parts: np.ndarray  # (views, texts, 3 · classes)
    vectors: np.ndarray  # (texts, ·) of length 1
    style: np.ndarray  # (texts, ·)

    def one(self, at: int, view: int) -> ReadText:
        return ReadText(self.log_odds[view, at], self.parts[view, at], self.vectors[at], self.style[at])
