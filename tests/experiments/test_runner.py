"""The runner: each run once, in a process of its own; a failure stops nothing."""

import numpy as np
import pytest

import saft
from experiments.progress import run_with_progress, seconds_left
from experiments.results import read_results
from experiments.runner import _reason, chosen, missing, run_all, run_one
from experiments.tables import Network, Row, Sample, Table

KEYS = {
    "dataset", "method", "seed", "macro_f1", "micro_f1", "valid_macro_f1", "seconds", "peak_memory_mb", "settings",
    "versions", "commit", "status",
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a network under the name of a known one, so small that its figures do not matter."""
    folder = tmp_path_factory.mktemp("data")
    network = saft.demo_network(400, seed=1)
    times = np.arange(len(network))
    frame = network.to_frame().with_columns(time=times)
    frame.select("user", "item", "text", "label", "time").write_parquet(folder / "goodreads_poetry.parquet")
    return folder


def table(*rows: Row, seeds=(0,), sample=None) -> Table:
    network = Network("goodreads_poetry", sample, {"epochs": 1})
    return Table("mine", "Mine", 1, "", "scores", rows, [network], seeds, {})


TFIDF = Row("tfidf", "tfidf", "TF-IDF")
BROKEN = Row("nowhere", "sbert_gcn", "no weights", {"encoder": "/nowhere/at/all"})


@pytest.mark.slow
def test_a_run_is_written_down_with_all_that_is_needed_to_judge_it_and_is_not_run_again(data, tmp_path):
    plan = table(TFIDF, BROKEN)
    done = {run.row.name: result["status"] for run, result in run_all(missing(plan, tmp_path), data, tmp_path, jobs=2)}
    assert done == {"tfidf": "done", "nowhere": "failed"}
    good, bad = sorted(read_results("mine", tmp_path), key=lambda result: result["status"])
    assert set(good) >= KEYS
    assert set(bad) >= KEYS
    assert 0 < good["macro_f1"] <= good["micro_f1"] * 1.5 <= 150
    assert good["peak_memory_mb"] > 50
    assert good["settings"]["epochs"] == 1
    assert "There is no folder /nowhere/at/all" in bad["reason"]
    assert "Traceback" not in bad["reason"]
    assert [run.row.name for run in missing(plan, tmp_path)] == ["nowhere"]  # what failed is tried again
    assert len(missing(plan, tmp_path, again=True)) == 2


@pytest.mark.slow
def test_the_same_run_gives_the_same_scores_and_a_sample_is_the_core_of_the_latest(data):
    run = next(table(TFIDF, sample=Sample(core=2, least=100)).runs())
    first, second = run_one(run, data), run_one(run, data)
    assert first["macro_f1"] == second["macro_f1"]
    assert 100 <= first["interactions"] < 200


@pytest.mark.slow
def test_a_person_sees_what_was_done_and_what_failed(data, tmp_path, capsys):
    run_with_progress(list(table(TFIDF, BROKEN).runs()), data, tmp_path)
    said = capsys.readouterr().err
    assert "1 of 2: tfidf, goodreads_poetry, seed 0: Macro-F1" in said
    assert "2 of 2: nowhere, goodreads_poetry, seed 0 failed: " in said


@pytest.fixture
def ended_by(monkeypatch):
    """Gives every run's process a signal that ends it at once; the commands that were started."""
    import experiments.runner

    real, started = experiments.runner.subprocess.Popen, []

    def end(name):
        killed = f"import os, signal; os.kill(os.getpid(), signal.{name})"

        def start(command, **more):
            if "experiments" not in command:  # git is asked for the commit
                return real(command, **more)
            started.append(command)
            return real([command[0], "-c", killed], **more)

        monkeypatch.setattr(experiments.runner.subprocess, "Popen", start)
        return started

    return end


def test_a_run_whose_process_is_killed_is_recorded_as_failed(data, ended_by):
    ended_by("SIGKILL")
    result = run_one(next(table(TFIDF).runs()), data)
    assert result["status"] == "failed"
    assert result["reason"].startswith("ended by SIGKILL")


def test_a_run_that_somebody_ended_did_not_fail_and_the_table_stops_with_it(data, tmp_path, ended_by):
    started = ended_by("SIGTERM")
    with pytest.raises(KeyboardInterrupt):
        list(run_all(list(table(TFIDF, seeds=range(5)).runs()), data, tmp_path))
    assert read_results("mine", tmp_path) == []
    assert len(started) == 1  # and no other run is begun


@pytest.mark.slow
def test_stopping_a_table_leaves_nothing_running_and_keeps_what_is_done(data, tmp_path):
    plan = table(TFIDF, Row("slow", "tfidf_nodes", "slow", {"epochs": 100000, "patience": 100000}))
    runs = run_all(list(plan.runs()), data, tmp_path, jobs=2)
    first, _ = next(runs)
    with pytest.raises(KeyboardInterrupt):
        runs.throw(KeyboardInterrupt)
    assert first.row.name == "tfidf"
    assert [result["method"] for result in read_results("mine", tmp_path)] == ["tfidf"]


def test_rows_networks_and_seeds_can_be_chosen_and_unknown_ones_are_told():
    runs = list(table(TFIDF, BROKEN, seeds=(0, 1, 2)).runs())
    assert len(chosen(runs)) == 6
    assert [run.key for run in chosen(runs, only=["tfidf"], seeds=[2])] == [("goodreads_poetry", "tfidf", 2)]
    with pytest.raises(saft.InputError, match=r"no row 'tfdif' to run\. Did you mean 'tfidf'"):
        chosen(runs, only=["tfdif"])
    with pytest.raises(saft.InputError, match="no dataset 'poetry' to run"):
        chosen(runs, datasets=["poetry"])


def test_the_time_left_goes_by_what_the_same_row_took_and_else_by_the_average():
    runs = list(table(TFIDF, BROKEN).runs())
    assert seconds_left(runs, {("mine", "tfidf"): 4.0}) == 8.0
    assert seconds_left(runs, {("mine", "tfidf"): 4.0, ("mine", "nowhere"): 10.0}) == 14.0
    assert seconds_left(runs, {("mine", "tfidf"): 4.0, ("other", "nowhere"): 10.0}) == 11.0  # another table's row


def test_reasons_name_no_addresses():
    said = _reason(1, "We couldn't connect to 'https://somewhere.example/a/b' to load the files.")
    assert said == "We couldn't connect to '…' to load the files."
    assert _reason(1, "") == "ended with exit code 1"
