"""Commands on a machine where something is wrong: one sentence, exit code 2, nothing half-written, nothing lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import saft
from saft.classifier.folder import claimed
from tests.cli.test_model import QUICK

LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)
from saft.cli.app import main
main()
"""


def run(*words, folder: Path, bytes_left: int | None = None) -> subprocess.CompletedProcess:
    """``saft`` with these words; every file that it writes may have so many bytes, as on a disk that is nearly full."""
    start = ["-m", "saft"] if bytes_left is None else ["-c", LIMITED, str(bytes_left)]
    command = [sys.executable, *start, *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    saft.demo_network(300).to_frame().write_csv(folder / "reviews.csv")
    saft.SaftClassifier(preset="fast", trees=False).fit(saft.demo_network(300)).save(folder / "model")
    return folder


def assert_one_sentence(ended: subprocess.CompletedProcess, message: str) -> None:
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("Error: ")
    assert message in ended.stderr


@pytest.mark.parametrize("name", ["p.csv", "p.jsonl", "p.parquet", "v.npy", "v.parquet"])
def test_a_full_disk_is_said_and_leaves_what_was_there(folder, name):
    (folder / name).write_text("old")
    command = "predict" if name.startswith("p") else "embed"
    ended = run(command, "model", "reviews.csv", "--out", name, folder=folder, bytes_left=5_000)
    assert_one_sentence(ended, f"Cannot write {name}")
    assert (folder / name).read_text() == "old"
    assert not [path.name for path in folder.iterdir() if path.name.startswith(f".{name[0]}-")]


def test_a_model_that_does_not_fit_on_the_disk_leaves_the_old_one(folder):
    before = (folder / "model" / "model.json").read_text()
    words = ["train", "reviews.csv", "--out", "model", "--preset", "fast", "--no-trees", "--overwrite"]
    ended = run(*words, folder=folder, bytes_left=100_000)
    assert_one_sentence(ended, "Cannot write")
    assert (folder / "model" / "model.json").read_text() == before
    assert not list(folder.glob(".model*"))


def test_a_second_training_into_the_same_folder_is_told_before_it_reads_the_table(folder):
    with claimed(folder / "taken"):
        ended = run("train", "there is no such.csv", "--out", "taken", "--preset", "fast", folder=folder)
    assert_one_sentence(
        ended, "Another process trains or saves a model in taken. Wait for it, or choose another folder."
    )


def test_a_target_that_cannot_be_written_is_told_before_the_table_is_read(folder):
    (folder / "file").write_text("in the way")
    ended = run("train", "there is no such.csv", "--out", "file/model", "--preset", "fast", folder=folder)
    assert_one_sentence(ended, "Cannot write the model to file/model")
    (folder / "other").mkdir()
    (folder / "other" / "letter.txt").write_text("mine")
    ended = run("train", "there is no such.csv", "--out", "other", "--preset", "fast", folder=folder)
    assert_one_sentence(ended, "other holds something else (letter.txt …)")


@pytest.mark.slow
def test_a_training_that_diverges_ends_with_exit_code_2_and_keeps_what_was_best(folder, tiny_encoder):
    words = ["train", "reviews.csv", "--out", "diverged", "--encoder", tiny_encoder, *QUICK, "--no-trees"]
    words += ["--learning-rate", "1e18", "--head-learning-rate", "1e18", "--clip", "0", "--warmup", "0"]
    ended = run(*words, folder=folder)
    assert_one_sentence(ended, "Training diverged: the ")
    assert "Try a lower learning_rate" in ended.stderr
    assert "What was best before that is the model in diverged now." in ended.stderr
    assert "nan" not in (folder / "diverged" / "model.json").read_text().lower()
    assert run("predict", "diverged", "reviews.csv", "--out", "d.csv", folder=folder).returncode == 0
    assert pl.read_csv(folder / "d.csv").select(pl.col("^probability_.*$").is_finite().all()).row(0) == (True,) * 3


@pytest.mark.slow
def test_killed_while_it_writes_a_checkpoint_a_training_is_resumed(folder, tiny_encoder):
    """The kernel kills it at the byte where the file of the checkpoint would get too large."""
    words = ["train", "reviews.csv", "--out", "killed", "--encoder", tiny_encoder, *QUICK, "--no-trees"]
    script = LIMITED.replace(
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)", "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, "200000", *words],
        cwd=folder, capture_output=True, text=True, timeout=240, check=False,
        env=os.environ | {"SAFT_CACHE_GB": "0"},
    )  # fmt: skip
    assert ended.returncode == -signal.SIGXFSZ, ended.stderr
    left = [path.name for path in (folder / "killed" / "checkpoint").iterdir()]
    assert any(name.startswith((".tmp", ".state-")) for name in left)
    again = run(*words, folder=folder)
    assert again.returncode == 0, again.stderr
    assert not (folder / "killed" / "checkpoint").exists()
