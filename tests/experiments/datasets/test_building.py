"""Original files become the network that their card describes, and a broken file is told by its name and line."""

import gzip
from dataclasses import replace

import pytest

import saft
from experiments.datasets import Counts, building, find
from experiments.datasets.building import build
from tests.experiments.datasets.conftest import RECORDS, write_lines

CARDS = {"amazon": "amazon_apps", "goodreads": "goodreads_children", "google_local": "google_vermont"}
SECONDS = {"amazon": 1_305_763_200, "goodreads": 1_500_051_730, "google_local": 1_609_459_199}
REVIEWS = [
    ("ann", "lamp", " bright\n", 5),
    ("ann", "rug", None, 4),
    ("bob", "rug", "soft", None),
    ("bob", "lamp", "dim", 1),
    ("ann", "lamp", "bought it again", 5),
]


def card_for(layout: str, **changes):
    """The card of a real network, for the five reviews above."""
    return replace(find(CARDS[layout]), **{"files": ("reviews.json.gz",), "k_core": 1, "empty_texts": "keep"} | changes)


def write_reviews(layout: str, path, reviews=REVIEWS) -> None:
    write_lines(path, [RECORDS[layout](*review) for review in reviews])


@pytest.mark.parametrize("layout", CARDS)
@pytest.mark.parametrize("name", ["reviews.json.gz", "reviews.json"])
def test_every_layout_becomes_the_same_table(tmp_path, layout, name):
    write_reviews(layout, tmp_path / name)
    table = build(card_for(layout, files=(name,), counts=Counts(2, 2, 4, 3)), tmp_path)
    assert table.columns == ["user", "item", "text", "label", "time"]
    assert table["user"].to_list() == ["ann", "ann", "bob", "ann"]  # one has no stars
    assert table["item"].to_list() == ["lamp", "rug", "lamp", "lamp"]
    assert table["text"].to_list() == ["bright", "", "dim", "bought it again"]
    assert table["label"].to_list() == [5, 4, 1, 5]
    assert table["time"].to_list() == [SECONDS[layout]] * 4


def test_interactions_without_a_text_go_if_the_card_says_so(tmp_path):
    write_reviews("google_local", tmp_path / "reviews.json.gz")
    table = build(card_for("google_local", empty_texts="drop", counts=Counts(2, 1, 3, 2)), tmp_path)
    assert table["text"].to_list() == ["bright", "dim", "bought it again"]


def test_only_the_core_is_left_and_texts_are_dropped_before_it(tmp_path):
    write_reviews("amazon", tmp_path / "reviews.json.gz")
    table = build(card_for("amazon", k_core=2, counts=Counts(1, 1, 2, 1)), tmp_path)
    assert table["text"].to_list() == ["bright", "bought it again"]


def test_several_files_become_one_table_in_their_order(tmp_path):
    write_reviews("amazon", tmp_path / "b.json", REVIEWS[:1])
    write_reviews("amazon", tmp_path / "a.json", REVIEWS[3:])
    table = build(card_for("amazon", files=("b.json", "a.json"), counts=Counts(2, 1, 3, 2)), tmp_path)
    assert table["text"].to_list() == ["bright", "dim", "bought it again"]


def test_stars_of_goodreads_begin_with_none(tmp_path):
    write_reviews("goodreads", tmp_path / "reviews.json.gz", [("ann", "poems", "no stars", 0), ("ann", "tales", "", 5)])
    assert build(card_for("goodreads", counts=Counts(1, 2, 2, 2)), tmp_path)["label"].to_list() == [0, 5]


def test_figures_other_than_the_paper_s_are_a_warning_with_both(tmp_path):
    write_reviews("amazon", tmp_path / "reviews.json.gz")
    with pytest.warns(
        saft.InputWarning, match=r"4 interactions and 3 classes; .* prints 4,390 users, 5,610 items, 51,0"
    ):
        build(card_for("amazon"), tmp_path)


def test_figures_other_than_those_of_a_known_network_are_an_error(tmp_path):
    write_reviews("amazon", tmp_path / "reviews.json.gz")
    with pytest.raises(
        saft.InputError, match=r"2 users, 2 items, 4 interactions .*has 2 users, 2 items, 5 interactions"
    ):
        build(card_for("amazon", counts=Counts(2, 2, 5, 3)), tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reviewerID": ""}, "'reviewerID' is empty in row 2,"),
        ({"asin": None}, "'asin' is empty in row 2,"),
        ({"overall": 6.0}, "'overall' is not one of the known ratings in row 2,"),
        ({"overall": 4.5}, "'overall' is not one of the known ratings in row 2,"),
        ({"overall": "good"}, r"reviews.json.gz, line 2 cannot be read \(cannot parse 'good'"),
    ],
)
def test_a_value_that_cannot_be_is_told_by_its_row(tmp_path, change, message):
    records = [RECORDS["amazon"](*review) for review in REVIEWS]
    write_lines(tmp_path / "reviews.json.gz", [records[0], records[1] | change, *records[2:]])
    with pytest.raises(saft.InputError, match=message):
        build(card_for("amazon"), tmp_path)


def test_a_date_that_nobody_can_read_is_told_by_its_row(tmp_path):
    records = [RECORDS["goodreads"](*review) for review in REVIEWS]
    write_lines(tmp_path / "reviews.json.gz", [*records[:4], records[4] | {"date_added": "yesterday"}])
    with pytest.raises(saft.InputError, match=r"'date_added' is no time that we can read in row 5,"):
        build(card_for("goodreads"), tmp_path)


@pytest.mark.parametrize("broken", ['{"user_id": "u1", "rating"', "[1]", "null", "{'user_id': 'u1'}", "hello"])
@pytest.mark.parametrize("name", ["reviews.json.gz", "reviews.json"])
def test_a_broken_line_is_told_by_file_and_line(tmp_path, broken, name):
    write_reviews("google_local", tmp_path / "good.json")
    lines = (tmp_path / "good.json").read_text().splitlines()
    data = "\n".join([*lines[:2], "", broken, *lines[2:]]).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(saft.InputError, match=rf"{name}, line 4 cannot be read"):
        build(card_for("google_local", files=(name,)), tmp_path)


def test_a_broken_line_far_down_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "LINES_AT_ONCE", 3)
    write_reviews("amazon", tmp_path / "reviews.json", REVIEWS * 2)
    with (tmp_path / "reviews.json").open("a") as file:
        file.write("\n\n\n\n{}\nhello\n")
    with pytest.raises(saft.InputError, match=r"line 16 cannot be read"):
        build(card_for("amazon", files=("reviews.json",)), tmp_path)


def test_a_file_that_was_cut_off_or_is_empty_is_to_be_downloaded_again(tmp_path):
    write_reviews("amazon", tmp_path / "whole.json.gz", REVIEWS * 500)
    data = (tmp_path / "whole.json.gz").read_bytes()
    (tmp_path / "reviews.json.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(saft.InputError, match=r"cannot be read to its end .*Download it again"):
        build(card_for("amazon"), tmp_path)
    (tmp_path / "reviews.json.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(saft.InputError, match=r"is empty"):
        build(card_for("amazon"), tmp_path)


def test_a_core_of_nothing_is_an_error(tmp_path):
    write_reviews("amazon", tmp_path / "reviews.json.gz")
    with pytest.raises(saft.InputError, match=r"nothing is left in the 9-core"):
        build(card_for("amazon", k_core=9), tmp_path)
