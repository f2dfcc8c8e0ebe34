"""Folders with an encoder may bring code of their own, which transformers would offer to run. saft runs none of it."""

from __future__ import annotations

import json
from pathlib import Path

from saft.errors import InputError

_DESCRIBE = ("config.json", "tokenizer_config.json", "processor_config.json")


def refuse_code(folder: Path) -> None:
    """InputError if there is Python in this folder, or if a description in it asks for some (``auto_map``)."""
    for path in sorted(folder.glob("*")):
        if path.suffix.lower() in (".py", ".pyc", ".pyd", ".so"):
            raise InputError(f"{path} is code. saft runs no code of an encoder or a model: remove it, or use another.")
        if path.name in _DESCRIBE and path.is_file():
            _refuse_named_code(path)


def _refuse_named_code(path: Path) -> None:
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}).") from error
    if not isinstance(described, dict) or "auto_map" in described:
        raise InputError(f"{path} names code of its own (auto_map), and saft runs none: choose another encoder.")
