"""Original files in the layout of their collections, with made-up reviews."""

import gzip
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

Record = dict[str, object]
# One review as each collection writes it: (user, item, text, stars) → record.
RECORDS: dict[str, Callable[[str, str, str | None, int | None], Record]] = {
    "amazon": lambda user, item, text, stars: {
        "reviewerID": user, "asin": item, "reviewerName": "Ann", "helpful": [0, 2], "reviewText": text,
        "overall": None if stars is None else float(stars), "summary": "so so", "unixReviewTime": 1_305_763_200,
        "reviewTime": "05 19, 2011",
    },
    "goodreads": lambda user, item, text, stars: {
        "user_id": user, "book_id": item, "review_id": "15708d", "rating": stars, "review_text": text,
        "date_added": "Fri Jul 14 10:02:10 -0700 2017", "date_updated": "Fri Jan 27 13:49:40 -0800 2017",
        "read_at": "", "started_at": "", "n_votes": 0, "n_comments": 0,
    },
    "google_local": lambda user, item, text, stars: {
        "user_id": user, "name": "Ann", "time": 1_609_459_199_999, "rating": stars, "text": text,
        "pics": [{"url": ["there"]}], "resp": None, "gmap_id": item,
    },
}  # fmt: skip


def write_lines(path: Path, records: list[Record]) -> Path:
    """JSON lines, gzipped if the name says so."""
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture
def everybody_on_everything() -> list[tuple[str, str]]:
    """Five users who reviewed five items each, and one who reviewed one: the last is not in the 5-core."""
    return [*product([f"u{n}" for n in range(5)], [f"i{n}" for n in range(5)]), ("passer-by", "i0")]
