"""About how long a training takes, and how long it would take with a quicker preset.

What takes time is measured on this machine with a sample of the table (:func:`measure`, about a second); the rest is
multiplication (:class:`Estimate`). Linear models cost by the rows that they are fitted to. A layer of the encoder costs
by the token: once per text where it is not trained, unless the store has its output already; once per row and epoch,
there and back, where it is.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from saft.data.network import TextualInteractionNetwork
from saft.features.backbones import telling_layers
from saft.features.fold_regressions import MANY, STRENGTHS
from saft.features.folds import FOLDS, fold_of_rows
from saft.features.ngrams import MOST_FITTED, NgramModel
from saft.settings import NO_ENCODER, Settings

if TYPE_CHECKING:
    from saft.features.tokens import Tokens
    from saft.model.encoder import TextEncoder

SAMPLE = 200  # rows whose n-grams are fitted, and texts that are looked up in the store
TIMED, TIMES = 16, 3  # texts that are run through a layer, and how often

MULTIPLIED = 1000  # rows of a matrix like those of sentence vectors

# Linear models without sentence vectors, in multiples of what the n-grams of the sample take: to begin with, per row
# fitted, per row read. Measured on 200 to 10,000 interactions of the marketplace.
BEGIN, PER_FITTED, PER_READ = 2.0, 0.0019, 0.0002
SHARE_SOLVED = 0.65  # of the rows, in a regression on sentence vectors: one or two folds are left out
EVALUATIONS = 25  # until such a regression is solved, measured on as many interactions
WIDTH_OF_CONTEXT = (
    5 / 3
)  # of a text's vectors and two means of others, in multiples of a text's vectors at three depths
BESIDE_LAYERS = 1.25  # messages, the head and the optimiser's step, in multiples of the layers that are trained
ADDED_TOKENS, STRUCTURE_TOKENS = 4, 2  # proxy, user, item, known labels; distance, centrality: read with the text
REMOVALS, MOST_REMOVED_FROM = 7, 2_000  # the report predicts so many rows anew without each part that the model reads
BYTES = 2  # of a number in the store


@dataclass(frozen=True)
class Task:
    """How many rows there are in the network, to learn from, to stop early by and to score; how many distinct texts."""

    rows: int
    train: int
    valid: int
    scored: int
    texts: int


@dataclass(frozen=True)
class Pace:
    """Seconds on this machine, with texts of this table.

    Args:
        ngrams: that n-grams of SAMPLE rows take to be read and fitted.
        forward: that a token takes through a layer of the encoder.
        both_ways: that it takes through a layer that is trained, and back.
        evaluation: that a regression on sentence vectors takes to evaluate its loss, per row.
        layers: of the encoder that are used.
        width: numbers in the state of a token.
        tokens: of a text, on average.
        stored: number of frozen layers → share of the texts whose output the store has.
        room: bytes that the store may take.
    """

    ngrams: float
    forward: float = 0.0
    both_ways: float = 0.0
    evaluation: float = 0.0
    layers: int = 0
    width: int = 0
    tokens: float = 0.0
    stored: Mapping[int, float] = field(default_factory=dict)
    room: float = float("inf")


@dataclass(frozen=True)
class Estimate:
    """Seconds of a training with these settings, part by part."""

    settings: Settings
    task: Task
    pace: Pace

    def seconds(self, trainings: int = 1) -> float:
        """So many trainings, and the report of the last. What the first has read of the texts, the others find."""
        return trainings * (self.linear_models() + self.training()) + self.reading() + self.report()

    def linear_models(self) -> float:
        fitted = min(self.task.train, MOST_FITTED)
        found = self.pace.ngrams * (BEGIN + fitted * PER_FITTED + self.task.rows * PER_READ)
        if self.frozen and self.settings.sentences and self.settings.words:
            once = fold_regressions(fitted) * SHARE_SOLVED * fitted * EVALUATIONS * self.pace.evaluation
            found += once * (1 + WIDTH_OF_CONTEXT * self.settings.neighbour_words)
        return found

    def reading(self) -> float:
        """Texts through the frozen layers, as far as that was not done before."""
        texts = self.task.texts * (1 - self.pace.stored.get(self.frozen, 0.0))
        return texts * self.pace.tokens * self.frozen * self.pace.forward

    def training(self) -> float:
        """Every epoch: training rows there and back; there only: validation rows, and as many others for messages."""
        settings, task = self.settings, self.task
        if not settings.trains_encoder:
            return 0.0
        others = task.rows - task.train - task.valid if settings.passes_messages else 0
        texts_per_row = 1
        if settings.passes_messages and not settings.cache_neighbours:
            texts_per_row += 2 * settings.sample_size
        trained = task.train * max(settings.least_steps // max(-(-task.train // settings.batch_size), 1), 1)
        epoch = trained * texts_per_row * self.there_and_back + (task.valid + min(others, task.train)) * self.there
        after = task.valid + (task.rows if settings.passes_messages else 0)  # calibration, states of the best weights
        return settings.epochs * epoch + after * self.there

    def report(self) -> float:
        predicted = self.task.scored + REMOVALS * min(self.task.scored, MOST_REMOVED_FROM)
        return predicted * self.there if self.settings.trains_encoder else 0.0

    @property
    def frozen(self) -> int:
        """Layers that are not trained."""
        if self.settings.encoder == NO_ENCODER:
            return 0
        if not self.settings.trained_layers and not self.settings.layers:
            return telling_layers(self.pace.layers)
        return self.pace.layers - min(self.settings.trained_layers, self.pace.layers)

    @property
    def there(self) -> float:
        """A text through the layers above the frozen ones."""
        return BESIDE_LAYERS * self._above * self.pace.forward + self._below

    @property
    def there_and_back(self) -> float:
        return BESIDE_LAYERS * self._above * self.pace.both_ways + self._below

    @property
    def _above(self) -> float:
        added = ADDED_TOKENS + STRUCTURE_TOKENS * self.settings.structure_tokens if self.settings.fuses else 0
        return (self.pace.tokens + added) * (self.pace.layers - self.frozen)

    @property
    def _below(self) -> float:
        """A text through the frozen layers once more, where the store has no room for their output."""
        needed = self.task.texts * self.pace.tokens * self.pace.width * BYTES
        return 0.0 if needed <= self.pace.room else self.pace.tokens * self.frozen * self.pace.forward


def fold_regressions(rows: int) -> int:
    """How many regressions a model of sentence vectors takes: for every strength, without a fold and without two."""
    without = FOLDS * (FOLDS + 1) // 2 if rows < MANY else FOLDS + 1
    return without * len(STRENGTHS) + FOLDS + 1


def duration_line(
    network: TextualInteractionNetwork, task: Task, chosen: Settings, quicker: Mapping[str, Settings], trainings: int
) -> str | None:
    """One sentence for the user; None if it cannot be said. It never fails: no training should end for its sake.

    Args:
        quicker: preset → settings with it in the place of the chosen one, the most accurate first.
    """
    try:
        measured = measure(network, [chosen, *quicker.values()])
        found = {name: Estimate(settings, task, measured).seconds(trainings) for name, settings in quicker.items()}
        return sentence(Estimate(chosen, task, measured).seconds(trainings), found, trainings)
    except Exception:  # whatever is wrong with the encoder, training is about to say it
        return None


def sentence(own: float, quicker: Mapping[str, float], trainings: int = 1) -> str:
    """``About 6 minutes; --preset balanced would take about 3 minutes, fast 10 seconds.``

    Args:
        own: seconds.
        quicker: preset → seconds with it; those that are not much quicker are not mentioned.
    """
    line = f"About {in_words(own)}" + (f" for {trainings} trainings" if trainings > 1 else "")
    worth_it = {name: in_words(other) for name, other in quicker.items() if other < 0.8 * own}
    named = [f"{name} {words}" for name, words in worth_it.items() if words != in_words(own)]
    if not named:
        return f"{line}."
    first, *rest = named
    return f"{line}; --preset {', '.join([first.replace(' ', ' would take about ', 1), *rest])}."


def in_words(duration: float) -> str:
    """Rounded as roughly as it is known."""
    if duration < 50:
        return f"{max(5 * round(duration / 5), 5)} seconds"
    minutes = duration / 60
    if minutes < 50:
        rounded = round(minutes) if minutes < 10 else 5 * round(minutes / 5)
        return "a minute" if rounded == 1 else f"{rounded} minutes"
    hours = minutes / 60
    rounded_hours = round(2 * hours) / 2 if hours < 5 else round(hours)
    return "an hour" if rounded_hours == 1 else f"{rounded_hours:g} hours"


def measure(network: TextualInteractionNetwork, wanted: list[Settings]) -> Pace:
    """The pace of this machine with this table; of the encoder that these settings name, if they name one."""
    labelled = np.flatnonzero(network.is_labelled)
    rows = network.take(np.random.default_rng(0).permutation(labelled)[:SAMPLE])
    folds = fold_of_rows(len(rows), 0)
    ngrams = _timed(lambda: NgramModel.fit(rows.texts, rows.labels, rows.n_classes, folds, 0))
    reading = [settings for settings in wanted if settings.encoder != NO_ENCODER]
    if not reading:
        return Pace(ngrams)
    return _with_encoder(ngrams, network, rows.texts, reading)


def _with_encoder(ngrams: float, network: TextualInteractionNetwork, sample: pl.Series, wanted: list[Settings]) -> Pace:
    """The settings name the same encoder, and train more or fewer of its layers."""
    from saft.features.tokens import enough_tokens, load_tokenizer, tokenise
    from saft.learning.frozen_layers import FrozenLayers
    from saft.learning.frozen_store import frozen_folder, limit_bytes
    from saft.model.encoder import TextEncoder

    settings = wanted[0]
    encoder = TextEncoder.load(settings.encoder, settings.layers or None, precision=settings.precision)
    tokenizer = load_tokenizer(settings.encoder)
    # Cut as training will cut them, so that they are found in the store.
    longest = settings.max_length or min(enough_tokens(network.texts, tokenizer), encoder.longest_text)
    tokens = tokenise(sample if settings.words else pl.repeat("", len(sample), eager=True), tokenizer, longest)
    forward, both_ways = _through_a_layer(encoder, tokens)
    stored, columns = {}, 0
    for trained in sorted({one.trained_layers for one in wanted}, reverse=True):  # fewer may cut layers off
        cut = TextEncoder(encoder.model, settings.layers or None, trained, settings.precision)
        columns = max(columns, len(cut.depths) * cut.width)
        if cut.frozen and frozen_folder().is_dir():
            stored[cut.frozen] = FrozenLayers(cut).share_stored(tokens)
    return Pace(
        ngrams,
        forward,
        both_ways,
        _evaluation(columns, network.n_classes) if columns else 0.0,
        encoder.n_layers,
        encoder.width,
        float(tokens.lengths.mean()),
        stored,
        min(limit_bytes(), _free()),
    )


def _evaluation(columns: int, n_classes: int) -> float:
    """Seconds per row that a regression on so many columns takes to evaluate its loss and its gradient."""
    import torch

    rows, weights = torch.ones(MULTIPLIED, columns), torch.ones(columns, n_classes)
    errors = rows @ weights
    return _timed(lambda: (rows @ weights, rows.T @ errors), TIMES) / (TIMES * MULTIPLIED)


def _through_a_layer(encoder: TextEncoder, tokens: Tokens) -> tuple[float, float]:
    """Seconds that a token takes through a layer, and through it and back; of texts of usual length."""
    import torch

    by_length = np.argsort(tokens.lengths, kind="stable")
    first = max(len(by_length) - TIMED, 0) // 2
    ids, mask = map(torch.from_numpy, tokens.padded(by_length[first : first + TIMED]))
    with torch.no_grad():
        states = encoder.train(False).embed(ids, mask)

    def there() -> None:
        with torch.no_grad():
            encoder.run_layer(0, states, mask)

    def there_and_back() -> None:
        encoder.run_layer(0, states.clone().requires_grad_(), mask).sum().backward()  # type: ignore[no-untyped-call]

    there()  # what happens only once should not count
    per_token = TIMES * max(int(mask.sum()), 1)
    # The mean, not the quickest: a busy machine will be busy later as well.
    return _timed(there, TIMES) / per_token, _timed(there_and_back, TIMES) / per_token


def _free() -> float:
    from saft.writing import cache_folder

    existing = next(folder for folder in (cache_folder(), *cache_folder().absolute().parents) if folder.is_dir())
    return float(shutil.disk_usage(existing).free)


def _timed(work: Callable[[], Any], times: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - began
