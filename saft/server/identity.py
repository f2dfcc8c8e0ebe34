"""What an interaction is: a digest of its user, item, text and time, the same for every model, table and machine."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

from saft.online.live import Interaction


def digest_of(interaction: Interaction) -> str:
    """sha256 of canonical bytes. Label and attributes do not count: they are said about it, it is not they."""
    parts = [interaction.user, interaction.item, interaction.text, canonical_time(interaction.time)]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def canonical_time(time: str | None) -> str | None:
    """UTC to the second, as rows of training have it; what cannot be read as a time stays as it is."""
    if time is None:
        return None
    try:
        read = datetime.fromisoformat(time)
        read = read.astimezone(UTC).replace(tzinfo=None) if read.tzinfo else read
    except (ValueError, OverflowError):
        return time
    return read.isoformat(timespec="seconds")


def draw_of(digest: str) -> float:
    """A number in [0, 1) that belongs to the interaction: whether it is among a share of all is no accident."""
    return int(digest[:13], 16) / 16**13
