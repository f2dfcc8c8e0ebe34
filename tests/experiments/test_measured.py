"""A table knows its finished runs, wherever they stand."""

from experiments.measured import measured
from experiments.results import append
from experiments.tables import read_table
from tests.experiments.lines import line


def keep(folder, table, key, score, **changed):
    run = next(run for run in read_table(table).runs() if run.key == key)
    append(table, line(run, score) | changed, folder)


def test_scores_stand_by_network_row_and_seed(tmp_path):
    for seed, score in ((0, 70.0), (1, 74.0)):
        keep(tmp_path, "classification_small", ("rotten_tomatoes", "bert", seed), score)
    one = measured(read_table("classification_small"), tmp_path)
    assert one.networks == ["rotten_tomatoes"]
    assert one.values("rotten_tomatoes", "bert", "macro_f1") == {0: 70.0, 1: 74.0}
    assert one.values("rotten_tomatoes", "saft", "macro_f1") == {}
    assert one.means("rotten_tomatoes", "macro_f1") == {"bert": 72.0}


def test_figures_of_a_column_are_of_the_splits_that_all_its_rows_have(tmp_path):
    for row, scores in (("bert", (70.0, 74.0)), ("saft", (71.0, 80.0)), ("tfidf", (60.0,))):
        for seed, score in enumerate(scores):
            keep(tmp_path, "classification_small", ("rotten_tomatoes", row, seed), score)
    one = measured(read_table("classification_small"), tmp_path)
    assert one.means("rotten_tomatoes", "macro_f1") == {"tfidf": 60.0, "bert": 70.0, "saft": 71.0}
    assert one.values("rotten_tomatoes", "saft", "macro_f1") == {0: 71.0, 1: 80.0}
    assert one.counts() == [1]


def test_lines_that_stand_in_another_table_are_shown_from_there(tmp_path):
    keep(tmp_path, "classification_small", ("rotten_tomatoes", "saft", 0), 77.0)
    cells = measured(read_table("centrality"), tmp_path).cells
    assert cells["rotten_tomatoes", "centrality"][0]["macro_f1"] == 77.0


def test_a_network_is_shown_once_a_line_of_the_table_itself_was_run_on_it(tmp_path):
    keep(tmp_path, "classification_small", ("rotten_tomatoes", "saft", 0), 77.0)
    assert measured(read_table("centrality"), tmp_path).networks == []
    keep(tmp_path, "centrality", ("rotten_tomatoes", "pagerank", 0), 76.0)
    assert measured(read_table("centrality"), tmp_path).networks == ["rotten_tomatoes"]


def test_failed_runs_and_those_with_other_settings_are_kept_apart(tmp_path):
    key = ("rotten_tomatoes", "bert", 0)
    keep(tmp_path, "classification_small", key, None, status="failed", reason="no weights here")
    keep(tmp_path, "classification_small", ("rotten_tomatoes", "saft", 0), 77.0, given={"layers": 5})
    one = measured(read_table("classification_small"), tmp_path)
    assert not one.cells
    assert [result["reason"] for result in one.failed] == ["no weights here"]
    assert one.outdated == 1
