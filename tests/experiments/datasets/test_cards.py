"""Every network has a card that says all there is to know, and a card with a mistake is refused."""

import csv
import re

import pytest

import saft
from experiments.datasets import cards, find, names

PAPER = [
    "goodreads_children", "amazon_apps", "amazon_movie", "goodreads_crime", "goodreads_poetry", "google_vermont",
    "google_hawaii", "amazon_products",
]  # fmt: skip
AT_HAND = [
    "catalyst_f6f7", "musical_instruments", "naver_movies", "qatar_living", "rent_the_runway_fit",
    "rent_the_runway_rating", "rotten_tomatoes",
]  # fmt: skip
CARD = """
title = "A network"
source = "somebody"
licence = "not stated"
layout = "table"
label_rule = "good or bad"
made = "not at all"
[counts]
users = 2
items = 2
interactions = 4
classes = 2
exact = true
"""


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder for cards of our own."""
    monkeypatch.setattr(cards, "FOLDER", tmp_path)
    return tmp_path


def test_there_is_a_card_for_each_network_of_the_paper_and_each_at_hand():
    assert names() == sorted(PAPER + AT_HAND)


@pytest.mark.parametrize("name", PAPER + AT_HAND)
def test_every_card_says_where_the_network_comes_from_and_on_what_terms(name):
    card = find(name)
    words = [card.title, card.source, card.licence, card.label_rule, card.made]
    assert all(word and word == re.sub(r"\s+", " ", word.strip()) for word in words)
    assert card.counts.exact == (name in AT_HAND)
    assert bool(card.files) == (card.layout != "table")


@pytest.mark.parametrize("name", PAPER)
def test_cards_of_the_paper_state_that_the_choice_is_not_published(name):
    assert "paper does not say" in find(name).made
    assert "paper's" in find(name).made


def test_the_paper_s_counts_are_those_it_prints(shared_data):
    with (shared_data.parent / "paper" / "datasets.csv").open() as file:
        printed = {row.pop("dataset"): {key: int(value) for key, value in row.items()} for row in csv.DictReader(file)}
    of_cards = {find(name).title: vars(find(name).counts) for name in PAPER}
    assert {title: {**counts, "exact": False} for title, counts in printed.items()} == of_cards


def test_an_unknown_network_is_answered_with_the_nearest_known_one():
    with pytest.raises(saft.InputError, match=r"no network 'amazon_app'. Did you mean 'amazon_apps'?"):
        find("amazon_app")


def test_a_card_is_found_by_its_file(shelf):
    (shelf / "mine.toml").write_text(CARD)
    assert names() == ["mine"]
    assert find("mine").counts == cards.Counts(2, 2, 4, 2)
    assert "Put mine.parquet with columns user, item, text, label, time there" in find("mine").how_to_get_it(shelf)


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ('title = "A network"', 'titel = "A network"', "no key 'titel'. Did you mean 'title'?"),
        ('source = "somebody"', "", "mine.toml: source is missing"),
        ("users = 2", "user = 2", r"mine.toml, \[counts\]: a card has no key 'user'. Did you mean 'users'?"),
        ("items = 2", "", "items is missing"),
        ('"table"', '"tabel"', "layout cannot be 'tabel'"),
        ('"table"', '"amazon"', r"\[columns\] has to name the user, item"),
        ('made = "not at all"', 'made = "no"\nempty_texts = "dorp"', "empty_texts cannot be 'dorp'"),
    ],
)
def test_a_card_with_a_mistake_is_refused(shelf, was, becomes, message):
    (shelf / "mine.toml").write_text(CARD.replace(was, becomes))
    with pytest.raises(saft.InputError, match=message):
        find("mine")
