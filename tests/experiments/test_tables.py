"""Every table that is there can be read, and says what it means to run."""

import pytest

import saft
from experiments.datasets import names as networks
from experiments.tables import Run, Sample, names, presets, read_table
from saft.methods import find
from saft.methods import names as methods

TABLES = [
    "ablation", "backbone", "cases", "centrality", "classification_large", "classification_small", "distance",
    "messages", "sampling", "sweep_delta", "sweep_lambda", "sweep_rounds", "sweep_structure_dim", "training_time",
]  # fmt: skip


def test_every_table_and_figure_of_the_paper_is_there_and_our_own_ones():
    assert names() == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_its_methods_networks_and_settings_exist(name):
    table = read_table(name)
    assert {network.name for network in table.networks} <= set(networks())
    for run in table.runs():
        find(run.row.method).make(run.shared(), run.row.settings)  # an unknown setting is an error


@pytest.mark.parametrize("name", TABLES)
def test_lines_that_stand_elsewhere_are_there_on_the_same_networks_and_seeds(name):
    table = read_table(name)
    for row in table.rows:
        if row.results:
            keys = {run.key for run in read_table(row.results).runs()}
            here = [network.title for network in table.networks if network.sample is not None]
            assert {(network, row.result, seed) for network in here for seed in table.seeds} <= keys


@pytest.mark.parametrize("name", TABLES)
def test_what_was_published_belongs_to_rows_and_networks_that_are_known(name):
    table = read_table(name)
    rows = {row.name for row in table.rows}
    for network, published in table.published.items():
        assert network in networks()
        assert set(published) <= rows


def test_every_method_is_in_the_classification_tables_or_in_the_cases():
    cases = {row.name for row in read_table("cases").rows}
    for name in ("classification_small", "classification_large"):
        assert {row.name for row in read_table(name).rows} | cases == set(methods())


def test_figures_of_the_paper_are_where_they_belong():
    small = read_table("classification_small").published
    assert small["goodreads_children"]["saft_lga"] == [36.95, 51.68]
    assert read_table("sweep_delta").published["amazon_apps"]["delta_0"] == [44.85, 57.79]
    assert presets()["amazon_apps"]["lga"]["structure_dim"] == 64
    assert (
        presets()["goodreads_poetry"]["gau"] | {"delta": 1.5, "batch_size": 25} == presets()["goodreads_poetry"]["gau"]
    )


def test_a_preset_is_taken_on_networks_that_have_one_and_the_rows_own_settings_win():
    table = read_table("classification_small")
    runs = {run.key: run for run in table.runs()}
    printed = runs["amazon_movie", "saft_gau", 0]
    assert printed.shared()["rounds"] == 5
    assert "rounds" not in runs["rotten_tomatoes", "saft_gau", 0].shared()
    assert runs["rotten_tomatoes", "causal_lm_gcn", 0].described()["given"]["layers"] == 8


def test_seeds_come_first_so_that_a_stopped_table_has_a_whole_first_layer():
    seeds = [run.seed for run in read_table("classification_small").runs()]
    assert seeds == sorted(seeds)


def test_a_run_survives_being_written_out():
    for run in list(read_table("ablation").runs())[:3]:
        assert Run.from_json(run.as_json()) == run
        assert run.network.sample == Sample(core=5, least=8000)


PLAN = 'title = "T"\nseeds = [0]\n[[network]]\nnames = ["rotten_tomatoes"]\n[[row]]\nname = "tfidf"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PLAN + "sedd = 3\n", "has an unknown entry 'sedd'"),
        (PLAN + '[[row]]\nname = "tfidf"\n', "has several rows called tfidf"),
        (PLAN + 'whole = "all"\n', "the row tfidf is a part of all, which is not there"),
        (PLAN.replace('"T"', "T"), "is not TOML"),
    ],
)
def test_a_mistake_in_a_table_is_named(tmp_path, text, message):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(saft.InputError, match=message):
        read_table("mine", tmp_path)


def test_an_unknown_table_is_told_with_the_nearest_one():
    with pytest.raises(saft.InputError, match=r"no table 'ablatoin'\. Did you mean 'ablation'"):
        read_table("ablatoin")
