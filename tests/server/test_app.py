"""A running server, over HTTP.

Covers: cli.serve, server.limits, server.loading, server.middleware, server.routes.
"""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

import saft
from saft.online.live import Interaction, LiveNetwork
from saft.server.app import create_app
from saft.server.limits import Limits
from saft.server.loading import service_loader
from tests.server.conftest import N, Server, serving

ROW = {"user": "somebody new", "item": "something new", "text": "It broke on the first day."}


@pytest.fixture(scope="module")
def live(model_folder) -> LiveNetwork:
    return LiveNetwork(saft.load(model_folder))


def predict(server, *rows) -> httpx.Response:
    return server.client.post("/predict", json={"interactions": list(rows)})


def test_predictions_are_those_of_the_library(server, live):
    network = saft.demo_network(N)
    known = {"user": network.user_ids[0], "item": network.item_ids[0], "text": "lovely"}
    predictions = predict(server, ROW, known).json()["predictions"]
    for row, prediction in zip((ROW, known), predictions, strict=True):
        expected = live.predict([Interaction(**row)])[0]
        assert prediction["label"] == expected.label
        np.testing.assert_allclose(list(prediction["probabilities"].values()), expected.probabilities, atol=1e-5)
        assert sum(prediction["probabilities"].values()) == pytest.approx(1)
    assert [(one["known_user"], one["known_item"]) for one in predictions] == [(False, False), (True, True)]


def test_added_interactions_are_stored_and_change_later_predictions(server):
    row = {"user": "an adder", "item": "an added thing", "text": "fine"}
    before = predict(server, row).json()["predictions"][0]
    added = [row | {"text": f"number {number}", "label": "spam"} for number in range(5)]
    response = server.client.post("/interactions", json={"interactions": added})
    assert response.status_code == 201
    ids = response.json()["ids"]
    assert len(ids) == 5
    after = predict(server, row).json()["predictions"][0]
    assert after["known_user"]
    assert after["probabilities"] != before["probabilities"]
    kept = server.client.get(f"/interactions/{ids[2]}").json()
    assert (kept["text"], kept["label"], kept["reviewed"]) == ("number 2", "spam", False)
    near = server.client.get(f"/neighbours/{ids[2]}").json()
    assert {one["id"] for one in near["by_user"]} == set(ids) - {ids[2]}
    assert near["interaction"]["id"] == ids[2]


def test_the_queue_is_paged_in_order_without_gaps_or_repeats(server):
    for order, key in (
        ("suspicious", lambda one: -one["probabilities"]["suspicious"]),
        ("uncertain", lambda one: max(one["probabilities"].values())),
    ):
        seen, after, total = [], None, None
        while after is not None or total is None:
            given = {"order": order, "limit": 7, "labelled": False} | ({"after": after} if after else {})
            page = server.client.get("/interactions", params=given).json()
            seen += page["interactions"]
            after, total = page["next"], page["total"]
        assert len(seen) == len({one["id"] for one in seen}) == total >= 50
        values = [key(one) for one in seen]
        assert values == sorted(values)


def test_the_queue_can_be_filtered(server):
    everything = server.client.get("/interactions", params={"limit": 200}).json()["interactions"]
    user, predicted = everything[0]["user"], everything[0]["predicted"]
    by_user = server.client.get("/interactions", params={"user": user}).json()["interactions"]
    assert {one["user"] for one in by_user} == {user}
    by_class = server.client.get("/interactions", params={"predicted": predicted, "limit": 200}).json()
    assert {one["predicted"] for one in by_class["interactions"]} == {predicted}
    assert by_class["total"] == len([one for one in everything if one["predicted"] == predicted])
    assert server.client.get("/interactions", params={"user": "nobody at all"}).json()["total"] == 0
    bad = server.client.get("/interactions", params={"after": "nonsense"})
    assert (bad.status_code, "next" in bad.json()["detail"]) == (422, True)


def test_a_verdict_is_stored_and_can_be_taken_back(server):
    first = server.client.get("/interactions", params={"labelled": False, "limit": 1}).json()["interactions"][0]
    decided = server.client.post("/labels", json={"id": first["id"], "label": "genuine", "reviewer": "kim"}).json()
    assert (decided["label"], decided["reviewed"]) == ("genuine", True)
    reviewed = server.client.get("/interactions", params={"reviewed": True}).json()["interactions"]
    assert first["id"] in {one["id"] for one in reviewed}
    back = server.client.post("/labels", json={"id": first["id"], "label": None}).json()
    assert (back["label"], back["reviewed"]) == (None, False)
    wrong = server.client.post("/labels", json={"id": first["id"], "label": "wonderful"})
    assert wrong.status_code == 422
    assert "genuine, spam, suspicious" in wrong.json()["detail"]
    relabelled = server.client.post("/labels", json={"id": "t3", "label": "spam"}).json()  # a row of training
    assert (relabelled["label"], relabelled["reviewed"]) == ("spam", True)


def test_explanations_name_words_neighbours_and_features(server, live):
    found = server.client.get("/explain/t7").json()
    expected = saft.explain(live, 7)
    assert found["label"] == expected.label
    assert [word["text"] for word in found["words"]] == [word.text for word in expected.words]
    assert {one["name"] for one in found["features"]} == {one.name for one in expected.features}
    assert all(server.client.get(f"/interactions/{one['id']}").status_code == 200 for one in found["neighbours"])
    assert server.client.post("/explain", json=ROW).json()["words"][0]["text"] == "It"


@pytest.mark.parametrize("path", ["/interactions/n99999", "/neighbours/t99999", "/explain/n0"])
def test_an_unknown_id_is_refused_with_status_404(server, path):
    response = server.client.get(path)
    assert response.status_code == 404
    assert "There is no interaction" in response.json()["detail"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "JSON"),
        ("[]", "dictionary"),
        ('{"interactions": []}', "at least 1"),
        ('{"interactions": [{"user": "a", "item": "b", "txt": "c"}]}', "txt"),
        ('{"interactions": [{"user": "", "item": "b"}]}', "user"),
        ('{"interactions": [{"user": "\\ud800", "item": "b"}]}', "Unicode"),
    ],
)
def test_a_bad_request_is_refused_with_a_sentence(server, body, message):
    response = server.client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert message in response.json()["detail"]


def test_pages_and_documents_are_there(server):
    assert "saft" in server.client.get("/").text
    for path in ("/page.css", "/page.js", "/docs", "/health", "/ready"):
        assert server.client.get(path).status_code == 200, path
    assert "http" not in server.client.get("/page.js").text.replace("http://www.w3.org/2000/svg", "")  # works offline
    paths = server.client.get("/openapi.json").json()["paths"]
    assert {"/predict", "/interactions", "/labels", "/neighbours/{id}", "/explain/{id}", "/metrics"} <= set(paths)
    predict(server, ROW)
    metrics = server.client.get("/metrics").text
    assert 'saft_requests_total{method="POST",route="/predict",status="200"}' in metrics
    assert "saft_predictions_total" in metrics


def test_limits_and_tokens_are_enforced_with_the_status_for_it(model_folder, tmp_path):
    (tmp_path / "token").write_text("secret-word\n")
    options = ["--rows", "3", "--text-length", "100", "--body-kb", "4", "--waiting", "1", "--gather-ms", "100"]
    options += ["--token-file", str(tmp_path / "token")]
    with serving(model_folder, tmp_path / "kept.sqlite", *options, token="secret-word") as server:
        assert predict(server, *[ROW] * 4).status_code == 422
        assert "At most 3" in predict(server, *[ROW] * 4).json()["detail"]
        assert predict(server, ROW | {"text": "x" * 101}).status_code == 422
        assert predict(server, ROW | {"text": "x" * 5000}).status_code == 413
        body = json.dumps({"interactions": [ROW | {"text": "x" * 5000}]}).encode()
        streamed = server.client.post(
            "/predict", content=(body[at : at + 100] for at in range(0, len(body), 100)),
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        assert (streamed.status_code, "kilobytes" in streamed.json()["detail"]) == (413, True)
        statuses = _predict_at_once(server, 24)
        assert set(statuses) <= {200, 429}
        assert 429 in statuses
        assert predict(server, ROW).status_code == 200
        _check_token(server)


def _check_token(server: Server) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret-word"}):
        response = httpx.post(f"{server.url}/predict", json={"interactions": [ROW]}, headers=headers)
        assert response.status_code == 401, headers
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert httpx.get(f"{server.url}/health").status_code == 200
    assert httpx.get(f"{server.url}/metrics").status_code == 401


def _predict_at_once(server: Server, clients: int) -> list[int]:
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: statuses.append(
                httpx.post(
                    f"{server.url}/predict", json={"interactions": [ROW]}, headers=server.client.headers, timeout=60
                ).status_code
            )
        )
        for _ in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def test_a_request_that_takes_too_long_ends_with_status_503(model_folder, tmp_path):
    app = create_app(service_loader(model_folder, tmp_path / "kept.sqlite", onnx=False), Limits(seconds=0.0001))
    with TestClient(app) as client:
        while client.get("/ready").status_code == 503:
            assert client.post("/predict", json={"interactions": [ROW]}).status_code == 503  # being loaded
            time.sleep(0.05)
        response = client.post("/predict", json={"interactions": [ROW]})
        assert response.status_code == 503
        assert "longer" in response.json()["detail"]


def test_predictions_are_the_same_after_a_restart(model_folder, tmp_path):
    rows = [ROW | {"text": f"text {number}", "label": "spam" if number % 2 else None} for number in range(6)]
    with serving(model_folder, tmp_path / "kept.sqlite") as server:
        ids = server.client.post("/interactions", json={"interactions": rows}).json()["ids"]
        server.client.post("/labels", json={"id": "t260", "label": "spam"})
        before = predict(server, ROW).json()
        queue = server.client.get("/interactions", params={"order": "newest", "limit": 3}).json()
    with serving(model_folder, tmp_path / "kept.sqlite") as server:
        assert predict(server, ROW).json() == before
        assert server.client.get("/interactions", params={"order": "newest", "limit": 3}).json() == queue
        assert server.client.get(f"/interactions/{ids[3]}").json()["text"] == "text 3"
        assert server.client.get("/interactions/t260").json()["label"] == "spam"


def test_stopping_finishes_accepted_requests(model_folder, tmp_path):
    with serving(model_folder, tmp_path / "kept.sqlite", "--gather-ms", "2000") as server:
        statuses: list[int] = []
        clients = threading.Thread(target=lambda: statuses.extend(_predict_at_once(server, 4)))
        clients.start()
        # The first is predicted at once, the others are being gathered when the signal comes.
        while "saft_waiting_requests 3.0" not in server.client.get("/metrics").text and not statuses[3:]:
            time.sleep(0.02)
        server.process.send_signal(signal.SIGTERM)
        clients.join()
        assert statuses == [200] * 4
        server.process.wait(30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no model"),
        (["MODEL", "--token-file", "nowhere"], "cannot be read"),
        (["MODEL", "--database", "no/such/folder/x.sqlite"], "no folder"),
        (["MODEL", "--port", "BUSY"], "Try another --port"),
        (["MODEL", "--suspicious", "nonsense", "--port", "0"], "There is no class 'nonsense'"),
        (["BROKEN", "--port", "0"], "weights.safetensors is missing"),
    ],
)
def test_what_cannot_be_served_ends_with_a_sentence_and_exit_code_2(model_folder, tmp_path, arguments, message):
    shutil.copytree(model_folder, tmp_path / "broken")
    (tmp_path / "broken" / "weights.safetensors").unlink()
    with socket.create_server(("127.0.0.1", 0)) as busy:
        given = {"MODEL": str(model_folder), "BUSY": str(busy.getsockname()[1]), "BROKEN": "broken"}
        command = [
            sys.executable,
            "-m",
            "saft",
            "serve",
            *(given.get(argument, argument) for argument in arguments),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert ended.returncode == 2
    assert message in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
