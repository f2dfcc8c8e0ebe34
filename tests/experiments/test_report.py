"""The report says what the lines say."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import saft
from experiments import figures, report
from experiments.measured import measured
from experiments.results import append
from experiments.tables import read_table
from tests.experiments.lines import line


@pytest.fixture
def folder(tmp_path):
    """Results of three rows of the large table on one network and two seeds, one of the small table, and cases."""
    table = read_table("classification_large")
    scores = {"bert": (50.0, 52.0), "edgeformers": (55.0, 54.0), "saft": (56.0, 58.0)}
    for run in table.runs():
        if run.network.name == "naver_movies" and run.row.name in scores and run.seed < 2:
            append(table.name, line(run, scores[run.row.name][run.seed]), tmp_path)
    small = next(run for run in read_table("classification_small").runs() if run.key == ("rotten_tomatoes", "saft", 0))
    append("classification_small", line(small, 77.0), tmp_path)
    for name in ("centrality", "sweep_structure_dim"):
        run = next(run for run in read_table(name).runs() if run.network.name == "rotten_tomatoes" and run.seed == 0)
        append(name, line(run, 76.0), tmp_path)
    cases = {("rotten_tomatoes, 70%", "saft"): (77.0, 79.0), ("rotten_tomatoes, 70%", "bert"): (70.0, 72.0)}
    cases[("rotten_tomatoes, 2%", "bert")] = (60.0, 61.0)
    for run in read_table("cases").runs():
        if run.key[:2] in cases and run.seed < 2:
            append("cases", line(run, cases[run.key[0], run.key[1]][run.seed]), tmp_path)
    failed = next(run for run in table.runs() if run.key == ("naver_movies", "deberta_gcn", 0))
    append(table.name, line(failed, None) | {"status": "failed", "reason": "no weights here"}, tmp_path)
    return tmp_path


def test_a_table_has_means_and_spreads_and_the_best_is_bold(folder):
    text = report.score_table(measured(read_table("classification_large"), folder))
    spread = np.std([56, 58], ddof=1)
    assert f"| SAFT | **57.00 ± {spread:.2f}** |" in text
    assert "| BERT | 51.00 ± 1.41 |" in text
    assert "over 2 splits" in text
    assert "TF-IDF" not in text  # was not run


def test_a_table_of_one_split_does_not_speak_of_spreads(folder):
    text = report.score_table(measured(read_table("classification_small"), folder))
    assert text.endswith("One split, per cent.")


def test_what_a_reader_has_to_know_stands_before_the_figures(folder):
    table = read_table("backbone")
    text = report.section(measured(table, folder), None)
    assert f"The paper: {table.paper}. {table.remark}\n" in text
    assert "minilm" in table.remark  # not the encoder that the paper has


def test_everything_is_written_with_its_figures_and_the_readme_is_changed_between_its_marks_only(folder, tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "README.md").write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    paths = report.write(root, folder)
    readme = (root / "README.md").read_text()
    assert readme.startswith("before\n")
    assert readme.endswith("after\n")
    assert "old" not in readme
    assert "| SAFT | **78.0** / – |" in readme  # a figure for each share of labelled rows that anything was run on
    assert "| BERT | 71.0 / **60.5** |" in readme
    assert "With 70%, 2% of the rows labelled" in readme
    text = (root / "docs" / "results.md").read_text()
    assert "Failed: deberta_gcn on naver_movies: no weights here" in text
    assert "36.95" in text  # published
    assert "| naver_movies: SAFT | +2.50 ± 2.12 against Edgeformers" in text
    drawn = [path for path in paths if path.suffix == ".png"]
    assert {path.stem for path in drawn} >= {
        "classification_large",
        "classification_small",
        "centrality",
        "sweep_structure_dim",
    }
    for path in drawn:
        assert f"(results/{path.name})" in text
        assert path.read_bytes().startswith(b"\x89PNG")


def test_a_run_that_was_not_made_has_no_bar_in_the_figure_of_times(folder):
    table = read_table("classification_small")
    for run in table.runs():
        if run.key in {
            ("rotten_tomatoes", "saft", 1),
            ("rotten_tomatoes", "bert", 1),
            ("musical_instruments", "saft", 1),
        }:
            append(table.name, line(run, 77.0), folder)
    axes = Figure().add_subplot()
    figures._bars(axes, measured(read_table("training_time"), folder))
    assert [bar.get_width() for bar in axes.patches] == [2.0, 2.0, 2.0]
    first, last = (bar.get_y() + bar.get_height() / 2 for bar in axes.patches[1:])  # rotten tomatoes: BERT, SAFT
    assert last - first == pytest.approx(4)  # SAFT stays at its own name


def test_a_sweep_is_drawn_as_points_from_the_mean_of_each_split():
    values = {"0": {0: 70.0, 1: 80.0}, "1": {0: 72.0, 1: 84.0, 2: 90.0}, "2": {}}
    rows, deviations = figures.from_the_mean(values)
    assert rows == ["0", "1"]  # the third was not run, nor the first on the third split
    assert deviations.tolist() == [[-1.0, -2.0], [1.0, 2.0]]


def test_a_readme_without_a_place_for_results_is_an_error():
    with pytest.raises(saft.InputError, match=r"README\.md has no place for the results"):
        report.between_marks("nothing here", "new", "README.md")
