"""Benchmarks compare like with like, and say honestly whether a promise holds."""

import importlib
import json

import numpy as np
import pytest

import benchmarks.__main__ as bench
import saft
from benchmarks import centrality
from benchmarks.measuring import Figure, compare
from benchmarks.reading import read_with_pandas, read_with_saft, write_example


@pytest.mark.parametrize(
    ("value", "target", "holds"),
    [(3.0, ">= 3", True), (2.9, ">= 3", False), (0.9, "<= 1", True), (1.1, "<= 1", False), (5.0, "", None)],
)
def test_a_figure_holds_if_it_reaches_its_target(value, target, holds):
    figure = Figure("speed", value, "×", target)
    assert figure.holds is holds
    assert json.loads(json.dumps(figure.as_json()))["holds"] is holds


def test_both_readers_arrive_at_the_same_codes(tmp_path):
    write_example(tmp_path / "x.csv", 500)
    network, user_degrees, item_degrees = read_with_saft(str(tmp_path / "x.csv"))()
    _, users, user_ids, items, _, labels, classes, theirs, _ = read_with_pandas(str(tmp_path / "x.csv"))()
    assert np.array_equal(network.users, users)
    assert network.user_ids.to_list() == user_ids.tolist()
    assert np.array_equal(network.items, items)
    assert network.label_values().to_list() == classes[labels].tolist()
    assert np.array_equal(user_degrees, theirs)
    assert item_degrees.sum() == 500


def test_the_table_of_centralities_ranks_the_sketch_above_the_spectral_embedding():
    *_, spectral, sketch, degrees, _, _, _ = centrality.row("demo", saft.demo_network(2000)).split("|")
    assert float(spectral) < 0 < 0.8 < float(sketch) < 1
    assert float(degrees) > 0.9


def test_competitors_are_measured_in_processes_of_their_own(tmp_path):
    write_example(tmp_path / "x.csv", 500)
    costs = compare("benchmarks.reading", ["saft", "pandas"], [str(tmp_path / "x.csv")], repeats=1)
    assert all(cost.seconds > 0 and cost.peak_mb > 10 for cost in costs.values())


def test_results_of_one_benchmark_do_not_erase_those_of_another(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "RESULTS", tmp_path / "results.json")
    (tmp_path / "results.json").write_text(json.dumps([Figure("old", 1, "×").as_json()]))
    reading = importlib.import_module("benchmarks.reading")
    monkeypatch.setattr(reading, "figures", lambda: [Figure("new", 4, "×", ">= 3")])
    bench.main(["reading"])
    written = json.loads((tmp_path / "results.json").read_text())
    assert [(entry["name"], entry["holds"]) for entry in written] == [("old", None), ("new", True)]
    assert "new" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="Did you mean 'reading'"):
        bench.main(["readin"])
