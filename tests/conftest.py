"""What all tests share."""

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded at test time

ROWS = [
    {"user": "ann", "item": "lamp", "text": "bright, and cheap", "label": "good", "time": 1_500_000_000},
    {"user": "bob", "item": "lamp", "text": 'it said "new"', "label": "bad", "time": 1_500_000_100},
    {"user": "ann", "item": "rug", "text": "line one\nline two", "label": None, "time": 1_500_000_200},
    {"user": "ann", "item": "lamp", "text": "bought it again", "label": "good", "time": 1_500_000_300},
]


@pytest.fixture
def rows() -> list[dict]:
    """Four interactions with a comma, quotes, a line break, a missing label and a repeated pair."""
    return [dict(row) for row in ROWS]


@pytest.fixture
def shared_data() -> Path:
    """The real networks beside the checkout, for tests that measure on them."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real networks are not beside this checkout (../shared/data)")
    return folder
