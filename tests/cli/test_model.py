"""train, predict, evaluate and embed as a new user runs them, in processes of their own.

Covers: classifier.tuning, cli.options, cli.progress.
"""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import saft
from saft.cli.options import settings_from
from saft.settings import Settings
from tests.cli.test_app import SAFT, run

QUICK = [
    "--max-length", "24", "--epochs", "2", "--structure-dim", "8", "--node-dim", "8", "--neighbours", "3",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_encoder) -> Path:
    """A folder with a table, a table of new rows and a trained model."""
    folder = tmp_path_factory.mktemp("commands")
    frame = saft.demo_network(400).to_frame()
    frame.write_csv(folder / "reviews.csv")
    new = [{"user": "new", "item": "i1", "text": "lovely"}, {"user": frame["user"][0], "item": "x", "text": "it broke"}]
    pl.DataFrame(new).write_csv(folder / "new.csv")
    made = run("train", "reviews.csv", "--out", "model", "--encoder", tiny_encoder, *QUICK, folder=folder)
    assert made.returncode == 0, made.stderr
    (folder / "output.txt").write_text(made.stdout + made.stderr)
    return folder


def test_train_prints_scores_and_writes_report_and_card(folder):
    output = (folder / "output.txt").read_text()
    assert "test part, 40 rows" in output
    assert "Macro-F1" in output
    assert "calibration error" in output
    assert "Epoch  2: loss" in output
    page = (folder / "model" / "report.html").read_text()
    for part in ("without text", "without structure", "without messages", "without known labels"):
        assert part in page
    assert "saft model trained on reviews.csv" in (folder / "model" / "README.md").read_text()
    assert not (folder / "model" / "checkpoint").exists()
    assert str(folder) not in page + (folder / "model" / "README.md").read_text()


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_predict_writes_every_format_with_the_rows_as_they_came(folder, ending):
    result = run("predict", "model", "new.csv", "--out", f"predicted.{ending}", folder=folder)
    assert result.returncode == 0, result.stderr
    assert "2 rows:" in result.stdout
    readers = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}
    table = readers[ending](folder / f"predicted.{ending}")
    assert table.columns[:4] == ["user", "item", "text", "prediction"]
    assert table.height == 2
    np.testing.assert_allclose(table.select(pl.sum_horizontal(pl.col("^probability_.*$"))).to_series(), 1, atol=1e-5)
    expected = saft.load(folder / "model").predict(folder / "new.csv")
    assert table["prediction"].to_list() == expected["prediction"].to_list()


def test_evaluate_prints_and_writes_scores(folder):
    result = run("evaluate", "model", "reviews.csv", "--out", "scores.json", folder=folder)
    assert result.returncode == 0, result.stderr
    scores = json.loads((folder / "scores.json").read_text())
    assert f"Macro-F1 {scores['macro_f1']:.1%}" in result.stdout
    assert sum(entry["support"] for entry in scores["per_class"]) == 400


def test_embed_writes_arrays_and_tables(folder):
    assert run("embed", "model", "new.csv", "--out", "vectors.npy", folder=folder).returncode == 0
    assert run("embed", "model", "new.csv", "--out", "vectors.parquet", folder=folder).returncode == 0
    vectors = np.load(folder / "vectors.npy")
    np.testing.assert_array_equal(vectors, np.stack(pl.read_parquet(folder / "vectors.parquet")["embedding"].to_list()))


def test_a_configuration_file_sets_what_flags_overrule(folder, tiny_encoder):
    (folder / "config.toml").write_text(f'encoder = "{tiny_encoder}"\nepochs = 0\nrounds = 3\nmax_length = 24\n')
    words = ["train", "reviews.csv", "--out", "configured", "--config", "config.toml", "--rounds", "1", "--no-labels"]
    result = run(*words, "--test-share", "0", folder=folder)
    assert result.returncode == 0, result.stderr
    settings = saft.load(folder / "configured").settings
    assert (settings.epochs, settings.rounds, settings.labels, settings.max_length) == (0, 1, False, 24)
    assert "validation part" in result.stdout


def test_a_preset_of_a_configuration_file_is_overruled_by_settings_and_by_a_preset_of_the_command_line(folder):
    chosen = saft_settings(folder, 'preset = "fast"\nrounds = 3\n', [])
    assert (chosen.preset, chosen.rounds) == ("fast", 3)
    chosen = saft_settings(folder, 'preset = "balanced"\ntrained_layers = 1\n', ["--encoder", "x", "--rounds", "1"])
    assert (chosen.preset, chosen.trained_layers, chosen.encoder, chosen.rounds) == ("best", 1, "x", 1)
    assert saft_settings(folder, 'preset = "fast"\n', ["--preset", "balanced"]).preset == "balanced"
    assert saft_settings(folder, 'encoder = "x"\n', ["--preset", "fast"]).preset == "fast"  # as flags overrule files


def saft_settings(folder: Path, config: str, words: list[str]) -> Settings:
    """The settings that a training with this configuration file and these flags would have."""
    (folder / "presets.toml").write_text(config)
    flags = dict(zip((word[2:].replace("-", "_") for word in words[::2]), words[1::2], strict=True))
    preset = flags.pop("preset", None)
    typed = {name: int(value) if value.isdigit() else value for name, value in flags.items()}
    return Settings.of(settings_from(folder / "presets.toml", typed, preset).settings)


@pytest.mark.parametrize("preset", ["fast", "balanced"])
def test_a_preset_without_training_is_trained_used_and_reported_without_talk_of_epochs(folder, tiny_encoder, preset):
    encoder = [] if preset == "fast" else ["--encoder", tiny_encoder, *QUICK]
    made = run("train", "reviews.csv", "--out", preset, "--preset", preset, *encoder, folder=folder)
    assert made.returncode == 0, made.stderr
    first, second = made.stderr.splitlines()
    assert re.fullmatch(r"About \d+ (seconds|minutes)( ?;.*)?\.", first)
    assert second.startswith("Regression: validation Macro-F1")
    assert "a regression, no encoder was trained. Validation:" in made.stdout
    card = (folder / preset / "README.md").read_text()
    assert f"Preset {preset}." in card
    for text in (made.stderr, made.stdout, card.partition("| setting | value |")[0]):
        assert "epoch" not in text.lower()
    assert "without messages in layers" not in card
    assert run("predict", preset, "new.csv", "--out", f"{preset}.csv", folder=folder).returncode == 0
    assert run("embed", preset, "new.csv", "--out", f"{preset}.npy", folder=folder).returncode == 0
    assert "no interrupted training" in run(
        "train", "reviews.csv", "--out", preset, "--preset", preset, *encoder, "--resume", folder=folder
    ).stderr  # fmt: skip


def test_tuning_a_preset_without_training_tries_what_the_regression_reads(folder):
    words = ["train", "reviews.csv", "--out", "tuned-fast", "--preset", "fast", "--tune", "20", "--no-neighbour-words"]
    result = run(*words, folder=folder)
    assert result.returncode == 0, result.stderr
    tried = [line.partition(": ")[0] for line in result.stderr.splitlines() if line.startswith("Trial")]
    assert tried == ["Trial 1/2", "Trial 2/2"]
    assert "for 3 trainings" in result.stderr


def test_before_training_it_says_about_how_long_that_will_take(folder):
    assert re.search(r"^About \d+ seconds", (folder / "output.txt").read_text(), re.MULTILINE)


def test_tuning_tries_settings_and_trains_with_the_best(folder, tiny_encoder):
    words = ["train", "reviews.csv", "--out", "tuned", "--encoder", tiny_encoder, *QUICK, "--epochs", "1"]
    result = run(*words, "--tune", "2", "--dropout", "0.3", folder=folder)
    assert result.returncode == 0, result.stderr
    assert "Trial 1/2: validation Macro-F1" in result.stderr
    assert "Trial 2/2: validation Macro-F1" in result.stderr
    assert saft.load(folder / "tuned").settings.dropout == 0.3


def test_a_killed_training_is_continued_with_resume_and_not_lost_without(folder, tiny_encoder):
    words = ["train", "reviews.csv", "--out", "killed", "--encoder", tiny_encoder, *QUICK, "--epochs", "40"]
    words += ["--patience", "40"]
    process = subprocess.Popen([SAFT, *words], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not process.stderr.readline().startswith("Epoch  2"):
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    refused = run(*words, folder=folder)
    assert refused.returncode == 2
    assert "Add --resume to go on" in refused.stderr
    assert "interrupted" in run("predict", "killed", "new.csv", "--out", "p.csv", folder=folder).stderr
    process = subprocess.Popen(
        [SAFT, *words, "--resume"], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr.readline().startswith("Start   : validation Macro-F1")
    first = process.stderr.readline()
    assert first.startswith("Epoch ")
    assert int(first[6:8]) > 1
    process.send_signal(signal.SIGINT)  # Ctrl-C
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "interrupted; the best model so far is kept" in errors
    assert saft.load(folder / "killed").report().interrupted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "reviews.csv", "--out", "model"], "holds a model already"),
        (["train", "reviews.csv", "--out", "reviews.csv"], "is a file; a model needs a folder"),
        (["train", "reviews.csv", "--out", "m", "--resume"], "no interrupted training"),
        (["train", "reviews.csv", "--out", "m", "--fusion", "papr"], "Did you mean 'paper'?"),
        (["train", "reviews.csv", "--out", "m", "--preset", "fst"], "no preset 'fst'. Did you mean 'fast'?"),
        (["train", "reviews.csv", "--out", "m", "--config", "preset.toml"], "no preset 'balnced'. Did you mean"),
        (["train", "reviews.csv", "--out", "m", "--config", "bad.toml"], "has no setting 'epocs'. Did you mean"),
        (["train", "reviews.csv", "--out", "m", "--config", "new.csv"], "is not a TOML file"),
        (["train", "reviews.csv", "--out", "m", "--config", "none.toml"], "cannot be read"),
        (["train", "reviews.csv", "--out", "m", "--how", "tempral"], "Did you mean 'temporal'?"),
        (["train", "reviews.csv", "--out", "m", "--test-share", "0.95"], "leave too little"),
        (["train", "reviews.csv", "--out", "m", "--encoder", "./nowhere"], "no folder ./nowhere"),
        (["train", "reviews.csv", "--out", "m", "--encoder", "no/such-model"], "'no/such-model' cannot be loaded"),
        (["train", "new.csv", "--out", "m"], "label"),
        (["predict", "nothing", "new.csv", "--out", "p.csv"], "There is no model folder nothing"),
        (["predict", "model", "none.csv", "--out", "p.csv"], "There is no file none.csv"),
        (["predict", "model", "new.csv", "--out", "p.docx"], "cannot write this format"),
        (["evaluate", "model", "new.csv"], "none of these rows has a label"),
        (["evaluate", "model", "strange.csv"], "'fraud'"),
        (["embed", "model", "new.csv", "--out", "v.csv"], "ends in .npy, .parquet"),
    ],
)
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_written(folder, words, message):
    (folder / "bad.toml").write_text("epocs = 3\n")
    (folder / "preset.toml").write_text('preset = "balnced"\n')
    pl.DataFrame([{"user": "u", "item": "i", "text": "x", "label": "fraud"}]).write_csv(folder / "strange.csv")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    result = run(*words, folder=folder)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in result.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


def test_every_setting_is_a_flag_with_its_help(folder):
    from saft.settings import HELP, PRESET_HELP

    text = subprocess.run(
        [SAFT, "train", "--help"], capture_output=True, text=True, env={**os.environ, "COLUMNS": "300"}, check=True
    ).stdout
    for name, line in HELP.items():
        assert f"--{name.replace('_', '-')} " in text
        assert line in text
    assert "--preset" in text
    words = " ".join(text.replace("│", " ").split())
    for name, line in PRESET_HELP.items():
        assert f"{name}: {line}" in words
