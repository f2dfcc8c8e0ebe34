"""``saft compare`` as a new user runs it, in a process of its own."""

import polars as pl
import pytest

import saft
from tests.cli.test_app import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    saft.demo_network(300).to_frame().write_csv(folder / "reviews.csv")
    return folder


def test_it_shows_a_leaderboard_and_writes_table_runs_and_picture(folder, tiny_encoder, monkeypatch, tmp_path):
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    words = ("compare", "reviews.csv", "--methods", "tfidf,sbert_gcn,causal_lm_gcn", "--seeds", 2, "--seed", 5)
    chosen = ("--encoder", tiny_encoder, "--max-length", 16, "--set", "causal_lm_gcn.encoder=./nowhere")
    result = run(*words, *chosen, folder=folder)
    assert result.returncode == 0, result.stderr
    assert "(majority" in result.stdout
    assert "±" in result.stdout
    assert "tfidf, seed 5: Macro-F1" in result.stderr
    assert "causal_lm_gcn failed: There is no folder ./nowhere" in result.stderr
    board = pl.read_csv(folder / "saft-comparison" / "leaderboard.csv")
    assert set(board["method"]) == {"tfidf", "sbert_gcn", "causal_lm_gcn"}
    assert board.filter(method="tfidf")["runs"].item() == 2
    runs = pl.read_csv(folder / "saft-comparison" / "runs.csv")
    assert sorted(runs["seed"].unique()) == [5, 6]
    assert (folder / "saft-comparison" / "leaderboard.png").stat().st_size > 10_000
    again = run(*words, folder=folder)
    assert again.returncode == 2
    assert "saft-comparison holds a comparison already" in again.stderr


def test_presets_are_methods(folder, tiny_encoder):
    words = ("compare", "reviews.csv", "--methods", "saft_fast,saft_balanced", "--seeds", 1, "--out", "presets")
    result = run(*words, "--encoder", tiny_encoder, "--max-length", 16, folder=folder)
    assert result.returncode == 0, result.stderr
    board = pl.read_csv(folder / "presets" / "leaderboard.csv")
    weights = dict(zip(board["method"], board["encoder"], strict=True))
    assert weights == {"saft_fast": "", "saft_balanced": "tiny"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "tfidf,brt"], "There is no method 'brt'. Did you mean 'bert'?"),
        (["--methods", "bert", "--set", "bert.layers"], "say method.setting=value"),
        (["--methods", "bert", "--set", "bert.layers=two"], "layers has to be a number"),
        (["--methods", "bert", "--set", "bert.cache_neighbours=perhaps"], "cache_neighbours is true or false"),
        (["--methods", "bert", "--set", "bert.poling=first"], "Did you mean 'pooling'?"),
        (
            ["--methods", "causal_lm_gcn", "--set", "causal_lm_gcn.encoder=./no", "--seeds", "1"],
            "No method could be run",
        ),
        (["--how", "temporally"], "Did you mean 'temporal'?"),
        (["--config", "preset.toml"], "compare the methods saft_fast, saft_balanced and saft"),
    ],
)
def test_bad_input_ends_with_a_sentence_and_code_2_and_leaves_nothing_behind(folder, words, message, tmp_path):
    (tmp_path / "preset.toml").write_text('preset = "fast"\n')
    result = run("compare", folder / "reviews.csv", *words, folder=tmp_path)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.glob("saft-comparison/leaderboard*"))
