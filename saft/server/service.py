"""ReviewService: predictions, explanations, storage and verdicts, independent of HTTP. To be used from one thread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from saft.classifier.estimator import SaftClassifier
from saft.data.network import HIDDEN
from saft.errors import InputError
from saft.online.explanation import Explanation, explain
from saft.online.live import Interaction, LiveNetwork, Prediction
from saft.server.store import Filter, Store, StoredInteraction, StoredPrediction
from saft.writing import nan_to_null

MOST_PREDICTED_AGAIN = 20  # interactions around a verdict whose prediction is made anew


class ReviewService:
    """
    Args:
        classifier: trained.
        database: file in which incoming interactions and verdicts are stored.
        fingerprint: hash of the model; stored message states are reused only if this model computed them.
        suspicious: the class that reviewers look for; None means the rarest one.
    """

    def __init__(
        self, classifier: SaftClassifier, database: Path, fingerprint: str, suspicious: str | None = None
    ) -> None:
        self.live = LiveNetwork(classifier)
        self.classes = [str(name) for name in self.live.classes]
        self.suspicious = self._suspicious(suspicious)
        self.store = Store(database, fingerprint)
        self._numbers: dict[int, int] = {}  # serial → number in the live network
        self._serials: dict[int, int] = {}
        self._restore()

    def close(self) -> None:
        self.store.close()

    def predict(self, interactions: Sequence[Interaction]) -> list[Prediction]:
        return self.live.predict(interactions)

    def explain(self, asked: str | Interaction) -> Explanation:
        return explain(self.live, self.number_of(asked) if isinstance(asked, str) else asked)

    def add(self, interactions: Sequence[Interaction]) -> list[str]:
        """Store interactions; returns their keys. They are neighbours of everything predicted afterwards."""
        self.live.label_codes([one.label for one in interactions])  # an unknown class is refused before anything else
        predictions = [self._prediction_of(one.probabilities) for one in self.live.predict(interactions)]
        states = self.live.message_states(interactions)
        keys = self.store.add(interactions, predictions, states, [None] * len(interactions))
        for key, number in zip(keys, self.live.add(interactions, states).tolist(), strict=True):
            self._know(int(key[1:]), number)
        return keys

    def add_verdict(self, key: str, label: str | None, reviewer: str | None = None) -> list[str]:
        """Store a reviewer's verdict; returns keys of unlabelled neighbours, whose predictions may change."""
        number = self.number_of(key)
        code = int(self.live.label_codes([label])[0])
        if self.store.find(key) is None:
            self._keep([number], self.live.probabilities([self.live.ego_graph_of(number)]))
        self.store.add_verdict(key, None if code == HIDDEN else self.classes[code], reviewer)
        self.live.label(number, self.find(key).interaction.label)
        around = np.concatenate(list(self.live.neighbours(number).values()))
        open_ones = [self.key_of(int(one)) for one in around if self.live.labels.values[one] == HIDDEN]
        return open_ones[:MOST_PREDICTED_AGAIN]

    def predict_again(self, keys: Sequence[str]) -> None:
        """Predict stored interactions anew, after something around them has changed."""
        known = [key for key in keys if self.store.find(key) is not None]
        rows = self.live.probabilities([self.live.ego_graph_of(self.number_of(key)) for key in known])
        for key, row in zip(known, rows, strict=True):
            self.store.update_prediction(key, self._prediction_of(row))

    def page(
        self, wanted: Filter, order: str, limit: int, after: str | None
    ) -> tuple[list[StoredInteraction], str | None]:
        return self.store.page(wanted, order, limit, after)

    def find(self, key: str) -> StoredInteraction:
        """A stored interaction, or one of training with the model's current prediction."""
        number = self.number_of(key)
        stored = self.store.find(key)
        if stored is not None:
            return stored
        prediction = self._prediction_of(self.live.probabilities([self.live.ego_graph_of(number)])[0])
        return StoredInteraction(key, self.live.interaction(number), prediction=prediction)

    def neighbours(self, key: str, most: int) -> dict[str, list[StoredInteraction]]:
        """Side → the latest interactions of its user, of its item."""
        found = self.live.neighbours(self.number_of(key))
        return {side: [self._neighbour(int(number)) for number in rows[::-1][:most]] for side, rows in found.items()}

    def number_of(self, key: str) -> int:
        kind, rest = key[:1], key[1:]
        number = -1
        if rest.isascii() and rest.isdigit() and len(rest) < 19:
            number = int(rest) if kind == "t" else self._numbers.get(int(rest), -1) if kind == "n" else -1
        if not 0 <= number < (self.live.n_known if kind == "t" else len(self.live)):
            raise UnknownKeyError(f"There is no interaction {key!r}.")
        return number

    def key_of(self, number: int) -> str:
        return f"t{number}" if number < self.live.n_known else f"n{self._serials[number]}"

    def _neighbour(self, number: int) -> StoredInteraction:
        key = self.key_of(number)
        return self.store.find(key) or StoredInteraction(key, self.live.interaction(number))

    def _prediction_of(self, probabilities: np.ndarray) -> StoredPrediction:
        named = {name: float(share) for name, share in zip(self.classes, probabilities, strict=True)}
        best = max(named, key=lambda name: named[name])
        return StoredPrediction(best, named, named[best], named[self.suspicious])

    def _suspicious(self, wanted: str | None) -> str:
        if wanted is not None:
            return self.classes[int(self.live.label_codes([wanted])[0])]
        return self.classes[int(self.live.label_totals.argmin())]

    def _restore(self) -> None:
        """Add stored interactions to the live network, and unlabelled rows of training to the store, for review."""
        shape = self.live.message_shape
        for portion in self.store.added():
            interactions = [one for _, one, _ in portion]
            if self.store.same_model:
                states = np.stack([np.frombuffer(state, np.float16).reshape(shape) for *_, state in portion])
            else:
                states = self.live.message_states(interactions)
                self.store.update_states([serial for serial, *_ in portion], states)
            numbers = self.live.add(interactions, states)
            for (serial, *_), number in zip(portion, numbers.tolist(), strict=True):
                self._know(serial, number)
        if not self.store.same_model:
            waiting = np.flatnonzero(self.live.labels.values[: self.live.n_known] == HIDDEN)
            # All at once, by the classifier: there may be very many.
            classifier = self.live.classifier
            rows = classifier.predict_proba(classifier.network_.take(waiting)) if len(waiting) else np.empty((0, 0))
            for first in range(0, len(waiting), 1000):
                self._keep(waiting[first : first + 1000].tolist(), rows[first : first + 1000])
        for number, label in self.store.decided():
            self.live.label(number, label)
        self.store.mark_current()

    def _keep(self, numbers: list[int], rows: np.ndarray) -> None:
        """Put rows of training into the store, with these probabilities."""
        interactions = [self.live.interaction(number) for number in numbers]
        self.store.add(
            interactions,
            [self._prediction_of(row) for row in rows],
            np.empty((len(numbers), 0), np.float16),  # the model has what neighbours hear of its rows of training
            numbers,
        )

    def _know(self, serial: int, number: int) -> None:
        self._numbers[serial] = number
        self._serials[number] = serial


class UnknownKeyError(InputError):
    """No interaction has this key."""


def model_facts(classifier: SaftClassifier) -> dict[str, Any]:
    """Classes, size of the network, and scores on the validation rows, None if there were none."""
    network, report = classifier.network_, classifier.report()
    facts = {
        "classes": [str(name) for name in classifier.classes_],
        "interactions": len(network),
        "users": network.n_users,
        "items": network.n_items,
        "labelled": int(network.is_labelled.sum()),
        "valid_macro_f1": report.valid_macro_f1,
        "valid_micro_f1": report.valid_micro_f1,
        "calibration_error": report.calibration_error_after,
    }
    return nan_to_null(facts)  # without validation rows there are no scores
