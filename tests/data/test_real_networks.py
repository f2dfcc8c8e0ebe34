"""The real networks, when they are at hand: figures as their README states them, and the command that prints them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import saft

# file → users, items, interactions, class counts, words (median), mean degrees, components, share of repeated pairs
FIGURES = {
    "musical_instruments": (1429, 900, 10254, {1: 217, 2: 250, 3: 772, 4: 2083, 5: 6932}, 54, 7.2, 11.4, 1, 0.0),
    "rent_the_runway_fit": (
        4931, 3171, 42611, {"fit": 30765, "large": 6277, "small": 5569}, 49, 8.6, 13.4, 1, 0.003,
    ),
    "rent_the_runway_rating": (
        4931, 3171, 42609, {1: 182, 2: 683, 3: 3081, 4: 12256, 5: 26407}, 49, 8.6, 13.4, 1, 0.003,
    ),
    "rotten_tomatoes": (3457, 1084, 46921, {"fresh": 28507, "rotten": 18414}, 20, 13.6, 43.3, 6, 0.004),
    "naver_movies": (97253, 14730, 712383, {1: 73237, 10: 305843}, 6, 7.3, 48.4, 121, 0.008),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_a_real_network_loads_with_the_figures_its_readme_states(shared_data, name):
    users, items, interactions, classes, words, user_degree, item_degree, components, repeated = FIGURES[name]
    summary = saft.read(shared_data / f"{name}.parquet").summary()
    assert (summary.users, summary.items, summary.interactions) == (users, items, interactions)
    assert classes.items() <= summary.classes.items()
    assert sum(summary.classes.values()) == interactions
    assert summary.words.median == words
    assert round(summary.user_degree.mean, 1) == user_degree
    assert round(summary.item_degree.mean, 1) == item_degree
    assert summary.components == components
    assert round(summary.repeated_pairs / interactions, 3) == repeated


@pytest.mark.parametrize("name", FIGURES)
def test_inspect_prints_the_figures_its_readme_states(shared_data, name):
    users, items, interactions, classes, words, user_degree, item_degree, components, _ = FIGURES[name]
    command = [Path(sys.executable).parent / "saft", "inspect", shared_data / f"{name}.parquet"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    rows = dict(re.findall(r"│ +(.+?) +│ +(.+?) +│", printed))
    assert (rows["users"], rows["items"], rows["interactions"]) == (f"{users:,}", f"{items:,}", f"{interactions:,}")
    assert rows["interactions per user"].startswith(f"mean {user_degree},")
    assert rows["interactions per item"].startswith(f"mean {item_degree},")
    assert rows["connected components"] == str(components)
    assert f"median {words}," in rows["words per text"]
    assert all(rows[str(label)].split()[0] == f"{count:,}" for label, count in classes.items())
