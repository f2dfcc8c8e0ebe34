"""One server per file, starts that fail, and what is no database of ours."""

import sqlite3
import subprocess
import sys

import pytest

import saft
from saft.server.database import Database
from saft.server.store import Store
from saft.server.team import Caller
from tests.server.conftest import serve


def dump(path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = list(connection.iterdump())
    connection.close()
    return found


def test_a_second_server_on_one_file_is_refused_and_the_lock_dies_with_its_process(tmp_path):
    path = tmp_path / "kept.sqlite"
    code = (
        f"from saft.server.database import Database; held = Database({str(path)!r}); held.serve_alone(); "
        "print('held', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(saft.InputError, match=r"Another server uses .*kept.sqlite"):
            Database(path).serve_alone()
        holder.kill()
    for _ in range(2):
        database = Database(path)
        database.serve_alone()
        database.serve_alone()
        database.close()


def test_a_folder_that_cannot_be_written_is_named_in_a_sentence(tmp_path):
    (tmp_path / "kept.sqlite.lock").mkdir()
    with pytest.raises(saft.InputError, match=r"kept.sqlite cannot be used to keep interactions"):
        Database(tmp_path / "kept.sqlite").serve_alone()


def test_two_servers_share_a_database_of_postgresql(postgres):
    where = postgres.new_database()
    first, second = Database(where), Database(where)
    first.serve_alone()
    second.serve_alone()


@pytest.mark.parametrize("fails", ["suspicious class", "on the way"])
def test_a_start_that_fails_changes_nothing(model_folder, tmp_path, monkeypatch, fails):
    path = tmp_path / "kept.sqlite"
    service = serve(model_folder, path)
    service.reviews.judge(["t260", "t261"], "spam", Caller("kim"))
    service.close()
    before = dump(path)

    def full(*_given):
        raise OSError("disk full")

    monkeypatch.setattr(Store, "mark_current", full)  # the last thing that a start writes
    with pytest.raises((saft.InputError, OSError), match=r"no class|disk full"):
        serve(model_folder, path, "other", **{"suspicious": "nonsense"} if fails == "suspicious class" else {})
    assert dump(path) == before
    monkeypatch.undo()
    serve(model_folder, path, "other").close()  # and the lock is free


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"something else " * 100, "cannot be used to keep interactions: file is not a database"),
        ("CREATE TABLE interactions (a)", "holds tables of another program"),
    ],
)
def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path, content, message):
    path = tmp_path / "x.sqlite"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        connection = sqlite3.connect(path)
        connection.execute(content)
        connection.close()
    before = path.read_bytes()
    with pytest.raises(saft.InputError, match=message):
        Database(path).check()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("mysql://somewhere/x", "mysql:// is not known"),
        ("postgresql://host:port/x", "is not a database"),
        ("no/such/folder/x.sqlite", "no folder"),
    ],
)
def test_where_nothing_can_be_kept_is_refused(where, message):
    with pytest.raises(saft.InputError, match=message):
        Database(where)


def test_a_server_that_cannot_be_reached_is_named_without_its_password():
    with pytest.raises(saft.InputError, match=r"ann:\*\*\*@127.0.0.1:1/x cannot be used .* failed") as refused:
        Database("postgresql://ann:secret@127.0.0.1:1/x").check()
    assert "secret" not in str(refused.value)


def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_works(where):
    database = Database(where)
    with database.opening():
        pass

    def broken():
        with database.writing():
            database.set_fact("a", "1")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    assert database.fact("a") is None
    database.set_fact("a", "2")
    assert database.fact("a") == "2"
    database.close()
