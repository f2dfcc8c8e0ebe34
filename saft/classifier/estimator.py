"""SaftClassifier: fit, predict, predict_proba, score, embed, save, load, in scikit-learn's manner."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import polars as pl

from saft.data.joining import join, known_rows
from saft.data.network import TextualInteractionNetwork
from saft.data.reading import read
from saft.data.splits import split
from saft.errors import InputError, InputWarning
from saft.keywords import SettingsKeywords
from saft.metrics import Scores, fit_temperature, score, softmax
from saft.settings import DEFAULT_PRESET, Settings, preset_settings

if TYPE_CHECKING:
    from saft.classifier.assembly import Assembly
    from saft.classifier.fit_report import FitReport
    from saft.classifier.fitting import Fitted, GoingOn
    from saft.learning.callbacks import Callback
    from saft.learning.loader import BatchLoader
    from saft.learning.neighbour_cache import OnProgress
    from saft.model.base import InteractionModel

Rows = TextualInteractionNetwork | Any  # a network, or whatever saft.read takes


class SaftClassifier:
    """Classifies interactions by their words and by the graph around them.

    Settings are keywords, see :class:`saft.settings.Settings` or ``saft train --help``. ``preset`` is ``fast``,
    ``balanced`` or ``best`` and chooses some of them; those that are given overrule it. What is kept are the settings.

    Attributes:
        network_: the network of training, with the labels of training and validation only; new rows are joined to it.
        classes_: label values, in the order of the columns of ``predict_proba``.
        assembly_: the parts that it is made of.
        temperature_: what logits are divided by, so that probabilities mean what they say.
    """

    assembly_: Assembly
    temperature_: float
    report_: FitReport

    def __init__(self, *, preset: str = DEFAULT_PRESET, **settings: Unpack[SettingsKeywords]) -> None:
        self.settings = Settings.of({**preset_settings(preset), **settings}, "SaftClassifier")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return self.settings.as_dict()

    def set_params(self, *, preset: str | None = None, **settings: Unpack[SettingsKeywords]) -> Self:
        if preset is None:
            self.settings = self.settings.changed(**settings)
        else:
            self.settings = self.settings.with_preset(preset, **settings)
        return self

    def fit(
        self,
        network: Rows,
        y: None = None,
        *,
        train: np.ndarray | None = None,
        valid: np.ndarray | None = None,
        out: str | Path | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 60.0,
        callbacks: Iterable[Callback] = (),
        going_on: GoingOn | None = None,
    ) -> Self:
        """Learn from the labelled interactions. If training diverges, that is an InputError, and the model is what was
        best before, if there was something.

        Args:
            network: a network, or whatever ``saft.read`` takes.
            y: has to stay None: labels are a column of the table.
            train, valid: rows to learn from and rows to stop early by; without them the labelled rows are divided by
                the settings' seed. The labels of all other rows are not used.
            out: folder that the model will be saved to: what would prevent that is said now and not after the training.
            checkpoint: folder of its own that training writes to as it goes, and continues from if there is something.
            going_on: from the weights of which model, as :func:`saft.classifier.retraining.retrain` does.
        """
        from saft.classifier.folder import claimed

        if y is not None:
            raise InputError(
                "fit takes one positional argument: labels are a column of the table. To choose the rows to learn from "
                "and to stop early by, name them: fit(network, train=rows, valid=rows)."
            )
        with nullcontext() if out is None else claimed(Path(out)):
            network = network if isinstance(network, TextualInteractionNetwork) else read(network)
            train, valid = self._parts(network, train, valid)
            kept = None if checkpoint is None else Path(checkpoint)
            self._fit(network, train, valid, callbacks, kept, checkpoint_seconds, going_on)
        return self

    def _fit(
        self,
        network: TextualInteractionNetwork,
        train: np.ndarray,
        valid: np.ndarray,
        callbacks: Iterable[Callback],
        checkpoint: Path | None,
        checkpoint_seconds: float,
        going_on: GoingOn | None,
    ) -> None:
        from saft.classifier.fitting import fit
        from saft.learning.divergence import DivergedError

        began = time.perf_counter()
        try:
            fitted = fit(
                self.settings, network, train, valid,
                callbacks=callbacks, checkpoint=checkpoint, checkpoint_seconds=checkpoint_seconds,
                going_on=going_on,
            )  # fmt: skip
        except DivergedError as error:
            if error.fitted is not None:
                self._keep(error.fitted, network, train, valid, began)
            raise
        self._keep(fitted, network, train, valid, began)

    def _keep(
        self, fitted: Fitted, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray, began: float
    ) -> None:
        """Calibrate what was trained, and let it be the model."""
        from saft.classifier.fit_report import FitReport
        from saft.learning.prediction import predict_logits

        logits = predict_logits(fitted.assembly.model, fitted.assembly.loader(), valid)
        self.temperature_ = fit_temperature(logits, network.labels[valid])
        # From now on neighbours may see the labels of both parts.
        self.assembly_ = fitted.assembly.with_network(network.showing(np.concatenate([train, valid])))
        seconds = time.perf_counter() - began
        self.report_ = FitReport.of(
            fitted.state, logits, network.labels[valid], self.temperature_, seconds, self.settings.trains_encoder
        )

    def predict(self, rows: Rows, on_progress: OnProgress | None = None) -> pl.DataFrame:
        """The rows as they came, with a column ``prediction`` and a column ``probability_…`` per class.

        Labels of the rows, if they have any, are not used. Rows that are known from training are recognised by user,
        item and text; all others are joined to the known network: their users and items may be new. ``on_progress`` is
        called with the number of rows that were finished since its last call.
        """
        rows = self._as_network(rows)
        probabilities = self.predict_proba(rows, on_progress)
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

    def predict_proba(self, rows: Rows, on_progress: OnProgress | None = None) -> np.ndarray:
        """(rows, classes) calibrated probabilities; columns as in ``classes_``."""
        return softmax(self._logits(self._as_network(rows), on_progress), self.temperature_)

    def evaluate(self, rows: Rows) -> Scores:
        """Scores on the labelled rows among these. Their labels are hidden while they are predicted."""
        rows = self._as_network(rows).labelled()
        if not len(rows):
            raise InputError("Nothing to evaluate: none of these rows has a label.")
        return score(self.label_codes(rows), self.predict_proba(rows))

    def score(self, rows: Rows) -> float:
        """Macro-F1 on the labelled rows among these, between 0 and 1."""
        return self.evaluate(rows).macro_f1

    def embed(self, rows: Rows, on_progress: OnProgress | None = None) -> np.ndarray:
        """(rows, ·) the input of the head, words and graph together; for search, clustering, other models."""
        from saft.learning.neighbour_cache import no_progress
        from saft.learning.prediction import represent

        loader, numbers = self.loader_for(self._as_network(rows))
        return represent(self.model_, loader, numbers, on_progress or no_progress)

    def report(self) -> FitReport:
        """How training went, and how far probabilities are off before and after calibration."""
        self._must_be_fitted()
        return self.report_

    def save(self, folder: str | Path, also: Callable[[Path], None] = lambda folder: None) -> None:
        """Write the model to a folder: all of it or nothing. ``also`` writes further files there."""
        from saft.classifier.storage import save

        self._must_be_fitted()
        save(self.assembly_, Path(folder), {"temperature": self.temperature_, "report": self.report_.to_json()}, also)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A model that was saved."""
        from saft.classifier.fit_report import FitReport
        from saft.classifier.storage import fitting_together, load

        assembly, learnt = load(Path(folder))
        classifier = cls(**assembly.settings.as_dict())
        classifier.assembly_ = assembly
        with fitting_together(Path(folder)):
            classifier.temperature_ = float(learnt["temperature"])
            classifier.report_ = FitReport.from_json(learnt["report"])
            if not 0 < classifier.temperature_ < math.inf:
                raise ValueError(f"the temperature is {classifier.temperature_}")
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
        return self.assembly_.featurizer.tokenizer

    def label_codes(self, rows: TextualInteractionNetwork) -> np.ndarray:
        """Labels of these rows by our classes; an error names the ones that training did not know."""
        return join(self.network_.take(np.empty(0, np.int64)), rows).labels

    def loader_for(self, rows: TextualInteractionNetwork) -> tuple[BatchLoader, np.ndarray]:
        """The known network with these rows joined to it, ready to be predicted, and the rows' numbers in it.

        Their labels are hidden. Rows that are known already keep their place; the others are read once, so that they
        are neighbours to each other as well.
        """
        from saft.learning.neighbour_cache import fill_cache

        self._must_be_fitted()
        rows = rows.hiding(np.arange(len(rows)))
        numbers, new = known_rows(self.network_, rows)
        joined = join(self.network_, rows.take(new)) if new.any() else self.network_
        numbers[new] = np.arange(len(self.network_), len(joined))
        loader = self.assembly_.loader(joined)
        fill_cache(self.model_, loader, numbers[new])
        return loader, numbers

    def _logits(self, rows: TextualInteractionNetwork, on_progress: OnProgress | None) -> np.ndarray:
        from saft.learning.neighbour_cache import no_progress
        from saft.learning.prediction import predict_logits

        loader, numbers = self.loader_for(rows)
        return predict_logits(self.model_, loader, numbers, on_progress or no_progress)

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


def load(folder: str | Path) -> SaftClassifier:
    """A model that was saved, e.g. by ``saft train``."""
    return SaftClassifier.load(folder)
