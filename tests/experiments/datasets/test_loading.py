"""A network is loaded from the folder, finished or as original files; if it is not there, one is told how to get it."""

import polars as pl
import pytest

import saft
from experiments.datasets import find, is_there, load
from tests.experiments.datasets.conftest import RECORDS, write_lines

AT_HAND = ["musical_instruments", "rent_the_runway_fit", "rent_the_runway_rating", "rotten_tomatoes", "naver_movies"]
FILE = "reviews_Apps_for_Android_5.json.gz"


@pytest.fixture
def folder(tmp_path, everybody_on_everything):
    """A folder with the original file of Amazon-Apps, in miniature."""
    pairs = enumerate(everybody_on_everything)
    records = [RECORDS["amazon"](user, item, f"text {row}", row % 5 + 1) for row, (user, item) in pairs]
    write_lines(tmp_path / FILE, records)
    return tmp_path


def test_original_files_are_built_once_and_then_read(folder):
    with pytest.warns(saft.InputWarning, match=r"the paper prints 4,390 users"):
        built = load("amazon_apps", folder)
    assert (built.n_users, built.n_items, len(built), built.n_classes) == (5, 5, 25, 5)
    assert sorted(path.name for path in folder.iterdir()) == ["amazon_apps.parquet", FILE]
    (folder / FILE).unlink()
    again = load("amazon_apps", folder)  # without a warning: it was said when it was built
    assert again.to_frame().equals(built.to_frame())
    assert again.times is not None


def test_a_network_is_there_if_it_can_be_loaded(folder):
    assert is_there("amazon_apps", folder)
    assert not is_there("amazon_movie", folder)
    assert not is_there("rotten_tomatoes", folder)
    pl.DataFrame({"user": [1]}).write_parquet(folder / "rotten_tomatoes.parquet")
    assert is_there("rotten_tomatoes", folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("goodreads_poetry", "Put goodreads_reviews_poetry.json.gz there.*Wan.*https://mengtingwan"),
        ("naver_movies", "Put naver_movies.parquet with columns user, item, text, label, time there"),
        ("rent_the_runway_fit", "python -m experiments fetch rent_the_runway_fit --data "),
    ],
)
def test_a_network_that_is_not_there_is_told_how_to_get(tmp_path, name, message):
    with pytest.raises(saft.InputError, match=f"is not in .*{message}"):
        load(name, tmp_path)


def test_a_build_that_fails_writes_nothing(folder):
    (folder / FILE).rename(folder / "reviews_Musical_Instruments_5.json.gz")
    with pytest.raises(saft.InputError, match=r"but Amazon Musical Instruments has 1,429 users"):
        load("musical_instruments", folder)
    assert [path.name for path in folder.iterdir()] == ["reviews_Musical_Instruments_5.json.gz"]


def test_a_finished_table_of_another_size_is_refused(tmp_path):
    frame = pl.DataFrame({"user": ["a", "b"], "item": ["x", "x"], "text": ["u", "v"], "label": ["fresh", "rotten"]})
    frame.write_parquet(tmp_path / "rotten_tomatoes.parquet")
    with pytest.raises(saft.InputError, match=r"2 users, 1 items, 2 interactions .*has 3,457 users"):
        load("rotten_tomatoes", tmp_path)


@pytest.mark.parametrize("name", AT_HAND)
def test_the_real_networks_are_what_their_cards_say(shared_data, name):
    network, counts = load(name, shared_data), find(name).counts
    assert (network.n_users, network.n_items, len(network)) == (counts.users, counts.items, counts.interactions)
