"""Who may ask, from where, and what a browser may do with the answer. No model is needed to refuse."""

import hashlib
import json
import re
from types import SimpleNamespace

import pytest
from fastapi import HTTPException
from fastapi.testclient import TestClient

from saft.server import security
from saft.server.app import create_app
from saft.server.limits import Limits
from saft.server.security import GUESSES, Guesses
from saft.server.team import Caller, Team

BODY = {"interactions": [{"user": "ann", "item": "lamp", "text": "Bright."}]}
LOADING = 503  # whoever gets this far was let in


def never():
    raise RuntimeError("there is no model")


class Idle:
    """A worker without a model: it lets in whom the team does, and answers nothing."""

    service = SimpleNamespace(team=Team(), close=lambda: None)

    async def stop(self):
        pass

    async def do(self, work, **how):
        raise HTTPException(LOADING)

    predict = do


def client(host: str = "127.0.0.1:8000", worker=Idle, **given) -> TestClient:
    app = create_app(never, **given)
    app.state.worker = worker()
    return TestClient(app, base_url=f"http://{host}", raise_server_exceptions=False)


OWN = ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "192.168.1.7", "review.example:8000"]


@pytest.mark.parametrize("host", OWN)
def test_the_server_answers_under_its_own_names_and_under_addresses(host):
    with client(host, hosts={"review.example"}) as asking:
        assert asking.get("/health").status_code == 200
        assert asking.post("/predict", json=BODY).status_code == LOADING


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "[::1", ""])
def test_another_name_that_leads_here_is_refused(host):
    with client(hosts={"review.example"}) as asking:
        for answer in (asking.get("/", headers={"Host": host}), asking.get("/interactions", headers={"Host": host})):
            assert answer.status_code == 400
            assert "--allowed-host" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8000", LOADING),
        ("http://review.example", LOADING),  # a proxy changes the name of the host
        ("http://127.0.0.1:9000", 403),
        ("http://localhost:9000", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
def test_only_pages_of_this_server_may_change_something(origin, status):
    with client(hosts={"review.example"}) as asking:
        for path in ("/predict", "/labels", "/interactions"):
            assert asking.post(path, json=BODY, headers={"Origin": origin}).status_code in {status, LOADING, 422} - (
                {LOADING, 422} if status == 403 else set()
            )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"])
def test_a_body_that_is_not_said_to_be_json_is_refused(kind):
    """Browsers send these to other sites without asking there."""
    with client() as asking:
        answer = asking.post("/predict", content=json.dumps(BODY), headers={"Content-Type": kind})
        assert answer.status_code == 422
        assert "Content-Type: application/json" in answer.json()["detail"]
        said = {"Content-Type": "application/json; charset=utf-8"}
        assert asking.post("/predict", content=json.dumps(BODY), headers=said).status_code == LOADING


PATHS = ["/", "/page.js", "/health", "/ready", "/docs", "/redoc", "/openapi.json", "/report", "/metrics", "/none"]


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_a_policy_that_forbids_framing_and_guessing_of_types(path):
    with client() as asking:
        headers = asking.get(path).headers
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"] or path in ("/", "/page.js", "/docs", "/redoc")
    assert (headers["X-Content-Type-Options"], headers["X-Frame-Options"]) == ("nosniff", "DENY")


def test_a_failure_has_the_same_headers_and_tells_nothing_of_the_inside(monkeypatch):
    asking = client()
    monkeypatch.setattr(asking.app.state.metrics, "text", lambda: 1 / 0)
    answer = asking.get("/metrics")
    assert answer.status_code == 500
    assert "division" not in answer.text
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_report_is_shown_in_a_sandbox(tmp_path):
    (tmp_path / "report.html").write_text("<script>alert(1)</script>")
    with client(report=tmp_path / "report.html") as asking:
        assert asking.get("/report").headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")


def test_documents_load_nothing_from_elsewhere_and_what_they_load_is_there():
    with client() as asking:
        for path in ("/docs", "/redoc"):
            page = asking.get(path).text
            for link in re.findall(r'(?:src|href)="([^"]+)"', page):
                if "fonts.googleapis" not in link:  # redoc's; the policy blocks them
                    assert asking.get(link).status_code == 200, link


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json", "/metrics", "/report", "/interactions", "/none"])
def test_with_a_token_everything_but_the_page_and_the_state_needs_it(path):
    with client(token="secret-word") as asking:
        assert asking.get(path).status_code == 401
        assert asking.get(path).headers["WWW-Authenticate"] == "Bearer"
        assert asking.get(path, headers={"Authorization": "Bearer secret-word"}).status_code != 401
        for public in ("/", "/page.css", "/page.js", "/health"):
            assert asking.get(public).status_code == 200


def test_without_the_token_no_byte_of_a_body_is_read():
    sent = []

    def body():
        for number in range(100):
            sent.append(number)
            yield b"x" * 10_000

    async def receive():
        raise AssertionError("the body was read")

    async def send(message):
        sent.append(message)

    app = create_app(never, token="secret-word")
    scope = {
        "type": "http", "method": "POST", "path": "/predict", "headers": [(b"content-type", b"application/json")],
        "client": ("10.0.0.1", 5), "query_string": b"", "http_version": "1.1", "scheme": "http", "server": ("h", 80),
        "root_path": "", "raw_path": b"/predict",
    }  # fmt: skip
    import asyncio

    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 401
    assert (b"connection", b"close") in sent[0]["headers"]


def test_guessing_is_slowed_down_per_address_and_the_right_token_works_again_after_a_while(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(security.time, "monotonic", lambda: now[0])
    with client(token="secret-word") as asking:
        wrong, right = {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer secret-word"}
        statuses = [asking.get("/metrics", headers=wrong).status_code for _ in range(30)]
        assert statuses == [401] * int(GUESSES) + [429] * (30 - int(GUESSES))
        assert asking.get("/metrics", headers=right).status_code == 429  # or guessing would go on
        now[0] += 3
        assert asking.get("/metrics", headers=right).status_code == 200


def test_addresses_that_guess_are_remembered_within_bounds(monkeypatch):
    monkeypatch.setattr(security, "MOST_ADDRESSES", 50)
    guesses = Guesses()
    for number in range(500):
        guesses.count(str(number))
    assert len(guesses._left) == 50
    assert guesses.left("499") < GUESSES == guesses.left("1")


def test_a_length_beside_chunks_is_refused():
    with client() as asking:
        both = {"Content-Length": "3", "Transfer-Encoding": "chunked", "Content-Type": "application/json"}
        assert asking.post("/predict", content=b"{}", headers=both).status_code == 400


def test_invented_methods_and_paths_do_not_make_the_figures_grow():
    with client() as asking:
        for number in range(40):
            asking.request(f"INVENTED{number}", f"/none{number}", headers={"Content-Type": "application/json"})
        figures = asking.get("/metrics").text
    assert "INVENTED" not in figures
    assert "/none" not in figures
    assert 'method="other"' in figures


def test_a_parameter_that_is_not_known_is_refused_with_the_nearest_one():
    with client() as asking:
        answer = asking.get("/interactions", params={"labeled": "true"})
        assert (answer.status_code, "Did you mean 'labelled'?" in answer.json()["detail"]) == (422, True)
        assert asking.get("/interactions", params={"labelled": "true"}).status_code == LOADING


def validated(body: str):
    """The answer to a body of /predict, if it is refused before a model is needed."""
    asking = client()
    return asking.post("/predict", content=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    "row",
    [
        {"user": 10**4000},
        {"user": "\ud800"},
        {"user_attributes": {"age": 1e308}},
        {"user_attributes": {"age": -1e31}},
        {"item_attributes": {"age": 10**400}},
        {"user": ""},
        {"user": True},
    ],
)
def test_absurd_numbers_and_ids_are_refused_without_names_from_inside_the_server(row):
    given = {"user": "ann", "item": "lamp", "text": "Bright."} | row
    answer = validated(json.dumps({"interactions": [given]}))
    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert next(iter(row)) in detail
    assert not re.search(r"function|0x[0-9a-f]+|lambda|constrained|_writable", detail)


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_attributes_that_are_no_numbers_are_refused(written):
    body = f'{{"interactions": [{{"user": "a", "item": "b", "user_attributes": {{"age": {written}}}}}]}}'
    assert validated(body).status_code == 422


def test_a_body_that_does_not_arrive_in_time_is_refused():
    import asyncio

    sent = []

    async def receive():
        await asyncio.sleep(5)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/predict", "headers": [(b"content-type", b"application/json")],
        "client": ("10.0.0.1", 5), "query_string": b"", "http_version": "1.1", "scheme": "http", "server": ("h", 80),
        "root_path": "", "raw_path": b"/predict",
    }  # fmt: skip
    app = create_app(never, Limits(body_seconds=0.2))
    app.state.worker = Idle()
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize("path", ["/docs", "/report", "/openapi.json", "/metrics", "/interactions"])
def test_while_the_model_is_loaded_nobody_is_let_in_who_may_turn_out_to_need_a_token(path):
    with client(worker=lambda: None) as asking:
        answer = asking.get(path)
        assert answer.status_code == 503
        assert "being loaded" in answer.json()["detail"]
    with client(worker=lambda: None, token="secret-word") as asking:
        assert asking.get(path).status_code == 401
        statuses = [asking.get(path, headers={"Authorization": "Bearer of-kim"}).status_code for _ in range(30)]
        assert statuses == [503] * 30  # it may be a reviewer's: that is no guess
        assert asking.get("/metrics", headers={"Authorization": "Bearer secret-word"}).status_code == 200


def test_the_token_of_a_reviewer_is_known_before_a_body_is_read():
    kim = Team(True, {hashlib.sha256(b"of-kim").hexdigest(): Caller("kim", "read")})
    worker = type("Busy", (Idle,), {"service": SimpleNamespace(team=kim, close=lambda: None)})
    with client(worker=worker) as asking:
        assert asking.post("/predict", json=BODY).status_code == 401
        assert asking.post("/predict", json=BODY, headers={"Authorization": "Bearer of-lee"}).status_code == 401
        assert asking.post("/predict", json=BODY, headers={"Authorization": "Bearer of-kim"}).status_code == LOADING
