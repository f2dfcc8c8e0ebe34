"""ReviewService: predictions, explanations, storage and verdicts, independent of HTTP. To be used from one thread."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from saft.classifier.estimator import SaftClassifier
from saft.online.explanation import Explanation, explain
from saft.online.live import Interaction, LiveNetwork, Prediction
from saft.server import audit, team
from saft.server.database import Database
from saft.server.mirror import Mirror
from saft.server.queue import Filter
from saft.server.reviews import Reviews
from saft.server.store import Entry, Store, StoredInteraction, StoredPrediction
from saft.server.team import Caller
from saft.writing import nan_to_null

ANYBODY = Caller()


class ReviewService:
    """
    Args:
        live: the network of a trained model; from now on it is the service's alone.
        database: file or PostgreSQL database in which incoming interactions and verdicts are stored.
        fingerprint: hash of the model; stored message states are reused only if this model computed them.
        suspicious: the class that reviewers look for; None means the rarest one.
        second_opinion: the share of interactions that two reviewers judge; None leaves it as it was.
        takes_over: from a service on the same database that goes on working while this one is made. Others write
            meanwhile, so what this start writes is not one transaction; an unfinished one is completed by the next.
    """

    def __init__(
        self,
        live: LiveNetwork,
        database: Database | Path | str,
        fingerprint: str,
        suspicious: str | None = None,
        second_opinion: float | None = None,
        takes_over: Database | None = None,
    ) -> None:
        self.live, self.fingerprint = live, fingerprint
        self.classes = [str(name) for name in live.classes]
        self.suspicious = self._suspicious(suspicious)
        self.database = database if isinstance(database, Database) else Database(database)
        try:
            if takes_over is None:
                self.database.serve_alone()
            with self.database.opening() if takes_over is None else nullcontext():
                self.store = Store(self.database, fingerprint, self.suspicious)
                self.mirror = Mirror(live, self.store, self._prediction_of)
                self.mirror.restore()
                self.reviews = Reviews(self.mirror, second_opinion)
                self.team = team.load(self.database)
            if takes_over is not None:
                self.database.take_lock_of(takes_over)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.database.close()

    def refresh(self) -> None:
        """Take over what other servers, and commands, have written."""
        self.mirror.catch_up()
        self.team = team.load(self.database)

    def predict(self, interactions: Sequence[Interaction]) -> list[Prediction]:
        return self.live.predict(interactions)

    def explain(self, asked: str | Interaction, by: Caller = ANYBODY) -> Explanation:
        found = explain(self.live, self.mirror.number_of(asked) if isinstance(asked, str) else asked)
        if not self.reviews.share:
            return found
        neighbours = []
        for near in found.neighbours:  # what a reviewer is to judge without knowing an opinion is not told here either
            [shown] = self._shown([near.number], by)
            neighbours.append(replace(near, interaction=shown.interaction))
        return replace(found, neighbours=neighbours)

    def add(self, interactions: Sequence[Interaction], by: Caller = ANYBODY) -> list[str]:
        """Store interactions; returns their keys. They are neighbours of everything predicted afterwards."""
        return self.keep(self.prepared(interactions), by)

    def prepared(self, interactions: Sequence[Interaction]) -> list[Entry]:
        """Interactions with predictions, to be kept; nothing is stored yet."""
        self.live.label_codes([one.label for one in interactions])  # an unknown class is refused before anything else
        return self.mirror.entries(interactions)

    def keep(self, entries: Sequence[Entry], by: Caller = ANYBODY, source: str | None = None) -> list[str]:
        """Store what was prepared, all of it or nothing."""
        with self.database.writing() as connection:
            keys = self.store.add(entries)
            audit.record(connection, by.name, "add", interactions=len(keys), source=source)
        self.mirror.catch_up()
        return keys

    def predict_again(self, keys: Sequence[str]) -> None:
        """Predict stored interactions anew, after something around them has changed."""
        known = [key for key in keys if self.store.find(key) is not None]
        rows = self.live.probabilities([self.live.ego_graph_of(self.mirror.number_of(key)) for key in known])
        for key, row in zip(known, rows, strict=True):
            self.store.update_prediction(key, self._prediction_of(row))

    def page(
        self, wanted: Filter, order: str, limit: int, after: str | None, by: Caller = ANYBODY
    ) -> tuple[list[StoredInteraction], str | None]:
        found, following = self.store.page(self.reviews.seen_by(wanted, by), order, limit, after)
        return self.reviews.shown(found, by), following

    def count(self, wanted: Filter, by: Caller = ANYBODY) -> int:
        return self.store.count(self.reviews.seen_by(wanted, by))

    def find(self, key: str, by: Caller = ANYBODY) -> StoredInteraction:
        """A stored interaction, or one of training with the model's current prediction."""
        number = self.mirror.number_of(key)
        stored = self.store.find(key)
        if stored is not None:
            return self.reviews.shown([stored], by)[0]
        prediction = self._prediction_of(self.live.probabilities([self.live.ego_graph_of(number)])[0])
        return StoredInteraction(key, self.live.interaction(number), prediction=prediction)

    def neighbours(self, key: str, most: int, by: Caller = ANYBODY) -> dict[str, list[StoredInteraction]]:
        """Side → the latest interactions of its user, of its item."""
        found = self.live.neighbours(self.mirror.number_of(key))
        return {side: self._shown(rows[::-1][:most].tolist(), by) for side, rows in found.items()}

    def key_of(self, number: int) -> str:
        return self.mirror.key_of(number)

    def _shown(self, numbers: Sequence[int], by: Caller) -> list[StoredInteraction]:
        keys = [self.key_of(number) for number in numbers]
        found = [
            self.store.find(key) or StoredInteraction(key, self.live.interaction(number))
            for key, number in zip(keys, numbers, strict=True)
        ]
        return self.reviews.shown(found, by)

    def _prediction_of(self, probabilities: np.ndarray) -> StoredPrediction:
        named = {name: float(share) for name, share in zip(self.classes, probabilities, strict=True)}
        best = max(named, key=lambda name: named[name])
        return StoredPrediction(best, named, named[best], named[self.suspicious])

    def _suspicious(self, wanted: str | None) -> str:
        if wanted is not None:
            return self.classes[int(self.live.label_codes([wanted])[0])]
        return self.classes[int(self.live.label_totals.argmin())]


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
