"""Reviewers with tokens, over HTTP: who may do what, and what of it is written down.

Covers: server.access, server.incoming, server.review_routes, server.review_schemas, server.team_routes.
"""

import io
import tempfile
import time

import polars as pl
import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

import saft
from saft.server import app as app_module
from saft.server import security, team
from saft.server.app import create_app
from saft.server.database import Database
from saft.server.limits import Limits
from saft.server.loading import service_loader
from saft.server.routes import PAGE
from tests.server.conftest import serve

OPEN_TO_ALL = {"/health", "/ready", "/", *(f"/{file.name}" for file in PAGE.iterdir())}
A_FILE = {"Content-Type": "text/csv"}
CSV = "user,item,text\nann,lamp,bright\nbob,rug,\nann,lamp,bright\n"


@pytest.fixture
def client(model_folder, where, monkeypatch):
    monkeypatch.setattr(app_module, "REFRESH_SECONDS", 0.05)
    monkeypatch.setattr(security, "GUESSES", 1000.0)
    app = create_app(service_loader(model_folder, where, onnx=False), Limits(upload_kb=64, text_length=1000))
    with TestClient(app) as opened:
        while opened.get("/ready").status_code == 503:
            time.sleep(0.05)
        yield opened


@pytest.fixture
def tokens(client, where):
    """Headers of a reader, two reviewers and one who administers; added while the server runs."""
    database = Database(where)
    roles = {"rae": "read", "kim": "review", "lee": "review", "boss": "administer"}
    found = {name: {"Authorization": f"Bearer {team.add(database, name, role)}"} for name, role in roles.items()}
    database.close()
    wait_until(lambda: client.get("/me").status_code == 401)
    wait_until(lambda: client.get("/me", headers=found["boss"]).status_code == 200)
    return found


def wait_until(condition, seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_every_route_but_those_that_are_open_wants_a_token_and_a_role(client, tokens):
    least = {
        ("POST", "/interactions"): "review", ("POST", "/interactions/upload"): "review", ("POST", "/labels"): "review",
        ("POST", "/labels/bulk"): "review", ("POST", "/labels/undo"): "review", ("POST", "/claims"): "review",
        ("DELETE", "/claims/{id}"): "review", ("GET", "/export"): "administer", ("GET", "/audit"): "administer",
        ("POST", "/model/reload"): "administer",
    }  # fmt: skip
    routes = [route for part in app_module.ROUTERS for route in part.routes if isinstance(route, APIRoute)]
    asked = {(method, route.path) for route in routes for method in route.methods if route.path not in OPEN_TO_ALL}
    asked -= {("GET", "/interactions/upload")}  # refused for everybody
    assert set(least) <= asked
    for method, path in asked:
        url = path.replace("{id}", "t3")
        kind = A_FILE if path.endswith("upload") else {"Content-Type": "application/json"}
        assert client.request(method, url).status_code == 401, path
        assert client.request(method, url, headers={"Authorization": "Bearer no"}).status_code == 401, path
        for name, may in (("rae", ()), ("kim", ("review",)), ("boss", ("review", "administer"))):
            status = client.request(method, url, headers=tokens[name] | kind).status_code
            refused = (method, path) in least and least[method, path] not in may
            assert (status == 403) == refused, (method, path, name, status)


def test_verdicts_are_signed_by_the_token_whatever_the_request_says(client, tokens):
    given = {"id": "t260", "label": "spam", "reviewer": "somebody else", "note": "seen before"}
    assert client.post("/labels", json=given, headers=tokens["kim"]).json()["label"] == "spam"
    [told] = client.get("/interactions/t260/history", headers=tokens["rae"]).json()["verdicts"]
    assert (told["reviewer"], told["note"], told["label"]) == ("kim", "seen before", "spam")
    refused = client.post("/labels", json={"id": "t260", "label": None}, headers=tokens["lee"])
    assert (refused.status_code, "somebody else's" in refused.json()["detail"]) == (403, True)
    assert client.get("/me", headers=tokens["lee"]).json() == {"name": "lee", "role": "review", "team": True}


def test_claims_bulk_and_undo_over_http(client, tokens):
    claimed = client.post("/claims", json={"count": 2, "order": "oldest"}, headers=tokens["kim"]).json()
    assert [one["id"] for one in claimed["interactions"]] == ["t250", "t251"]
    assert (claimed["interactions"][0]["claimed_by"], claimed["minutes"]) == ("kim", 10)
    conflict = client.post("/labels", json={"id": "t250", "label": "spam"}, headers=tokens["lee"])
    assert conflict.status_code == 409
    assert client.delete("/claims/t251", headers=tokens["kim"]).status_code == 204
    asked = {"ids": ["t250", "t251", "t252"], "label": "spam"}
    judged = client.post("/labels/bulk", json=asked, headers=tokens["lee"]).json()
    assert (judged["ids"], judged["left_out"]) == (["t251", "t252"], ["t250"])
    back = client.post("/labels/undo", json={"batch": judged["batch"]}, headers=tokens["lee"]).json()
    assert back["ids"] == ["t251", "t252"]
    assert client.get("/interactions/t251", headers=tokens["lee"]).json()["label"] is None
    again = client.post("/labels/undo", json={"batch": judged["batch"]}, headers=tokens["lee"])
    assert again.status_code == 404
    neither = client.post("/labels/bulk", json={"label": "spam"}, headers=tokens["lee"])
    assert (neither.status_code, "either ids" in neither.json()["detail"]) == (422, True)


def test_a_removed_reviewer_is_refused_and_the_last_one_to_go_leaves_the_door_shut(client, tokens, where):
    database = Database(where)
    for name in tokens:
        team.remove(database, name)
    wait_until(lambda: client.get("/model", headers=tokens["boss"]).status_code == 401)
    assert client.get("/model").status_code == 401
    with pytest.raises(saft.InputError, match=r"There is no reviewer 'kim'\. There are: none"):
        team.remove(database, "kim")
    fresh = team.add(database, "kim", "read")
    assert team.members(database) == [("kim", "read")]
    with pytest.raises(saft.InputError, match="a reviewer 'kim' already"):
        team.add(database, "kim", "review")
    for name, role in ((" ", "read"), ("a\nb", "read"), ("x" * 201, "read"), ("ok", "boss")):
        with pytest.raises(saft.InputError, match=r"needs a name|no role"):
            team.add(database, name, role)
    database.close()
    wait_until(lambda: client.get("/model", headers={"Authorization": f"Bearer {fresh}"}).status_code == 200)


def test_no_token_is_stored(tokens, where):
    database = Database(where)
    with database.reading() as connection:
        stored = str(connection.execute(team.select(team.reviewers)).all())
    database.close()
    for headers in tokens.values():
        assert headers["Authorization"].removeprefix("Bearer ") not in stored


def test_a_table_goes_into_the_queue_whole_and_only_once(client):
    def upload(content: str | bytes, name: str = "new.csv"):
        return client.post("/interactions/upload", params={"name": name}, content=content, headers=A_FILE)

    first = upload(CSV).json()
    assert (len(first["ids"]), first["known"]) == (3, 0)
    assert "no text in row 2" in first["notes"][0]
    assert first["notes"][0].startswith("new.csv")
    again = upload(CSV + "ann,lamp,new\n").json()
    assert (len(again["ids"]), again["known"]) == (1, 3)
    shown = client.get("/interactions", params={"user": "ANN", "labelled": False}).json()
    assert shown["total"] == 3
    frame = pl.DataFrame({"user": ["eve"], "item": ["lamp"], "text": ["hm"], "label": ["spam"]})
    for name, write in (("x.parquet", frame.write_parquet), ("x.jsonl", frame.write_ndjson)):
        buffer = io.BytesIO()
        write(buffer)
        assert len(upload(buffer.getvalue(), name).json()["ids"]) == (name == "x.parquet")


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ("", 422, "new.csv is empty"),
        ("user,item,text\n", 422, "holds no interactions"),
        ("user,item,text\nann,,x\n", 422, "column 'item' is empty in row 1"),
        ("who,what\n1,2\n", 422, "new.csv"),
        ("user,item,text,label\nann,lamp,x,genuine\nann,lamp,y,odd\n", 422, "'odd' in row 2"),
        ("user,item,text\nann,lamp," + "x" * 1001, 422, "at most 1,000 characters; longer ones are in row 1"),
        ("user,item,text\nann,lamp,a\0b\n", 422, "NUL"),
        ("x" * 66_000, 413, "at most 64 kilobytes"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_the_sentence_of_the_command_line(client, content, status, message):
    before = client.get("/model").json()["stored"]
    response = client.post("/interactions/upload", params={"name": "new.csv"}, content=content, headers=A_FILE)
    assert (response.status_code, message in response.json()["detail"]) == (status, True), response.text
    assert tempfile.gettempdir() not in response.text
    assert client.get("/model").json()["stored"] == before


def test_what_was_decided_can_be_taken_out_as_a_table_that_saft_reads(client, tokens):
    client.post("/interactions/upload", params={"name": "a.csv"}, content=CSV, headers=tokens["kim"] | A_FILE)
    keys = [one["id"] for one in client.get("/interactions?user=ann", headers=tokens["kim"]).json()["interactions"]]
    for key, label in ((keys[0], "spam"), (keys[0], "genuine"), ("t260", "spam")):
        client.post("/labels", json={"id": key, "label": label, "note": "sure"}, headers=tokens["kim"])
    tables = {}
    for kind, reader in (("csv", pl.read_csv), ("jsonl", pl.read_ndjson), ("parquet", pl.read_parquet)):
        answer = client.get("/export", params={"format": kind}, headers=tokens["boss"])
        assert answer.headers["content-disposition"] == f'attachment; filename="verdicts.{kind}"'
        tables[kind] = reader(io.BytesIO(answer.content))
    table = tables["parquet"]
    assert table.height == 4
    for other in ("csv", "jsonl"):
        assert tables[other]["label"].to_list() == table["label"].to_list()
    [decided] = table.filter(id=keys[0]).to_dicts()
    assert (decided["label"], decided["verdict"], decided["reviewer"], decided["note"], decided["given"]) == (
        "genuine", "genuine", "kim", "sure", None,
    )  # fmt: skip
    assert decided["decided"].endswith("Z")
    network = saft.read(table.filter(pl.col("text") != ""))
    assert sorted(network.label_values().drop_nulls().to_list()) == ["genuine", "spam"]


def test_the_audit_log_says_who_did_what_in_order(client, tokens):
    client.post("/labels", json={"id": "t260", "label": "spam"}, headers=tokens["kim"])
    client.post("/labels", json={"id": "t260", "label": None}, headers=tokens["boss"])
    seen, after = [], 0
    while after is not None:
        page = client.get("/audit", params={"after": after, "limit": 2}, headers=tokens["boss"]).json()
        seen += page["entries"]
        after = page["next"]
    assert [(one["who"], one["action"]) for one in seen] == [
        *[(None, "reviewer added")] * 4, ("kim", "verdict"), ("boss", "taken back"),
    ]  # fmt: skip
    table = client.get("/export", params={"what": "audit", "format": "csv"}, headers=tokens["boss"])
    assert pl.read_csv(io.BytesIO(table.content))["action"].to_list() == [one["action"] for one in seen]


def test_agreement_over_http(client, tokens):
    assert client.get("/agreement", headers=tokens["rae"]).json()["alpha"] is None
    for key, ours, theirs in (("t260", "spam", "spam"), ("t261", "spam", "genuine"), ("t262", "genuine", "genuine")):
        client.post("/labels", json={"id": key, "label": ours}, headers=tokens["kim"])
        client.post("/labels", json={"id": key, "label": theirs}, headers=tokens["lee"])
    found = client.get("/agreement", headers=tokens["rae"]).json()
    assert (found["judged_twice"], found["disputed"]) == (3, 1)
    assert found["pairs"] == [{"reviewers": ["kim", "lee"], "both": 3, "agreed": 2, "kappa": pytest.approx(0.4)}]
    assert found["alpha"] == pytest.approx(1 - 2 / (18 / 5))
    disputes = client.get("/interactions", params={"disputed": True}, headers=tokens["rae"]).json()["interactions"]
    assert [(one["id"], one["disputed"]) for one in disputes] == [("t261", True)]


def test_without_reviewers_anybody_may_do_everything_under_the_name_they_give(client):
    assert client.get("/me").json() == {"name": None, "role": "administer", "team": False}
    client.post("/labels", json={"id": "t260", "label": "spam", "reviewer": "kim"})
    [told] = client.get("/interactions/t260/history").json()["verdicts"]
    assert told["reviewer"] == "kim"
    assert client.get("/export").status_code == client.get("/audit").status_code == 200
    assert "security" not in str(client.get("/openapi.json").json()["paths"])


def test_a_database_that_cannot_be_reached_for_a_while_costs_that_while_only(model_folder, postgres, monkeypatch):
    where = postgres.new_database()
    service = serve(model_folder, where)
    app = create_app(lambda: service)
    with TestClient(app) as client:
        wait_until(lambda: client.get("/ready").status_code == 200)
        postgres.cut_off(where)
        assert client.post("/labels", json={"id": "t260", "label": "spam"}).status_code == 503
        postgres.bring_back(where)
        wait_until(lambda: client.post("/labels", json={"id": "t260", "label": "spam"}).status_code == 200)
