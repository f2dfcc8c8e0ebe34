"""``python -m experiments`` as a person calls it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def call(*words: str, **more):
    return subprocess.run(
        [sys.executable, "-m", "experiments", *words], capture_output=True, text=True, cwd=ROOT, check=False, **more
    )


def test_without_a_command_it_says_what_there_is():
    said = call()
    for command in ("run", "report", "fetch"):
        assert command in said.stdout
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "ablatoin"], "There is no table 'ablatoin'. Did you mean 'ablation'?"),
        (["run", "ablation", "--only", "lga"], "The table has no row 'lga' to run."),
        (["run", "ablation", "--seeds", "one"], "--seeds takes whole numbers separated by commas; got 'one'."),
        (["fetch", "rotten_tomatoes"], "rotten_tomatoes cannot be fetched."),
    ],
)
def test_bad_input_is_told_in_a_sentence_with_exit_code_2(words, message):
    said = call(*words)
    assert said.returncode == 2
    assert message in said.stderr
    assert "Traceback" not in said.stderr


def test_networks_that_are_not_there_are_left_out_and_told(tmp_path):
    said = call("run", "ablation", "--again", "--data", str(tmp_path))  # whatever is done already
    assert said.returncode == 0
    assert "left out: rent_the_runway_fit, rotten_tomatoes" in said.stderr.replace("\n", " ")
    assert "0 runs to do" in said.stderr


def test_several_tables_can_be_asked_for_at_once(tmp_path):
    said = call(
        "run", "distance", "sampling", "--only", "node2vec,centrality", "--again", "--data", str(tmp_path)
    ).stderr
    assert "Alternatives to the distance embedding: 0 runs to do, 3 done or without data." in said
    assert "Which neighbours are drawn: 0 runs to do, 3 done or without data." in said
    assert said.count("left out: rotten_tomatoes") == 1
