"""What the documents say is true: their code runs, their commands work, their links lead somewhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import saft

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with the files that the README speaks of."""
    frame = saft.demo_network(600).to_frame()
    frame.write_csv(tmp_path / "reviews.csv")
    pl.DataFrame([{"user": "somebody new", "item": frame["item"][0], "text": "lovely"}]).write_csv(tmp_path / "new.csv")
    (tmp_path / "exports").mkdir()
    frame.rename({"label": "stars"}).lazy().sink_ndjson(tmp_path / "exports" / "a.json.gz", compression="gzip")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def blocks(language: str, document: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("document", ["README.md", "docs/model.md"])
def test_the_code_of_the_documents_runs(folder, document):
    for block in blocks("python", (ROOT / document).read_text()):
        names: dict = {}
        exec(compile(block, document, "exec"), names)  # noqa: S102 (our own document)
        assert names["table"]["prediction"].len() == 1
        assert (folder / "model" / "model.json").is_file()


@pytest.mark.slow
def test_the_code_of_the_guide_to_serving_runs(folder, capsys):
    [block] = blocks("python", (ROOT / "docs" / "serving.md").read_text())
    exec(compile(block, "docs/serving.md", "exec"), {})  # noqa: S102 (our own document)
    assert "WordEffect" in capsys.readouterr().out


@pytest.mark.slow
def test_the_code_of_the_guide_to_methods_runs(folder):
    [block] = blocks("python", (ROOT / "docs" / "methods.md").read_text())
    names: dict = {}
    exec(compile(block, "docs/methods.md", "exec"), names)  # noqa: S102 (our own document)
    assert set(names["table"]["method"]) == {"tfidf", "sbert_gcn"}


def test_the_guide_to_methods_names_every_method_and_choice():
    from saft.methods import find, names

    guide = (ROOT / "docs" / "methods.md").read_text()
    assert [name for name in names() if f"`{name}`" not in guide] == []
    assert [option for name in names() for option in find(name).options if f"`{option}`" not in guide] == []


@pytest.mark.slow
def test_the_commands_of_the_readme_work(folder):
    commands = [line.partition("#")[0] for block in blocks("sh") for line in block.splitlines()]
    ours = [shlex.split(line) for line in commands if line.startswith("saft ")]
    assert {words[1] for words in ours} == {"inspect", "train", "predict", "evaluate", "compare"}
    for words in ours:
        subprocess.run(
            [Path(sys.executable).parent / words[0], *words[1:]], check=True, capture_output=True, timeout=120
        )
    assert (folder / "reviews.png").is_file()
    assert (folder / "trained" / "report.html").is_file()
    assert (folder / "saft-comparison" / "leaderboard.png").is_file()
    assert pl.read_csv(folder / "predicted.csv").height == 1


def test_every_make_target_the_readme_names_exists():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"\bmake (\w+)", README)
    assert {"demo", "test", "bench"} <= set(targets)
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_test_that_the_map_from_paper_to_code_names_exists():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "paper_to_code.md").read_text()))
    written = set(re.findall(r"def (test_\w+)", "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))))
    assert named <= written
    assert named


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_are_short_and_run(script, folder):
    assert len(script.read_text().splitlines()) < 60
    for arguments in ([], [folder / "reviews.csv"]):
        result = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr


def test_the_demo_table_reads_back_as_the_network_it_was_written_from(folder):
    network, frame = saft.read(folder / "reviews.csv"), saft.demo_network(600).to_frame()
    assert network.to_frame().drop("time").equals(frame.drop("time"))
    assert pl.Series(network.times).equals(frame["time"], check_names=False)
