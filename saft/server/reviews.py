"""Reviews: verdicts, what is claimed, what is taken back, and who may see what of it. To be used from one thread."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy import true

from saft.data.network import HIDDEN
from saft.errors import InputError
from saft.server import audit, claims, ledger
from saft.server.claims import ClaimedError
from saft.server.mirror import Mirror, UnknownKeyError
from saft.server.queue import Filter
from saft.server.store import StoredInteraction
from saft.server.tables import verdicts
from saft.server.team import Caller, NotAllowedError

MOST_PREDICTED_AGAIN = 20  # interactions around a verdict whose prediction is made anew
MOST_AT_ONCE = 1000  # verdicts of one request


@dataclass(frozen=True)
class Judged:
    """What one request decided, or took back."""

    keys: list[str]
    around: list[str]  # unlabelled neighbours, whose predictions may change
    batch: str | None = None  # to take all of it back at once
    left_out: tuple[str, ...] = ()  # because somebody else is reviewing them


class Reviews:
    """
    Args:
        second_opinion: the share of interactions that two reviewers judge; None leaves it as it was.
    """

    def __init__(self, mirror: Mirror, second_opinion: float | None) -> None:
        self.mirror, self.store, self.database = mirror, mirror.store, mirror.store.database
        self.share = self._set_share(second_opinion)

    def judge(self, keys: Sequence[str], label: str, by: Caller, note: str | None = None) -> Judged:
        """The same verdict on some interactions. The last verdict on an interaction counts; all are kept."""
        live = self.mirror.live
        chosen = str(live.classes[int(live.label_codes([label])[0])])
        if not keys:
            return Judged([], [])
        numbers, batch = {key: self.mirror.number_of(key) for key in keys}, secrets.token_hex(8)
        with self.database.writing() as connection:
            serials = {key: self._stored(key, number) for key, number in numbers.items()}
            taken = claims.held_by_others(connection, serials.values(), by.viewer)
            free = [key for key in numbers if serials[key] not in taken]
            if not free:
                raise ClaimedError(*taken[serials[keys[0]]])
            ledger.judge(connection, [serials[key] for key in free], chosen, by.name, note, batch)
            claims.release(connection, [serials[key] for key in free])
            ids = [f"n{serials[key]}" for key in free]  # not t…, which another model gives to another row
            audit.record(connection, by.name, "verdict", ids=ids, label=chosen, note=note, batch=batch)
        around = self._changed([numbers[key] for key in free])
        return Judged(free, around, batch, tuple(key for key in numbers if key not in free))

    def judge_open(self, wanted: Filter, label: str, by: Caller, note: str | None = None) -> Judged:
        """The same verdict on everything that is asked for and waits for this reviewer."""
        wanted = self.seen_by(replace(wanted, labelled=False), by)
        count = self.store.count(wanted)
        if count > MOST_AT_ONCE:
            raise InputError(f"{count:,} interactions are open there; at most {MOST_AT_ONCE:,} can be judged at once.")
        found, _ = self.store.page(wanted, "oldest", MOST_AT_ONCE, None)
        return self.judge([one.key for one in found], label, by, note)

    def take_back(self, key: str, by: Caller) -> Judged:
        """Undo the last verdict that stands on an interaction: the one before it counts again, if there is one."""
        self.mirror.number_of(key)
        with self.database.writing() as connection:
            stored = self.store.find(key)
            stack = [] if stored is None else ledger.standing(connection, stored.serial)
            self._undo(connection, stack[-1:], by)
        return self._taken_back(stack[-1:])

    def take_back_batch(self, batch: str, by: Caller) -> Judged:
        """Undo all verdicts of one request that stand."""
        with self.database.writing() as connection:
            taken = ledger.standing_of_batch(connection, batch)
            if not taken:
                raise UnknownKeyError("Of that request nothing is left to take back.")
            self._undo(connection, taken, by)
        return self._taken_back(taken)

    def history(self, key: str, by: Caller) -> list[ledger.Verdict]:
        """All verdicts on an interaction; none for a reviewer who is still to give the second opinion on it."""
        self.mirror.number_of(key)
        stored = self.store.find(key)
        if stored is None or self._hidden([stored], by):
            return []
        with self.database.reading() as connection:
            return ledger.history(connection, stored.serial)

    def claim(
        self, wanted: Filter, order: str, count: int, held: Sequence[str], minutes: float, by: Caller
    ) -> list[StoredInteraction]:
        """Open interactions, or disputed ones, that nobody else gets for some minutes; those that are ``held`` are kept
        for longer."""
        wanted = self.seen_by(wanted if wanted.disputed else replace(wanted, labelled=False), by)
        with self.database.writing() as connection:
            mine = [found.serial for key in held if (found := self.store.find(key))]
            chosen = claims.claim(self.store, connection, wanted, order, count, mine, by.viewer, minutes)
        return self.shown(chosen, by)

    def release(self, key: str, by: Caller) -> None:
        """Leave an interaction that this reviewer has claimed to others."""
        self.mirror.number_of(key)
        with self.database.writing() as connection:
            stored = self.store.find(key)
            if stored is not None and stored.claimed_by == by.viewer:
                claims.release(connection, [stored.serial])

    def seen_by(self, wanted: Filter, by: Caller) -> Filter:
        """The same for this caller: what they have judged does not wait for them."""
        return replace(wanted, viewer=by.viewer) if self.share else wanted

    def shown(self, rows: Sequence[StoredInteraction], by: Caller) -> list[StoredInteraction]:
        """The rows as this caller may see them, with the labels that count."""
        hidden = self._hidden(rows, by)
        return [_blinded(row) if row.serial in hidden else self._with_label(row) for row in rows]

    def _with_label(self, row: StoredInteraction) -> StoredInteraction:
        label = self.mirror.label_of(row)
        return (
            row if label == row.interaction.label else replace(row, interaction=replace(row.interaction, label=label))
        )

    def _hidden(self, rows: Sequence[StoredInteraction], by: Caller) -> set[int]:
        """Serial numbers of those whose second opinion may be asked of this caller."""
        once = {row.serial for row in rows if row.waiting and row.opinions == 1}
        if not once:
            return once
        with self.database.reading() as connection:
            mine = ledger.judged_by(by.viewer)
            return once - {*connection.scalars(mine.where(verdicts.c.interaction.in_(once)))}

    def _stored(self, key: str, number: int) -> int:
        """The serial number of an interaction, which is put into the store if it is a row of training."""
        stored = self.store.find(key)
        if stored is None:
            live = self.mirror.live
            self.mirror.keep([number], live.probabilities([live.ego_graph_of(number)]))
            stored = self.store.find(key)
        if stored is None:
            raise UnknownKeyError(f"There is no interaction {key!r}.")
        return stored.serial

    def _undo(self, connection: Any, taken: Sequence[Any], by: Caller) -> None:
        others = {verdict.reviewer for verdict in taken} - {by.name}
        if others and not by.may("administer"):
            raise NotAllowedError("The last verdict is somebody else's. Who administers the team can take it back.")
        if taken:
            ledger.take_back(connection, taken, by.name)
            ids = [f"n{verdict.interaction}" for verdict in taken]
            audit.record(connection, by.name, "taken back", ids=ids, batch=taken[0].batch)

    def _taken_back(self, taken: Sequence[Any]) -> Judged:
        numbers = [self.mirror.number_of(f"n{verdict.interaction}") for verdict in taken]
        return Judged([self.mirror.key_of(number) for number in numbers], self._changed(numbers))

    def _changed(self, numbers: Sequence[int]) -> list[str]:
        """Bring new labels into the network; keys of open interactions around them."""
        self.mirror.catch_up()
        live = self.mirror.live
        around = [one for number in numbers[:MOST_PREDICTED_AGAIN] for one in live.neighbours(number).values()]
        near = np.unique(np.concatenate(around)) if around else np.empty(0, np.int64)
        silent = near[live.labels.values[near] == HIDDEN]
        return [self.mirror.key_of(number) for number in silent[:MOST_PREDICTED_AGAIN].tolist()]

    def _set_share(self, wanted: float | None) -> float:
        with self.database.writing() as connection:
            before = ledger.share(connection)
            if wanted is None or wanted == before:
                return before
            self.database.set_fact(ledger.SECOND_OPINION, repr(wanted))
            ledger.refresh_waiting(connection, true())
        return wanted


def _blinded(row: StoredInteraction) -> StoredInteraction:
    """As if nobody had judged it."""
    return replace(row, interaction=replace(row.interaction, label=None), reviewed=False, opinions=0, disputed=False)
