"""Figures of a network, against counts made by hand, and a picture that can be looked at.

Covers: data.plot.
"""

import numpy as np
import pytest
from matplotlib.image import imread

import saft
from saft.data.summary import count_components


def test_the_summary_of_a_small_network_is_what_one_counts_by_hand(rows):
    rows.append({"user": "eve", "item": "sofa", "text": "bought it again", "label": "bad", "time": 1_600_000_000})
    summary = saft.read(rows).summary()
    assert (summary.interactions, summary.users, summary.items, summary.components) == (5, 3, 3, 2)
    assert summary.classes == {"bad": 2, "good": 2}
    assert summary.unlabelled == 1
    assert (summary.user_degree.mean, summary.user_degree.median, summary.user_degree.largest) == (5 / 3, 1, 3)
    assert summary.repeated_pairs == 1
    assert summary.repeated_texts == 1
    assert (summary.words.median, summary.words.largest) == (3, 4)
    assert (summary.first_time, summary.last_time) == ("2017-07-14", "2020-09-13")
    assert "unlabelled                1 (20.0%)" in str(summary)


def test_users_and_items_without_interactions_in_a_view_are_not_counted(rows):
    summary = saft.read(rows).take(np.array([2])).summary()
    assert (summary.users, summary.items, summary.components) == (1, 1, 1)


def test_components_agree_with_a_literal_flood_fill():
    rng = np.random.default_rng(0)
    users, items = rng.integers(60, size=50), rng.integers(60, size=50)
    edges = {(("user", u), ("item", i)) for u, i in zip(users.tolist(), items.tolist(), strict=True)}
    left, count = {node for edge in edges for node in edge}, 0
    while left:
        reached = {left.pop()}
        while grown := {node for edge in edges if reached & set(edge) for node in edge} - reached:
            reached |= grown
        left -= reached
        count += 1
    assert count_components(users, items) == count


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_picture_is_written_whole(tmp_path, suffix):
    saft.demo_network(300).hiding(np.arange(50)).plot(tmp_path / f"network.{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == [f"network.{suffix}"]
    if suffix == "png":
        assert imread(tmp_path / "network.png").std() > 0.1  # not a blank page


def test_a_network_of_one_interaction_or_of_many_classes_can_be_drawn(tmp_path, rows):
    saft.read(rows).take(np.array([2])).plot(tmp_path / "one.png")
    many = [{"user": k, "item": k, "text": "t" * k, "label": f"class {k} of a long name indeed"} for k in range(40)]
    saft.read(many[1:]).plot(tmp_path / "many.png")
    assert len(list(tmp_path.iterdir())) == 2


def test_unknown_picture_formats_are_refused(tmp_path):
    with pytest.raises(saft.InputError, match=r"has to end in \.png"):
        saft.demo_network(200).plot(tmp_path / "network.docx")
    assert not list(tmp_path.iterdir())
