"""Limits: what a server takes, and how long it works on it. Each is a flag of ``saft serve``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _limit(default: float, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Limits:
    body_kb: int = _limit(1024, "Largest request, in kilobytes.")
    rows: int = _limit(256, "Most interactions in one request.")
    text_length: int = _limit(20_000, "Longest text, in characters.")
    waiting: int = _limit(512, "Most requests waiting at the same time.")
    seconds: float = _limit(30.0, "Longest time that a request may take.")
    gather_ms: float = _limit(3.0, "How long requests are gathered to be answered together, in milliseconds.")
    batch_size: int = _limit(64, "Most interactions that are predicted together.")


HELP: dict[str, str] = {limit.name: limit.metadata["help"] for limit in fields(Limits)}
