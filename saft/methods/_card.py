"""The card of a method, and the interface of all methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from saft.errors import InputError, did_you_mean
from saft.settings import HELP, Settings

if TYPE_CHECKING:
    import numpy as np

    from saft.data.network import TextualInteractionNetwork
    from saft.learning.callbacks import Callback


class InteractionClassifier(Protocol):
    """Learns from some interactions of a network and predicts others.

    The network is handed over whole: texts and topology of all interactions are visible, only labels of
    ``train`` and ``valid`` are used, the latter for nothing but model selection, such as when to stop.
    ``predict_proba`` takes the network of ``fit`` or one that begins with it; rows after it are new interactions.

    Attributes:
        n_parameters_: trained numbers, once fitted.
    """

    n_parameters_: int

    def fit(self, network: TextualInteractionNetwork, train: np.ndarray, valid: np.ndarray) -> Self: ...
    def predict_proba(self, network: TextualInteractionNetwork, interactions: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Method:
    """Title, source and settings of a method, and how to make it.

    Args:
        title: as a row of a table.
        paper: where it comes from.
        build: (settings, callbacks, **options) → the method, unfitted.
        settings: those that define it; they take precedence over settings for all methods.
        options: choices of its own, the default first.
        reads_with_encoder: whether it uses the setting ``encoder``.
    """

    title: str
    paper: str
    build: Callable[..., InteractionClassifier]
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reads_with_encoder: bool = True

    def settings_with(self, shared: Mapping[str, Any], own: Mapping[str, Any]) -> Settings:
        """The settings it runs with: those for all methods, then what defines it, then those given for it alone."""
        return Settings.of({**shared, **self.settings, **{name: own[name] for name in own if name in HELP}})

    def make(
        self, shared: Mapping[str, Any], own: Mapping[str, Any] | None = None, callbacks: Iterable[Callback] = ()
    ) -> InteractionClassifier:
        """The method, unfitted. ``own`` holds settings and options for it alone."""
        own = own or {}
        chosen = {name: values[0] for name, values in self.options.items()}
        for name, value in own.items():
            if name in HELP:
                continue
            if name not in self.options:
                known = [*self.options, *HELP]
                raise InputError(f"{self.title} has no setting {name!r}.{did_you_mean(name, known)}")
            if value not in self.options[name]:
                choices = ", ".join(self.options[name])
                raise InputError(f"{name} of {self.title} cannot be {value!r}. Known are {choices}.")
            chosen[name] = value
        return self.build(self.settings_with(shared, own), callbacks, **chosen)
