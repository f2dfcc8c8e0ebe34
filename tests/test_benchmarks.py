"""Benchmarks compare like with like, and say honestly whether a promise holds."""

import importlib
import json

import numpy as np
import pytest
import torch

import benchmarks.__main__ as bench
import saft
from benchmarks import accuracy, centrality, queue, rivals_way, scaling, serving
from benchmarks.competitors import (
    PlainText,
    counted_texts,
    labelled_rows,
    predict_rivals_way,
    predict_saft,
    saft_settings,
    seconds_of_steps,
    train_rivals_way,
    train_saft,
)  # fmt: skip
from benchmarks.measuring import Figure, compare
from benchmarks.reading import read_with_pandas, read_with_saft, write_example
from saft.classifier.assembly import Assembly
from saft.learning.trainer import Trainer
from saft.online.live import Interaction


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


def test_the_rivals_way_gives_the_answers_of_the_model_as_printed(tiny_encoder):
    network = saft.demo_network(200)
    settings = rivals_way.settings_of(tiny_encoder, 0, 3)
    slow, loader = rivals_way.assemble(settings, network)
    fast = Assembly.fresh(settings, network)
    weights = fast.model.state_dict()
    slow.model.load_state_dict({name: weights[name.replace(".fast.", ".")] for name in slow.model.state_dict()})
    view = next(loader.prediction_passes(np.arange(9)))
    with torch.no_grad():
        together = slow.model.train(False)(loader.batch(np.arange(9), view)).logits
        one_by_one = [fast.model.train(False)(fast.loader().batch(np.array([row]), view)).logits for row in range(9)]
    torch.testing.assert_close(together, torch.cat(one_by_one), atol=1e-5, rtol=0)


def test_the_rivals_way_reads_every_neighbour_again_for_every_target(tiny_encoder):
    network = saft.demo_network(200)
    _, loader = rivals_way.assemble(rivals_way.settings_of(tiny_encoder, 0, 3), network)
    view = next(loader.prediction_passes(np.arange(200)))
    batch = loader.batch(np.arange(rivals_way.SEED_ROWS), view)
    assert len(batch.rows) > len(np.unique(batch.rows))
    assert batch.texts[0][0].shape == (len(batch.rows), rivals_way.PADDED_TO)
    assert {len(seed_rows) for seed_rows in view.batches} == {rivals_way.SEED_ROWS}


def test_every_interaction_of_a_known_network_is_read_once_to_predict_it(tiny_settings):
    network = saft.demo_network(200)
    classifier = saft.SaftClassifier(**tiny_settings | {"epochs": 0}).fit(network)
    with counted_texts() as counts:
        classifier.predict_proba(network)
    assert sum(counts) == 200


def test_every_competitor_trains_and_predicts(tiny_encoder):
    network = saft.demo_network(200)
    ours, theirs = saft_settings(tiny_encoder, 0, 2, epochs=1), rivals_way.settings_of(tiny_encoder, 0, 2)
    plain = PlainText(tiny_encoder, 3, network, 64)
    costs = [
        train_saft(ours, network), predict_saft(ours, network), train_rivals_way(theirs, network, 50),
        predict_rivals_way(theirs, network, 50), plain.train(), plain.predict(),
    ]  # fmt: skip
    assert min(costs) > 0


def test_every_step_of_an_epoch_is_timed(tiny_encoder):
    network, settings = saft.demo_network(200), saft_settings(tiny_encoder, 0, 2, epochs=1)
    train, valid = labelled_rows(network)
    assembly = Assembly.fresh(settings, network.showing(train))
    trainer = Trainer(assembly.model, assembly.loader(), train, valid, network.labels[valid], settings)
    seconds = list(seconds_of_steps(trainer))
    assert len(seconds) == trainer.steps_per_epoch
    assert min(seconds) > 0


@pytest.mark.parametrize("way", ["saft", "reread", "rivals", "half_frozen", "few_labels"])
def test_accuracy_is_measured_of_every_way(tiny_encoder, way, tmp_path, monkeypatch):
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    assert 0 < accuracy.measure(way, 0, 3, 200, tiny_encoder) <= 100


def test_a_server_under_load_is_measured(tmp_path):
    service = serving._service(300, tmp_path)
    rows = serving._rows(300)
    targets = service.predict([Interaction(**row) for row in rows[:4]])
    assert [answer.known_user for answer in targets] == [not row["user"].startswith("new") for row in rows[:4]]
    service.close()


def test_scaling_measures_every_stage(tmp_path, monkeypatch):
    saft.demo_network(300).to_frame().write_csv(tmp_path / "network.csv")
    measured = scaling.measure(tmp_path / "network.csv")
    assert all(measured[stage] > 0 for stage in scaling.STAGES)
    assert 0 < measured["per_seed_row"] < measured["train"] / 100
    assert measured["peak_mb"] >= measured["training_mb"] > 100
    monkeypatch.setattr(scaling, "PICTURE", tmp_path / "scaling.png")
    scaling._draw({300: measured, 3000: measured})
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_training_that_is_too_long_to_repeat_is_compared_with_the_others_on_the_same_network():
    sizes = {"tiny": (300, 25)}
    rivals, text = scaling.against_others("training", sizes, 300, own=1e-6, promised=(6, 0.5))
    assert rivals.name == "training, tiny, 300 interactions, b=5: speed against the rivals' way"
    assert text.name == "training, tiny, 300 interactions, b=5: speed against the text alone"
    assert rivals.value > text.value > 1  # nobody trains on a text in a microsecond
    assert (rivals.target, text.target) == (">= 6", ">= 0.5")


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


def test_the_queue_is_measured_on_stores_of_two_sizes():
    found = list(queue.figures(many=300, few=200))
    assert len(found) == 2 * len(queue._works())
    assert all(figure.value > 0 for figure in found)
    assert {figure.target for figure in found if figure.unit == "ms"} == {"<= 100"}
