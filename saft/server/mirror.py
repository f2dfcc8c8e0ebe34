"""Mirror: the live network holds what the store holds, in the order of the store, whichever server wrote it.

Everything that is added or judged goes to the store first and comes into the network from there. So servers that share
a database, and a server before and after its restart, have the same network and give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from saft.data.joining import match_classes
from saft.data.network import HIDDEN
from saft.errors import InputError
from saft.online.live import Interaction, LiveNetwork
from saft.server.identity import digest_of
from saft.server.store import Entry, Store, StoredInteraction, StoredPrediction

NO_STATE = np.empty(0, np.float16)  # of rows of training: the model has what their neighbours hear
AT_ONCE = 50  # interactions taken over in one transaction: others wait for it


class UnknownKeyError(InputError):
    """No interaction has this key."""


class Mirror:
    """
    Args:
        live: the network of the model that serves.
        predicted: probabilities → what is stored of them.
    """

    def __init__(self, live: LiveNetwork, store: Store, predicted: Callable[[np.ndarray], StoredPrediction]) -> None:
        self.live, self.store, self._predicted = live, store, predicted
        network = live.classifier.network_
        self.known = network.is_labelled | network.withheld_rows  # the analyst has their labels
        self._numbers: dict[int, int] = {}  # serial number → number in the live network
        self._serials: dict[int, tuple[int, bool]] = {}  # and back, with whether it came in while serving
        self._classes: dict[str, bool] = {}  # label → whether the model has this class
        self._last, self._last_verdict = 0, 0  # of those that were taken over

    def restore(self) -> None:
        """Everything that is stored; and rows of training whose label nobody knows, which are to be judged."""
        self.catch_up()
        if not self.store.same_model:
            waiting = [row for row in np.flatnonzero(~self.known).tolist() if row not in self._serials]
            # All at once, by the classifier: there may be very many.
            classifier = self.live.classifier
            rows = classifier.predict_proba(classifier.network_.take(np.array(waiting, np.int64)))
            for first in range(0, len(waiting), AT_ONCE):
                self.keep(waiting[first : first + AT_ONCE], rows[first : first + AT_ONCE])
            self.catch_up()
        self.store.mark_current()

    def catch_up(self) -> None:
        """Take over what was stored since the last time, by this server or another one."""
        while self.store.last_serial() > self._last:
            with self.store.database.writing():
                rows = self.store.since(self._last, AT_ONCE)
                self._take_over(rows)
                self._last = rows[-1].serial if rows else self.store.last_serial()
        while (last := self.store.last_verdict()) > self._last_verdict:
            last = min(last, self._last_verdict + AT_ONCE)
            for row in self.store.judged_between(self._last_verdict, last):
                if row.serial not in self._numbers:  # it only waited, in the table of another model, which serves too
                    self._take_over([row])
                self._relabel(row)
            self._last_verdict = last

    def keep(self, numbers: Sequence[int], rows: np.ndarray) -> None:
        """Put rows of training into the store, with these probabilities."""
        interactions = [self.live.interaction(number) for number in numbers]
        places = [self._twins(one).index(number) for one, number in zip(interactions, numbers, strict=True)]
        self.store.add(
            [
                Entry(one, self._predicted(row), NO_STATE, number, place, bool(self.known[number]))
                for one, row, number, place in zip(interactions, rows, numbers, places, strict=True)
            ]
        )

    def entries(self, interactions: Sequence[Interaction]) -> list[Entry]:
        """New interactions, ready to be stored."""
        probabilities = self.live.probabilities(self.live.ego_graphs(interactions))
        states = self.live.message_states(interactions)
        return [
            Entry(one, self._predicted(row), state, occurrence=len(self._twins(one)))
            for one, row, state in zip(interactions, probabilities, states, strict=True)
        ]

    def unknown(self, interactions: Sequence[Interaction]) -> list[Interaction]:
        """Those that are not in the network yet. If one is there twice, two of the same are known."""
        self.catch_up()
        seen: dict[str, int] = {}
        new = []
        for one in interactions:
            digest = digest_of(one)
            seen[digest] = seen.get(digest, 0) + 1
            if seen[digest] > len(self._twins(one, added=True)):
                new.append(one)
        return new

    def number_of(self, key: str) -> int:
        number = self._number_of(key)
        if number is None:
            self.catch_up()  # another server may have just given it out
            number = self._number_of(key)
        if number is None:
            raise UnknownKeyError(f"There is no interaction {key!r}.")
        return number

    def key_of(self, number: int) -> str:
        serial, came = self._serials.get(number, (None, False))
        return f"n{serial}" if came or number >= self.live.n_known else f"t{number}"

    def label_of(self, row: StoredInteraction) -> str | None:
        """The label that counts: of the last verdict, else of the table of training, else the one it came with."""
        label = row.interaction.label
        if row.reviewed or row.number is None:
            return label
        network = self.live.classifier.network_
        code = int(network.labels[row.number])
        return label if code == HIDDEN else str(network.classes[code])

    def knows_class(self, label: str) -> bool:
        """Whether the model that serves has this class."""
        if label not in self._classes:
            code = match_classes(self.live.classes, pl.Series([label], dtype=pl.String))[0]
            self._classes[label] = bool(code >= 0)
        return self._classes[label]

    def _number_of(self, key: str) -> int | None:
        kind, rest = key[:1], key[1:]
        if not (rest.isascii() and rest.isdigit() and len(rest) < 19):
            return None
        if kind == "t":
            return int(rest) if int(rest) < self.live.n_known else None
        return self._numbers.get(int(rest)) if kind == "n" else None

    def _take_over(self, rows: Sequence[StoredInteraction]) -> None:
        said = self._said_of([row for row in rows if row.state is None])
        self.store.say(list(said.items()))
        added, states = [], []
        for row in rows:
            entry = said.get(row.serial)
            number = row.number if entry is None else entry.number
            if number is not None:
                self._numbers[row.serial], self._serials[number] = number, (row.serial, row.came)
            elif entry is not None or row.state is not None:
                state = np.frombuffer(row.state or b"", np.float16) if entry is None else entry.state
                added.append(row)
                states.append(state.reshape(self.live.message_shape))
        if added:
            numbers = self.live.add([self._with_class(row.interaction) for row in added], np.stack(states))
            for row, number in zip(added, numbers.tolist(), strict=True):
                self._numbers[row.serial], self._serials[number] = number, (row.serial, row.came)

    def _said_of(self, rows: Sequence[StoredInteraction]) -> dict[int, Entry]:
        """What this model says of interactions that were stored while another one served, by serial number.

        Rows that only waited in the table of another model, where nobody has judged them, are none of its business.
        """
        trained = {row.serial: number for row in rows if (number := self._row_of_training(row)) is not None}
        new = [row for row in rows if row.serial not in trained and (row.came or row.reviewed)]
        found = dict(zip([row.serial for row in new], self.entries([row.interaction for row in new]), strict=True))
        probabilities = self.live.probabilities([self.live.ego_graph_of(number) for number in trained.values()])
        for (serial, number), row in zip(trained.items(), probabilities, strict=True):
            one, known = self.live.interaction(number), bool(self.known[number])
            found[serial] = Entry(one, self._predicted(row), NO_STATE, number, known=known)
        return found

    def _row_of_training(self, row: StoredInteraction) -> int | None:
        twins = self._twins(row.interaction)
        return twins[row.occurrence] if row.occurrence < len(twins) else None

    def _twins(self, one: Interaction, added: bool = False) -> list[int]:
        """Numbers of rows of training that are the same interaction; with ``added`` also those that came in."""
        digest, sides = digest_of(one), self.live.sides
        codes = {name: side.codes.get(getattr(one, name)) for name, side in sides.items()}
        if any(code is None for code in codes.values()):
            return []
        between = self.live.evidence.between({name: code for name, code in codes.items() if code is not None})
        candidates = [number for number in between.tolist() if added or number < self.live.n_known]
        return [number for number in candidates if digest_of(self.live.interaction(number)) == digest]

    def _relabel(self, row: StoredInteraction) -> None:
        number = self._numbers[row.serial]
        label = self.label_of(row)
        if label is not None and not self.knows_class(label):
            if number < self.live.n_known:
                return  # its table of training knows better what has become of the class
            label = None
        self.live.label(number, label)

    def _with_class(self, one: Interaction) -> Interaction:
        """Without its label if that is of a class which the model does not have."""
        return one if one.label is None or self.knows_class(one.label) else replace(one, label=None)
