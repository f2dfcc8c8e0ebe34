"""The user-item graph as scipy matrices: degrees, components, and the operators that everything else is built on.

Notation: A is the |U|×|I| matrix of counts, d are the degrees, with repeated pairs counted each time, and
Â = D_u^(-1/2) A D_i^(-1/2). The normalised adjacency N of the whole graph has Â and Âᵀ as its off-diagonal blocks.
"""

from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from saft.errors import InputError

# Single precision halves the traffic of every product with a block of vectors; on large graphs it sets the speed.
SINGLE_PRECISION_FROM = 200_000


class BipartiteGraph:
    """Interactions between users and items, each numbered from 0 without gaps.

    Attributes:
        user_codes, item_codes: the caller's code of each node, ascending.
    """

    def __init__(self, users: np.ndarray, items: np.ndarray) -> None:
        users, items = checked(users, items)
        self.user_codes, self.users = _without_gaps(users)
        self.item_codes, self.items = _without_gaps(items)
        self.n_users, self.n_items = len(self.user_codes), len(self.item_codes)
        self.precision = np.float32 if len(users) >= SINGLE_PRECISION_FROM else np.float64

    def __len__(self) -> int:
        return len(self.users)

    @property
    def n_nodes(self) -> int:
        return self.n_users + self.n_items

    @cached_property
    def user_degrees(self) -> np.ndarray:
        return np.bincount(self.users, minlength=self.n_users)

    @cached_property
    def item_degrees(self) -> np.ndarray:
        return np.bincount(self.items, minlength=self.n_items)

    @cached_property
    def counts(self) -> csr_array:
        """A: the number of interactions of each user with each item."""
        ones = np.ones(len(self), dtype=self.precision)
        return coo_array((ones, (self.users, self.items)), shape=(self.n_users, self.n_items)).tocsr()

    @cached_property
    def transposed_counts(self) -> csr_array:
        """Aᵀ in its own row format: products with it gather, where ``counts.T`` would scatter."""
        return self.counts.T.tocsr()

    @cached_property
    def components(self) -> tuple[int, np.ndarray, np.ndarray]:
        """(number of connected components, component of each user, component of each item)."""
        rows = np.concatenate([self.users, self.n_users + self.items])
        columns = np.concatenate([self.n_users + self.items, self.users])
        edges = coo_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(self.n_nodes, self.n_nodes))
        count, labels = connected_components(edges, directed=False)
        return int(count), labels[: self.n_users], labels[self.n_users :]

    @property
    def smaller_is_items(self) -> bool:
        return self.n_items <= self.n_users

    def normalised(self, block: np.ndarray) -> np.ndarray:
        """Â times a block of item vectors."""
        scale_users, scale_items = self._scales
        return (self.counts @ (block * scale_items)) * scale_users

    def normalised_transposed(self, block: np.ndarray) -> np.ndarray:
        """Âᵀ times a block of user vectors."""
        scale_users, scale_items = self._scales
        return (self.transposed_counts @ (block * scale_users)) * scale_items

    def gram(self, block: np.ndarray) -> np.ndarray:
        """ÂᵀÂ (or ÂÂᵀ, whichever is smaller) times a block of vectors of the smaller side."""
        if self.smaller_is_items:
            return self.normalised_transposed(self.normalised(block))
        return self.normalised(self.normalised_transposed(block))

    def across(self, block: np.ndarray) -> np.ndarray:
        """From vectors of the smaller side to vectors of the larger one: Â or Âᵀ."""
        return self.normalised(block) if self.smaller_is_items else self.normalised_transposed(block)

    def by_side(self, smaller: np.ndarray, larger: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(users', items') from (smaller side's, larger side's)."""
        return (larger, smaller) if self.smaller_is_items else (smaller, larger)

    @cached_property
    def smaller_null(self) -> csr_array:
        """The smaller side's part of N's eigenvectors for the eigenvalue 1, of length 1: √d on each component.

        One column per component. They are known exactly, so solvers project them out instead of finding them: a graph
        with a thousand components costs no more than a connected one.
        """
        count, user_component, item_component = self.components
        degrees = self.item_degrees if self.smaller_is_items else self.user_degrees
        component = item_component if self.smaller_is_items else user_component
        size = np.bincount(component, weights=degrees, minlength=count)
        values = np.sqrt(degrees / size[component]).astype(self.precision)
        return coo_array((values, (np.arange(len(degrees)), component)), shape=(len(degrees), count)).tocsr()

    def without_null(self, block: np.ndarray) -> np.ndarray:
        """The block with the null directions of every component projected out."""
        null = self.smaller_null
        return block - null @ (null.T @ block)

    @cached_property
    def _scales(self) -> tuple[np.ndarray, np.ndarray]:
        users, items = (degrees[:, None] ** -0.5 for degrees in (self.user_degrees, self.item_degrees))
        return users.astype(self.precision), items.astype(self.precision)


def checked(users: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    users, items = np.asarray(users), np.asarray(items)
    if users.ndim != 1 or users.shape != items.shape:
        raise InputError(f"Users and items need one entry per interaction; got shapes {users.shape} and {items.shape}.")
    if not len(users):
        raise InputError("There are no interactions.")
    if not (np.issubdtype(users.dtype, np.integer) and np.issubdtype(items.dtype, np.integer)):
        raise InputError(f"Users and items have to be integer codes; got {users.dtype} and {items.dtype}.")
    if users.min() < 0 or items.min() < 0:
        raise InputError("Codes of users and items start from 0; there is a negative one.")
    return _roomy(users), _roomy(items)


def _roomy(codes: np.ndarray) -> np.ndarray:
    """Codes in a type that does not overflow when the number of nodes is added to them."""
    return codes if codes.dtype in (np.int32, np.int64) else codes.astype(np.int64)


def _without_gaps(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(codes that occur, ascending; the index of each entry among them), without sorting all entries."""
    occurs = np.bincount(codes) > 0
    if occurs.all():
        return np.arange(len(occurs)), codes
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]
