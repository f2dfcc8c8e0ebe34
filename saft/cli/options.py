"""Options that several commands share, written once: column names, and every setting of the classifier."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from saft.errors import InputError
from saft.settings import (
    DEFAULT_PRESET,
    PRESET_HELP,
    TYPES,
    DataSettings,
    ModelSettings,
    SamplingSettings,
    Settings,
    TrainingSettings,
    preset_settings,
)

Option = tuple[Any, Any]  # (annotation, default)


def _input(kind: type, text: str) -> Option:
    return Annotated[kind | None, typer.Option(help=text, rich_help_panel="Input")], None


_DATA_HELP = "Interactions are read from these CSV, TSV, JSON lines or Parquet files, also .gz or .zst."
Data = Annotated[list[str], typer.Argument(help=_DATA_HELP, show_default=False)]
Model = Annotated[Path, typer.Argument(help="The trained model is read from this folder.", show_default=False)]
COLUMNS: dict[str, Option] = {
    **{
        role: _input(str, f"The column with the {role} has this name; by default it is guessed.")
        for role in ("user", "item", "text", "label", "time", "split")
    },
    **{
        f"{side}_table": _input(Path, f"Attributes of {side}s are read from this table: one row per {side}.")
        for side in ("user", "item")
    },
    "encoding": _input(str, "Text files have this encoding, e.g. latin-1; by default it is UTF-8."),
}
_GROUPS = {DataSettings: "data", ModelSettings: "model", SamplingSettings: "sampling", TrainingSettings: "training"}


def _settings_options() -> dict[str, Option]:
    options: dict[str, Option] = {}
    panels = {setting.name: f"Settings: {title}" for group, title in _GROUPS.items() for setting in fields(group)}
    for setting in fields(Settings):
        choices = setting.metadata["choices"]
        text = setting.metadata["help"] + (f" One of {', '.join(choices)}." if choices else "")
        default = str(setting.default).lower() if isinstance(setting.default, bool) else str(setting.default)
        option = typer.Option(help=f"{text} ({default})", show_default=False, rich_help_panel=panels[setting.name])
        # No default here: the configuration file may set what the command line does not.
        options[setting.name] = (Annotated[TYPES[setting.name] | None, option], None)
    return options


def taking(into: str, options: dict[str, Option]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose argument ``into`` is a dict becomes one with these options; what is not given is left out."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)

        @wraps(command)
        def expanded(**given: Any) -> None:
            collected = {name: value for name in options if (value := given.pop(name)) is not None}
            command(**given, **{into: collected})

        kept = [parameter for parameter in signature.parameters.values() if parameter.name != into]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in options.items()
        ]
        kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in kept]
        expanded.__signature__ = signature.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
        expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in [*kept, *added]}
        return expanded

    return decorate


SETTINGS = _settings_options()
_PRESETS = " ".join(f"{name}: {text}" for name, text in PRESET_HELP.items())
Preset = Annotated[
    str | None,
    typer.Option(help=f"Settings to begin with; others overrule it. {_PRESETS} ({DEFAULT_PRESET})", show_default=False),
]


@dataclass(frozen=True)
class Chosen:
    """Settings as a command was given them.

    Args:
        flags, of_file: settings of the command line, and of the configuration file, which they overrule.
        preset: of the command line; it takes the place of the file's and overrules the file's settings.
        preset_of_file: its settings overrule it.
    """

    flags: dict[str, Any]
    of_file: dict[str, Any] = field(default_factory=dict)
    preset: str | None = None
    preset_of_file: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """All that are chosen; the others have their defaults."""
        if self.preset is not None:
            return self.with_preset(self.preset)
        return preset_settings(self.preset_of_file or DEFAULT_PRESET) | self.of_file | self.flags

    def with_preset(self, preset: str) -> dict[str, Any]:
        """The same with this preset on the command line."""
        return self.of_file | preset_settings(preset) | self.flags


def settings_from(config: Path | None, flags: dict[str, Any], preset: str | None = None) -> Chosen:
    """Settings of the command line and of the configuration file."""
    if config is None:
        return Chosen(flags, preset=preset)
    try:
        values = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{config} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{config} is not a TOML file: {error}.") from error
    preset_of_file = values.pop("preset", None)
    Settings.of(values, str(config))
    return Chosen(flags, values, preset, preset_of_file)
