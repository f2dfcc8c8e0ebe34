"""``saft train --tune N``: search the settings that matter most with Optuna, by validation Macro-F1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from saft.classifier.estimator import SaftClassifier
from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError
from saft.settings import NODES, Settings

if TYPE_CHECKING:
    from optuna import Trial


# What is searched: setting → how Optuna draws it.
SPACE: dict[str, Callable[[Trial], Any]] = {
    "learning_rate": lambda trial: trial.suggest_float("learning_rate", 2e-5, 5e-4, log=True),
    "head_learning_rate": lambda trial: trial.suggest_float("head_learning_rate", 3e-4, 5e-3, log=True),
    "messages": lambda trial: trial.suggest_categorical("messages", ["lga", "gau"]),
    "nodes": lambda trial: trial.suggest_categorical("nodes", list(NODES)),
    "rounds": lambda trial: trial.suggest_int("rounds", 1, 3),
    "delta": lambda trial: trial.suggest_float("delta", 0.0, 2.0, step=0.5),
    "lam": lambda trial: trial.suggest_float("lam", 0.0, 2.0, step=0.5),
    "neighbours": lambda trial: trial.suggest_int("neighbours", 2, 20, log=True),
    "dropout": lambda trial: trial.suggest_float("dropout", 0.0, 0.4, step=0.1),
    "class_weights": lambda trial: trial.suggest_categorical("class_weights", [False, True]),
}


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
        raise InputError("Tuning needs Optuna. Install it with: pip install 'saft[tune]'") from error
    if not len(valid):
        raise InputError("Tuning compares models on validation rows, and there are none: raise valid_share.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=fixed.get("seed", 0), n_startup_trials=5)
    )

    def objective(trial: Trial) -> float:
        settings = fixed | {name: draw(trial) for name, draw in SPACE.items() if name not in fixed}
        score = SaftClassifier(**settings).fit(network, train=train, valid=valid).report().valid_macro_f1
        on_trial(trial.number + 1, score, settings)
        return score

    defaults = Settings().as_dict()
    study.enqueue_trial({name: defaults[name] for name in SPACE if name not in fixed})  # is tried first
    study.optimize(objective, n_trials=trials)
    return fixed | study.best_params
