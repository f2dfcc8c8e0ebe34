"""Comparing methods: which labels they get, what is counted, what is drawn."""

import numpy as np
import polars as pl
import pytest

import saft
from saft import comparison
from saft.comparison import Run, as_table, compare, draw_leaderboard, leaderboard, majority, run
from saft.data.network import HIDDEN
from saft.methods import Method


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(300)


class Spy:
    """A method that records what it was given and always predicts the first class."""

    n_parameters_ = 7
    calls: list = []  # noqa: RUF012

    def __init__(self, settings, callback):
        self.settings = settings

    def fit(self, network, train, valid):
        self.calls.append(("fit", network, train, valid))
        return self

    def predict_proba(self, network, interactions):
        self.calls.append(("predict", network, interactions))
        return np.tile(np.eye(network.n_classes)[0], (len(interactions), 1))


class Missing(Spy):
    def fit(self, network, train, valid):
        self.calls.append(("missing", network, train, valid))
        raise saft.InputError("the weights are not here")


@pytest.fixture
def spied(monkeypatch):
    cards = {"spy": Method("Spy", "nobody", Spy), "missing": Method("Missing", "nobody", Missing)}
    monkeypatch.setattr(comparison, "find", cards.__getitem__)
    monkeypatch.setattr(Spy, "calls", [])
    return Spy.calls


def test_a_method_never_gets_test_labels_and_the_other_parts_are_those_of_the_split(network, spied):
    parts = saft.split(network, seed=3)
    done = run(network, parts, "spy", {"seed": 3})
    (_, fitted, train, valid), (_, predicted, rows) = spied
    assert (fitted.labels[parts.test] == HIDDEN).all()
    assert (predicted.labels[parts.test] == HIDDEN).all()
    np.testing.assert_array_equal(fitted.labels[train], network.labels[parts.train])
    np.testing.assert_array_equal(valid, parts.valid)
    np.testing.assert_array_equal(rows[-len(parts.test) :], parts.test)
    truth = network.labels[parts.test]
    assert done.micro_f1 == pytest.approx((truth == 0).mean())
    assert (done.seed, done.parameters, done.failed) == (3, 7, "")


def test_inductive_means_that_test_interactions_are_not_in_the_network_of_training(network, spied):
    parts = saft.split(network, seed=3)
    run(network, parts, "spy", {"seed": 3}, inductive=True)
    (_, fitted, train, valid), (_, predicted, rows) = spied
    assert len(fitted) == len(network) - len(parts.test)
    assert fitted.texts.to_list() == predicted.texts[: len(fitted)].to_list()
    np.testing.assert_array_equal(fitted.labels[train], network.labels[parts.train])
    assert fitted.take(valid).texts.to_list() == network.take(parts.valid).texts.to_list()
    assert predicted.take(rows[-len(parts.test) :]).texts.to_list() == network.take(parts.test).texts.to_list()
    assert (predicted.labels[len(fitted) :] == HIDDEN).all()


def test_a_real_method_works_inductively(network):
    parts = saft.split(network, seed=0)
    done = run(network, parts, "ter_aer_ppr", {"layers": 1, "max_length": 16}, inductive=True)
    assert done.failed == ""
    assert done.macro_f1 > majority(network, [0])[0]


def test_every_method_runs_on_every_seeds_split_and_one_that_fails_is_tried_once(network, spied):
    runs = list(compare(network, ["spy", "missing"], seeds=[4, 5]))
    assert [(run.method, run.seed, run.failed) for run in runs] == [
        ("spy", 4, ""), ("missing", 4, "the weights are not here"),
        ("spy", 5, ""), ("missing", 5, "the weights are not here"),
    ]  # fmt: skip
    assert [entry[0] for entry in spied].count("missing") == 1
    assert np.isnan(runs[1].macro_f1)


@pytest.mark.parametrize(
    ("methods", "settings", "own", "message"),
    [
        (["tfidf", "brt"], {}, {}, "no method 'brt'"),
        (["tfidf"], {"layer": 2}, {}, "Did you mean 'layers'"),
        (["bert"], {}, {"bert": {"pooling": "middle"}}, "pooling of BERT cannot be 'middle'"),
        (["bert"], {}, {"tfidf": {"layers": 1}}, "Settings for tfidf, which is not compared"),
    ],
)
def test_bad_input_is_refused_before_anything_is_trained(network, methods, settings, own, message):
    with pytest.raises(saft.InputError, match=message):
        next(compare(network, methods, settings=settings, own=own))


def run_of(method: str, seed: int, macro: float, failed: str = "") -> Run:
    return Run(method, method.upper(), seed, macro, macro + 0.1, 0.5, 10.0 + seed, 100, "minilm", failed)


def test_the_leaderboard_has_means_and_deviations_over_seeds_best_first():
    runs = [run_of("a", 0, 0.5), run_of("a", 1, 0.7), run_of("b", 0, 0.65), run_of("c", 0, np.nan, "no weights")]
    board = leaderboard(runs)
    assert board["method"].to_list() == ["b", "a", "c"]
    row = board.row(1, named=True)
    assert row["macro_f1"] == pytest.approx(0.6)
    assert row["macro_f1_std"] == pytest.approx(np.std([0.5, 0.7], ddof=1))
    assert row["seconds"] == pytest.approx(10.5)
    assert board.row(2, named=True)["failed"] == "no weights"
    assert board["runs"].to_list() == [1, 2, 0]
    assert as_table(runs).height == 4


def test_the_majority_class_is_that_of_training(network):
    macro, micro = majority(network, [0, 1])
    parts = saft.split(network, seed=0)
    counts = np.bincount(network.labels[parts.test]) / len(parts.test)
    assert micro == pytest.approx(counts.max(), abs=0.02)
    assert macro == pytest.approx(2 * counts.max() / (1 + counts.max()) / 3, abs=0.02)


def test_the_picture_is_drawn_also_when_some_methods_failed(tmp_path):
    runs = [run_of("a", 0, 0.5), run_of("saft", 0, 0.7), run_of("c", 0, np.nan, "no weights")]
    draw_leaderboard(leaderboard(runs), (0.2, 0.4), tmp_path / "board.png")
    assert (tmp_path / "board.png").stat().st_size > 10_000
    with pytest.raises(saft.InputError, match=r"has to end in \.png"):
        draw_leaderboard(leaderboard(runs), (0.2, 0.4), tmp_path / "board.doc")


def test_results_do_not_contain_the_path_of_the_weights(network, tiny_encoder):
    parts = saft.split(network, seed=0)
    done = run(network, parts, "sbert_gcn", {"encoder": tiny_encoder, "max_length": 16, "layers": 2})
    assert done.encoder == "tiny, 2 layers"
    assert isinstance(as_table([done]), pl.DataFrame)
