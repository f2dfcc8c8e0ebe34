"""``saft train --tune N``: search the settings that matter most with Optuna, by validation Macro-F1."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from saft.classifier.estimator import SaftClassifier
from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError, install_command
from saft.settings import NO_ENCODER, NODES, Settings

if TYPE_CHECKING:
    from optuna import Trial


Draw = Callable[["Trial"], Any]  # how Optuna draws a setting

# What is searched where an encoder is trained.
SPACE: dict[str, Draw] = {
    "learning_rate": lambda trial: trial.suggest_float("learning_rate", 2e-5, 5e-4, log=True),
    "head_learning_rate": lambda trial: trial.suggest_float("head_learning_rate", 3e-4, 5e-3, log=True),
    "messages": lambda trial: trial.suggest_categorical("messages", ["content", "lga", "gau"]),
    "nodes": lambda trial: trial.suggest_categorical("nodes", list(NODES)),
    "rounds": lambda trial: trial.suggest_int("rounds", 1, 3),
    "delta": lambda trial: trial.suggest_float("delta", 0.0, 2.0, step=0.5),
    "lam": lambda trial: trial.suggest_float("lam", 0.0, 2.0, step=0.5),
    "neighbours": lambda trial: trial.suggest_int("neighbours", 2, 20, log=True),
    "dropout": lambda trial: trial.suggest_float("dropout", 0.0, 0.4, step=0.1),
    "class_weights": lambda trial: trial.suggest_categorical("class_weights", [False, True]),
}


def space(fixed: dict[str, Any]) -> dict[str, Draw]:
    """What is searched with these settings fixed. A regression has no rates: only what it reads can be chosen."""
    settings = Settings.of(fixed)
    if settings.trains_encoder:
        return {name: draw for name, draw in SPACE.items() if name not in fixed}
    by_sentences = settings.encoder != NO_ENCODER and settings.sentences and settings.words
    switches = ["alike_texts"] if by_sentences else []
    if by_sentences or (settings.ngrams and settings.words):
        switches += ["labels", "neighbour_words"]
    return {name: _switch(name) for name in switches if name not in fixed}


def useful_trials(fixed: dict[str, Any], trials: int) -> int:
    """At most so many: a few switches have few combinations."""
    return trials if Settings.of(fixed).trains_encoder else min(trials, len(_first_trials(fixed)))


def _first_trials(fixed: dict[str, Any]) -> list[dict[str, Any]]:
    """What is tried first, in this order: the defaults; of switches, every combination."""
    searched = list(space(fixed))
    if Settings.of(fixed).trains_encoder:
        return [{name: getattr(Settings(), name) for name in searched}]
    return [dict(zip(searched, chosen, strict=True)) for chosen in product([True, False], repeat=len(searched))]


def _switch(name: str) -> Draw:
    return lambda trial: trial.suggest_categorical(name, [True, False])


def tune(
    network: TextualInteractionNetwork,
    train: np.ndarray,
    valid: np.ndarray,
    fixed: dict[str, Any],
    trials: int,
    on_trial: Callable[[int, float, dict[str, Any]], None] = lambda number, score, settings: None,
) -> dict[str, Any]:
    """The best settings of ``trials`` trainings, including the fixed ones; ``on_trial`` is called after each."""
    try:
        import optuna
    except ImportError as error:
        raise InputError(f"Tuning needs Optuna. Install it with: {install_command('tune')}") from error
    if not len(valid):
        raise InputError("Tuning compares models on validation rows, and there are none: raise valid_share.")
    searched = space(fixed)
    if not searched:
        raise InputError("There is nothing to search: every setting that could be tuned is given. Leave out --tune.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=fixed.get("seed", 0), n_startup_trials=5)
    )

    def objective(trial: Trial) -> float:
        settings = fixed | {name: draw(trial) for name, draw in searched.items()}
        score = SaftClassifier(**settings).fit(network, train=train, valid=valid).report().valid_macro_f1
        on_trial(trial.number + 1, score, settings)
        return score

    for settings in _first_trials(fixed):
        study.enqueue_trial(settings)
    study.optimize(objective, n_trials=useful_trials(fixed, trials))
    return fixed | study.best_params
