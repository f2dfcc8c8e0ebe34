"""``saft export``, ``saft reviewer`` and ``saft serve --queue`` as a person runs them.

Covers: server.exporting.
"""

import sqlite3
import subprocess
import sys

import httpx
import polars as pl
import pytest

import saft
from saft import SaftClassifier
from saft.online.live import Interaction
from saft.server import team
from saft.server.database import Database
from tests.server.conftest import serve, serving
from tests.server.format_1 import Format1

ROWS = [
    Interaction("ann", "lamp", 'it said "new"', time="2024-05-31T12:30:00"),
    Interaction("bob", "rug", "öh", "spam"),
]


def saft_command(*words, folder) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "saft", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def sentence(done: subprocess.CompletedProcess) -> str:
    """What a refusal says, in one line."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


@pytest.fixture(scope="module")
def model(tiny_settings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    SaftClassifier(**tiny_settings).fit(saft.demo_network(300)).save(folder)
    return folder


@pytest.fixture
def judged(model, tmp_path):
    """A database with two interactions that came in and one of training; two are judged."""
    service = serve(model, tmp_path / "kept.sqlite")
    keys = service.add(ROWS)
    for label in ("spam", "genuine"):
        service.reviews.judge([keys[0]], label, team.Caller("kim"), "looks fine" if label == "genuine" else None)
    service.reviews.judge(["t7"], "suspicious", team.Caller("lee"))
    service.close()
    return tmp_path / "kept.sqlite"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_export_writes_the_last_verdicts_with_what_they_are_about(judged, tmp_path, ending):
    done = saft_command("export", judged, "--out", f"v.{ending}", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"3 rows, 2 of them judged\nTable: v.{ending}\n"
    table = {"csv": pl.read_csv, "jsonl": pl.read_ndjson, "parquet": pl.read_parquet}[ending](tmp_path / f"v.{ending}")
    told = table.select("user", "text", "label", "given", "verdict", "reviewer", "note").rows()
    assert told[0] == ("ann", 'it said "new"', "genuine", None, "genuine", "kim", "looks fine")
    assert told[1] == ("bob", "öh", "spam", "spam", None, None, None)
    assert told[2][2:] == ("suspicious", str(saft.demo_network(300).label_values()[7]), "suspicious", "lee", None)
    assert len(saft.read(tmp_path / f"v.{ending}")) == 3


def test_what_cannot_be_exported_ends_with_a_sentence_and_leaves_no_file(judged, tmp_path):
    (tmp_path / "other").write_bytes(b"something else " * 100)
    before = {path.name for path in tmp_path.iterdir()}
    for words, message in (
        (["nowhere.sqlite", "--out", "v.csv"], "no database of a server in nowhere.sqlite"),
        ([judged, "--out", "v.xlsx"], "cannot write this format"),
        (["other", "--out", "v.csv"], "cannot be used to keep interactions: file is not a database"),
        (["mysql://x/y", "--out", "v.csv"], "mysql:// is not known"),
    ):
        assert message in sentence(saft_command("export", *words, folder=tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == before


def test_export_of_an_earlier_format_says_where_the_copy_is(tmp_path):
    old = Format1(tmp_path / "kept.sqlite", "model", ["genuine", "spam"])
    old.judge(old.add(ROWS[0]), "spam", "kim")
    old.close()
    done = saft_command("export", "kept.sqlite", "--out", "v.csv", folder=tmp_path)
    assert done.returncode == 0
    [copy] = tmp_path.glob("kept.format-1-until-*.sqlite")
    assert copy.name in done.stderr.replace("\n", "")
    assert pl.read_csv(tmp_path / "v.csv")["verdict"].to_list() == ["spam"]


def test_reviewers_are_added_listed_and_removed(tmp_path):
    where = ["--database", "new.sqlite"]
    added = saft_command("reviewer", "add", "kim", "--role", "administer", *where, folder=tmp_path)
    token = added.stdout.strip()
    assert added.returncode == 0
    assert len(token) > 40
    database = Database(tmp_path / "new.sqlite")
    assert team.load(database).caller(token) == team.Caller("kim", "administer")
    database.close()
    assert saft_command("reviewer", "list", *where, folder=tmp_path).stdout == "kim: administer\n"
    again = saft_command("reviewer", "add", "kim", *where, folder=tmp_path)
    assert "a reviewer 'kim' already" in sentence(again)
    assert "no role 'boss'" in sentence(saft_command("reviewer", "add", "x", "--role", "boss", *where, folder=tmp_path))
    assert saft_command("reviewer", "remove", "kim", *where, folder=tmp_path).returncode == 0
    assert "There is no reviewer 'kim'" in sentence(saft_command("reviewer", "remove", "kim", *where, folder=tmp_path))
    audit = saft_command("export", "new.sqlite", "--out", "a.jsonl", "--what", "audit", folder=tmp_path)
    assert audit.stdout.startswith("2 rows\n")
    assert pl.read_ndjson(tmp_path / "a.jsonl")["action"].to_list() == ["reviewer added", "reviewer removed"]


def test_a_table_is_put_into_the_queue_once_however_often_the_server_starts(model, tmp_path):
    (tmp_path / "new.csv").write_text("who,item,text\nann,lamp,bright\nann,lamp,bright\n")
    options = ["--queue", str(tmp_path / "new.csv"), "--user", "who"]
    for _ in range(2):
        with serving(model, tmp_path / "kept.sqlite", *options) as server:
            assert server.client.get("/interactions", params={"labelled": False}).json()["total"] == 2
            refused = saft_command("serve", model, "--port", 0, "--database", tmp_path / "kept.sqlite", folder=tmp_path)
            assert "Another server uses" in sentence(refused)
            added = saft_command("reviewer", "list", "--database", tmp_path / "kept.sqlite", folder=tmp_path)
            assert added.returncode == 0
            assert httpx.get(f"{server.url}/me").status_code == 200


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user,item\nann,lamp\n", "no column looks like the text"),
        ("user,item,text\n,lamp,x\n", "column 'user' is empty in row 1"),
        ("user,item,text,label\nann,lamp,x,odd\n", "'odd' in row 1; the known classes are"),
    ],
)
def test_a_table_that_is_wrong_ends_the_start_with_a_sentence_and_no_database(model, tmp_path, content, message):
    (tmp_path / "new.csv").write_text(content)
    options = ["--port", 0, "--queue", "new.csv", "--no-onnx", "--database", "kept.sqlite"]
    assert message in sentence(saft_command("serve", model, *options, folder=tmp_path))
    assert not (tmp_path / "kept.sqlite").exists()


def test_a_database_of_another_program_is_not_taken_for_ours(tmp_path):
    connection = sqlite3.connect(tmp_path / "theirs.sqlite")
    connection.execute("CREATE TABLE interactions (a)")
    connection.close()
    done = saft_command("reviewer", "list", "--database", "theirs.sqlite", folder=tmp_path)
    assert "tables of another program" in sentence(done)
