"""Limits on the size, number and duration of requests. Each is a flag of ``saft serve``."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _limit(default: float, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Limits:
    body_kb: int = _limit(1024, "Requests of more than this many kilobytes are refused.")
    upload_kb: int = _limit(65_536, "Uploaded files of more than this many kilobytes are refused.")
    rows: int = _limit(256, "Requests with more interactions than this are refused.")
    text_length: int = _limit(20_000, "Texts of more than this many characters are refused.")
    waiting: int = _limit(512, "Requests are refused while this many others are waiting.")
    seconds: float = _limit(30.0, "Requests that take longer than this many seconds fail.")
    body_seconds: float = _limit(30.0, "Requests whose body takes longer than this many seconds to arrive are refused.")
    header_seconds: float = _limit(10.0, "Connections are closed if a request takes this many seconds to begin.")
    connections: int = _limit(256, "Connections beyond this number are closed.")
    gather_ms: float = _limit(3.0, "Requests that arrive within this many milliseconds are predicted together.")
    claim_minutes: float = _limit(10.0, "A reviewer who claims an interaction has it for this many minutes.")
    batch_size: int = _limit(64, "Requests are gathered only until they hold this many interactions.")


HELP: dict[str, str] = {limit.name: limit.metadata["help"] for limit in fields(Limits)}
