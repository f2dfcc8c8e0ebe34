"""SaftClassifier: fit, predict, predict_proba, score, embed, save, load, in scikit-learn's manner."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from saft.data.joining import join, match_ids
from saft.data.network import TextualInteractionNetwork
from saft.data.reading import read
from saft.data.splits import split
from saft.errors import InputError, InputWarning
from saft.metrics import Scores, calibration_error, fit_temperature, score, softmax
from saft.settings import Settings

if TYPE_CHECKING:
    from saft.learning.loader import Feed
    from saft.learning.prediction import Tell
    from saft.learning.trainer import EpochRecord, Standing, Watcher
    from saft.model.base import InteractionModel

Rows = TextualInteractionNetwork | Any  # a network, or whatever saft.read takes


@dataclass(frozen=True)
class Report:
    """How training went, on the validation part."""

    epochs: int
    best_epoch: int
    interrupted: bool
    seconds: float
    temperature: float
    calibration_error_before: float  # between 0 and 1
    calibration_error_after: float
    valid_macro_f1: float  # between 0 and 1
    valid_micro_f1: float
    history: list[EpochRecord]

    def __str__(self) -> str:
        stopped = " (interrupted)" if self.interrupted else ""
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        return (
            f"{epochs}{stopped} in {self.seconds:.0f} s, best after epoch {self.best_epoch}. Validation: "
            f"Macro-F1 {self.valid_macro_f1:.1%}, Micro-F1 {self.valid_micro_f1:.1%}, calibration error "
            f"{self.calibration_error_before:.1%} before, {self.calibration_error_after:.1%} after temperature "
            f"{self.temperature:.2f}."
        )


class SaftClassifier:
    """Classifies interactions by their words and by the graph around them.

    Settings are keywords, see :class:`saft.settings.Settings` or ``saft train --help``.

    Attributes:
        network_: the network of training, with the labels of training and validation only; new rows are joined to it.
        classes_: label values, in the order of the columns of ``predict_proba``.
        assembly_: the parts that it is made of.
        temperature_: what logits are divided by, so that probabilities mean what they say.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings.of(settings, "SaftClassifier")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return self.settings.as_dict()

    def set_params(self, **settings: Any) -> Self:
        self.settings = self.settings.changed(**settings)
        return self

    def fit(
        self,
        network: Rows,
        train: np.ndarray | None = None,
        valid: np.ndarray | None = None,
        *,
        checkpoint: Path | None = None,
        checkpoint_seconds: float = 60.0,
        watcher: Watcher | None = None,
    ) -> Self:
        """Learn from the labelled interactions.

        Args:
            network: a network, or whatever ``saft.read`` takes.
            train, valid: rows to learn from and rows to stop early by; without them the labelled rows are divided by
                the settings' seed. The labels of all other rows are not looked at.
            checkpoint: file that training writes as it goes, and continues from if it is there.
        """
        from saft.classifier.assembly import Assembly
        from saft.learning.prediction import predict_logits
        from saft.learning.trainer import Trainer

        began = time.perf_counter()
        network = network if isinstance(network, TextualInteractionNetwork) else read(network)
        train, valid = self._parts(network, train, valid)
        if watcher is not None:
            watcher.says("Tokenising texts, computing structure")
        self.assembly_ = Assembly.fresh(self.settings, network.showing(train))
        feed = self.assembly_.feed()
        trainer = Trainer(
            self.model_,
            feed,
            train,
            valid,
            network.labels[valid],
            self.settings,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            watcher=watcher,
        )
        standing = trainer.run()
        logits = predict_logits(self.model_, feed, valid)
        self.report_ = self._reported(standing, logits, network.labels[valid], time.perf_counter() - began)
        self.assembly_.network = network.showing(np.concatenate([train, valid]))  # from now on neighbours may see both
        return self

    def predict(self, rows: Rows, tell: Tell | None = None) -> pl.DataFrame:
        """The rows as they came, with a column ``prediction`` and a column ``probability_…`` per class.

        Labels of the rows, if they have any, are not looked at. Rows that are known from training are recognised by
        user, item and text; all others are joined to the known network: their users and items may be new. ``tell``
        hears how many rows are done.
        """
        rows = self._as_network(rows)
        probabilities = self.predict_proba(rows, tell)
        best = self.classes_.gather(pl.Series(probabilities.argmax(axis=1)))
        added = [best.alias("prediction")] + [
            pl.Series(f"probability_{name}", probabilities[:, place])
            for place, name in enumerate(self.classes_.cast(pl.String))
        ]
        frame = rows.to_frame()
        replaced = [column.name for column in added if column.name in frame.columns]
        if replaced:
            warnings.warn(f"The columns {', '.join(replaced)} are replaced by new ones.", InputWarning, stacklevel=2)
        return frame.drop(replaced).hstack(added)

    def predict_proba(self, rows: Rows, tell: Tell | None = None) -> np.ndarray:
        """(rows, classes) calibrated probabilities; columns as in ``classes_``."""
        return softmax(self._logits(self._as_network(rows), tell), self.temperature_)

    def evaluate(self, rows: Rows) -> Scores:
        """Scores on the labelled rows among these. Their labels are hidden while they are predicted."""
        rows = self._as_network(rows).labelled()
        if not len(rows):
            raise InputError("Nothing to evaluate: none of these rows has a label.")
        return score(self.label_codes(rows), self.predict_proba(rows))

    def score(self, rows: Rows) -> float:
        """Macro-F1 on the labelled rows among these, between 0 and 1."""
        return self.evaluate(rows).macro_f1

    def embed(self, rows: Rows, tell: Tell | None = None) -> np.ndarray:
        """(rows, ·) what the model makes of words and graph before it decides; for search, clustering, other models."""
        from saft.learning.prediction import represent, silent

        feed, numbers = self.feed_for(self._as_network(rows))
        return represent(self.model_, feed, numbers, tell or silent)

    def report(self) -> Report:
        """How training went, and how far probabilities are off before and after calibration."""
        self._must_be_fitted()
        return self.report_

    def save(self, folder: str | Path, also: Callable[[Path], None] = lambda folder: None) -> None:
        """Write the model to a folder: all of it or nothing. ``also`` writes further files there."""
        from saft.classifier.storage import save

        self._must_be_fitted()
        save(self.assembly_, Path(folder), {"temperature": self.temperature_, "report": asdict(self.report_)}, also)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A model that was saved."""
        from saft.classifier.storage import load
        from saft.learning.trainer import EpochRecord

        classifier = cls()
        classifier.assembly_, learnt = load(Path(folder))
        classifier.settings = classifier.assembly_.settings
        classifier.temperature_ = learnt["temperature"]
        history = [EpochRecord(**record) for record in learnt["report"]["history"]]
        classifier.report_ = Report(**{**learnt["report"], "history": history})
        return classifier

    @property
    def network_(self) -> TextualInteractionNetwork:
        return self.assembly_.network

    @property
    def classes_(self) -> pl.Series:
        return self.assembly_.network.classes

    @property
    def model_(self) -> InteractionModel:
        return self.assembly_.model

    @property
    def tokenizer_(self) -> Any:
        return self.assembly_.reader.tokenizer

    def label_codes(self, rows: TextualInteractionNetwork) -> np.ndarray:
        """Labels of these rows by our classes; an error names the ones that training did not know."""
        return join(self.network_.take(np.empty(0, np.int64)), rows).labels

    def feed_for(self, rows: TextualInteractionNetwork) -> tuple[Feed, np.ndarray]:
        """The known network with these rows joined to it, ready to be predicted, and the rows' numbers in it.

        Their labels are hidden. Rows that are known already keep their place; the others are read once, so that they
        are neighbours to each other as well.
        """
        from saft.learning.prediction import refresh

        self._must_be_fitted()
        rows = rows.hiding(np.arange(len(rows)))
        numbers, new = known_rows(self.network_, rows)
        joined = join(self.network_, rows.take(new)) if new.any() else self.network_
        numbers[new] = np.arange(len(self.network_), len(joined))
        feed = self.assembly_.feed(joined)
        refresh(self.model_, feed, numbers[new])
        return feed, numbers

    def _logits(self, rows: TextualInteractionNetwork, tell: Tell | None) -> np.ndarray:
        from saft.learning.prediction import predict_logits, silent

        feed, numbers = self.feed_for(rows)
        return predict_logits(self.model_, feed, numbers, tell or silent)

    def _as_network(self, rows: Rows) -> TextualInteractionNetwork:
        self._must_be_fitted()
        return rows if isinstance(rows, TextualInteractionNetwork) else read(rows, labelled=False)

    def _must_be_fitted(self) -> None:
        if not hasattr(self, "assembly_"):
            raise InputError("This model has not been trained: call fit first, or load a saved one.")

    def _parts(
        self, network: TextualInteractionNetwork, train: np.ndarray | None, valid: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        if network.n_classes < 2:
            raise InputError("Training needs labels of at least two classes.")
        if train is None:
            share = self.settings.valid_share
            parts = split(network, fractions=(1 - share, share, 0.0), seed=self.settings.seed)
            train, valid = parts.train, parts.valid
        train, valid = np.asarray(train), np.asarray([] if valid is None else valid, dtype=np.int64)
        if not len(train) or not network.is_labelled[np.concatenate([train, valid])].all():
            raise InputError("Training needs labelled rows to learn from, and validation rows that are labelled too.")
        return train, valid

    def _reported(self, standing: Standing, logits: np.ndarray, labels: np.ndarray, seconds: float) -> Report:
        """Calibrates, and says what that brought."""
        self.temperature_ = fit_temperature(logits, labels)
        scores = score(labels, softmax(logits, self.temperature_))
        return Report(
            epochs=standing.epoch,
            best_epoch=standing.best_epoch,
            interrupted=standing.interrupted,
            seconds=seconds,
            temperature=self.temperature_,
            calibration_error_before=calibration_error(labels, softmax(logits)),
            calibration_error_after=scores.calibration_error,
            valid_macro_f1=scores.macro_f1,
            valid_micro_f1=scores.micro_f1,
            history=standing.history,
        )


def load(folder: str | Path) -> SaftClassifier:
    """A model that was saved, e.g. by ``saft train``."""
    return SaftClassifier.load(folder)


def known_rows(known: TextualInteractionNetwork, rows: TextualInteractionNetwork) -> tuple[np.ndarray, np.ndarray]:
    """(row number of each in ``known``, -1 where there is none; which have none).

    The same user, item and text mean the same interaction; where that occurs several times, the first is the first.
    """
    nothing = np.full(len(rows), -1, dtype=np.int64)
    users = match_ids(known.user_ids, rows.user_ids)[rows.users]
    items = match_ids(known.item_ids, rows.item_ids)[rows.items]
    likely = (users >= 0) & (items >= 0)
    if not likely.any():
        return nothing, ~likely

    def keyed(users: np.ndarray, items: np.ndarray, texts: pl.Series) -> pl.DataFrame:
        frame = pl.DataFrame({"user": users, "item": items, "text": texts})
        return frame.with_columns(time=pl.int_range(pl.len()).over("user", "item", "text")).with_row_index("row")

    asked = keyed(users, items, rows.texts)
    # Usually few are asked of many: only interactions of their users can be among them.
    candidates = np.flatnonzero(np.isin(known.users, users[likely]))
    have = keyed(known.users[candidates], known.items[candidates], known.texts.gather(pl.Series(candidates)))
    found = asked.join(have, on=["user", "item", "text", "time"], how="left", maintain_order="left")["row_right"]
    numbers = found.fill_null(-1).cast(pl.Int64).to_numpy().copy()
    numbers[numbers >= 0] = candidates[numbers[numbers >= 0]]
    return numbers, numbers < 0
