"""The k-core of a network: the largest part of it in which every user and every item has at least k interactions."""

import numpy as np

from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError


def k_core(users: np.ndarray, items: np.ndarray, k: int) -> np.ndarray:
    """Which interactions are in the k-core, as a mask. Repeated pairs count each time, as they do in degrees.

    Args:
        users: (m,) codes.
        items: (m,) codes.
    """
    kept = np.ones(len(users), dtype=bool)
    while True:
        user_degrees = np.bincount(users[kept], minlength=users.max(initial=-1) + 1)
        item_degrees = np.bincount(items[kept], minlength=items.max(initial=-1) + 1)
        still = kept & (user_degrees[users] >= k) & (item_degrees[items] >= k)
        if still.sum() == kept.sum():
            return still
        kept = still


def latest_core(network: TextualInteractionNetwork, k: int, least: int) -> np.ndarray:
    """Rows of the k-core of the latest interactions, ascending: the shortest stretch of time that leaves ``least``.

    A small version of a large network that is as dense as a whole one, and the same for everybody. Of interactions of
    the same moment, those further up in the table count as later.

    A longer stretch contains every shorter one, and so does its core, because users and items that had k interactions
    still have them. The number of interactions in the core therefore never falls, and bisection finds the shortest.
    """
    if least < 1:
        raise InputError(f"A sample needs at least one interaction; {least} were asked for.")
    newest_first = np.argsort(-_moments(network), kind="stable")

    def core(length: int) -> np.ndarray:
        rows = newest_first[:length]
        return rows[k_core(network.users[rows], network.items[rows], k)]

    found = len(core(len(network)))
    if found < least:
        raise InputError(
            f"The {k}-core of this network has {found:,} interactions, fewer than the {least:,} asked for. "
            "Ask for fewer, or for a smaller k."
        )
    too_short, enough = least - 1, len(network)
    while enough - too_short > 1:
        middle = (too_short + enough) // 2
        if len(core(middle)) >= least:
            enough = middle
        else:
            too_short = middle
    return np.sort(core(enough))


def _moments(network: TextualInteractionNetwork) -> np.ndarray:
    """Milliseconds since 1970."""
    if network.times is None:
        raise InputError("The latest interactions need times: read the network with time='the column's name'.")
    untimed = np.flatnonzero(np.isnat(network.times)) + 1
    if len(untimed):
        raise InputError(
            f"The latest interactions need a time in every row; {len(untimed):,} have none (rows "
            f"{', '.join(map(str, untimed[:5]))}{', …' if len(untimed) > 5 else ''}, counted from 1)."
        )
    return network.times.astype(np.int64)
