"""The commands as a new user runs them, in a process of their own.

Covers: cli.console, cli.data.
"""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

SAFT = Path(sys.executable).parent / "saft"


def run(*words, folder) -> subprocess.CompletedProcess:
    return subprocess.run([SAFT, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=120)


def test_help_lists_the_commands_without_loading_anything_heavy():
    script = "import sys, saft.cli.app; print(sorted({'torch', 'polars', 'numpy', 'rich.table'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_demo_writes_a_table_and_a_picture_that_inspect_can_read(tmp_path):
    made = run("demo", "--size", 400, "--seed", 3, "--no-train", folder=tmp_path)
    assert made.returncode == 0
    assert made.stderr == ""
    assert "suspicious" in made.stdout
    assert (tmp_path / "saft-demo" / "network.png").stat().st_size > 10_000
    read = run("inspect", "saft-demo/interactions.csv", "--plot", "seen.png", folder=tmp_path)
    assert read.returncode == 0
    assert "400" in read.stdout
    assert "Columns: user = user, item = item, text = text, label = label, time = time" in read.stdout
    assert (tmp_path / "seen.png").is_file()


def test_there_is_nothing_to_serve_without_training(tmp_path):
    refused = run("demo", "--size", 400, "--no-train", "--serve", folder=tmp_path)
    assert refused.returncode == 2
    assert "nothing to serve" in refused.stderr
    assert not (tmp_path / "saft-demo").exists()


def test_inspect_takes_many_files_and_column_names(tmp_path, rows):
    frame = pl.DataFrame(rows).rename({"text": "said"})
    frame[:2].write_csv(tmp_path / "a.csv")
    frame[2:].write_csv(tmp_path / "b.csv")
    result = run("inspect", "a.csv", "b.csv", "--text", "said", folder=tmp_path)
    assert result.returncode == 0
    assert "2 files" in result.stdout
    assert "text = said" in result.stdout


def test_notes_go_to_standard_error_and_do_not_stop_the_command(tmp_path, rows):
    pl.DataFrame([row | {"text": ""} for row in rows]).write_csv(tmp_path / "a.csv")
    result = run("inspect", "a.csv", folder=tmp_path)
    assert result.returncode == 0
    assert "Note: a.csv: column 'text' has no text in 4 rows (1, 2, 3, 4) of 4." in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inspect", "nothing.csv"], "There is no file nothing.csv."),
        (["inspect", "a.csv", "--user", "usr"], "Did you mean 'user'?"),
        (["inspect", "one.csv"], "one class only"),
        (["inspect", "a.csv", "--plot", "a.docx"], "has to end in .png"),
        (["demo", "--size", "3"], "at least 200 interactions"),
        (["demo", "--labels", "stars"], "has no labels 'stars'"),
        (["demo", "--out", "a.csv"], "Cannot write a.csv/interactions.csv"),
    ],
)
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_written(tmp_path, rows, words, message):
    pl.DataFrame(rows).write_csv(tmp_path / "a.csv")
    pl.DataFrame(rows[:1]).write_csv(tmp_path / "one.csv")
    before = sorted(tmp_path.rglob("*"))
    result = run(*words, folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_unlabelled_rows_can_be_inspected_with_a_flag(tmp_path, rows):
    pl.DataFrame(rows).drop("label").write_csv(tmp_path / "new.csv")
    assert run("inspect", "new.csv", folder=tmp_path).returncode == 2
    result = run("inspect", "new.csv", "--unlabelled", folder=tmp_path)
    assert result.returncode == 0
    assert "4 (100.0%)" in result.stdout


def test_the_version_is_printed(tmp_path):
    import saft

    assert run("--version", folder=tmp_path).stdout.strip() == f"saft {saft.__version__}"
