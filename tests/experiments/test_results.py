"""Results are lines that are only ever added."""

import json

import pytest

import saft
from experiments.results import append, path_of, read_results, run_status, seconds_by_row
from experiments.tables import Network, Row, Table


def table(**settings) -> Table:
    row = Row("tfidf", "tfidf", "TF-IDF", settings)
    return Table("mine", "Mine", 1, "", "scores", [row], [Network("here", None, {})], [0, 1], {})


def result(run, status="done", **more):
    network, method, seed = run.key
    return {"dataset": network, "method": method, "seed": seed, **run.described(), "status": status, **more}


def test_what_is_appended_is_read_and_the_last_line_about_a_run_counts(tmp_path):
    first, second = table().runs()
    append("mine", result(first, "failed", reason="no luck"), tmp_path)
    append("mine", result(second, "failed", reason="none either"), tmp_path)
    append("mine", result(first, macro_f1=50.0, seconds=1.0), tmp_path)
    known = run_status(table(), tmp_path)
    assert list(known.done) == [first.key]
    assert list(known.failed) == [second.key]
    assert len(read_results("mine", tmp_path)) == 3


def test_a_line_that_was_cut_off_is_left_out_and_written_over(tmp_path):
    first, second = table().runs()
    append("mine", result(first), tmp_path)
    whole = path_of("mine", tmp_path).read_text()
    path_of("mine", tmp_path).write_text(whole + '{"dataset": "her')
    assert len(read_results("mine", tmp_path)) == 1
    append("mine", result(second), tmp_path)
    assert [json.loads(line)["seed"] for line in path_of("mine", tmp_path).read_text().splitlines()] == [0, 1]


def test_a_broken_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    path_of("mine", tmp_path).write_text('{"a": 1}\n{"a": \n{"a": 1}\n')
    with pytest.raises(saft.InputError, match=r"mine\.jsonl, line 2 is not JSON"):
        read_results("mine", tmp_path)


def test_results_with_other_settings_than_the_table_has_now_do_not_count(tmp_path):
    for run in table().runs():
        append("mine", result(run), tmp_path)
    known = run_status(table(max_length=12), tmp_path)
    assert (known.done, known.outdated) == ({}, 2)


def test_times_are_means_over_finished_runs_of_a_row():
    lines = [
        {"method": "a", "status": "done", "seconds": 1.0},
        {"method": "a", "status": "done", "seconds": 3.0},
        {"method": "a", "status": "failed", "seconds": None},
    ]
    assert seconds_by_row(lines) == {"a": 2.0}
