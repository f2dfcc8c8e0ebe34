"""A server that many half-sent requests were opened to still answers, and its log stays short."""

import contextlib
import logging
import socket
import threading
import time

import httpx
import pytest
import uvicorn

from saft.server.app import create_app
from saft.server.connections import RateLimit, guarded_protocol
from saft.server.limits import Limits
from tests.server.conftest import free_port


@contextlib.contextmanager
def running(limits: Limits):
    """A server without a model, on a thread."""
    port = free_port()
    app = create_app(lambda: 1 / 0, limits)
    server = uvicorn.Server(uvicorn.Config(app, port=port, http=guarded_protocol(limits), log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.02)
        yield port
    finally:
        server.should_exit = True
        thread.join()


def open_half(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    return connection


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_half_sent_requests_are_closed_and_others_are_answered():
    with running(Limits(header_seconds=1.0, connections=50)) as port, contextlib.ExitStack() as opened:
        half = [opened.enter_context(open_half(port)) for _ in range(40)]
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
        began = time.monotonic()
        assert all(is_closed(connection) for connection in half)
        assert time.monotonic() - began < 4


def test_connections_beyond_the_limit_are_closed_and_after_that_there_is_room_again():
    with running(Limits(header_seconds=1.5, connections=10)) as port:
        with contextlib.ExitStack() as opened:
            half = [opened.enter_context(open_half(port)) for _ in range(30)]
            assert sum(is_closed(connection) for connection in half[10:]) == 20
        time.sleep(0.2)
        assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200


def test_a_connection_that_is_used_again_and_a_slow_answer_are_not_cut_off():
    with running(Limits(header_seconds=0.5)) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(4):
            assert client.get("/health").status_code == 200
            time.sleep(0.3)
        with open_half(port) as connection:  # the second request of a connection may be half-sent too
            connection.sendall(b"x\r\n\r\n")
            time.sleep(0.3)
            assert b"200 OK" in connection.recv(4000)
            connection.sendall(b"GET /health HTT")
            time.sleep(1.2)
            assert is_closed(connection)


def test_a_flood_of_log_lines_is_cut_and_the_next_line_says_so(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("saft.server.connections.time.monotonic", lambda: now[0])
    limit = RateLimit()

    def record() -> logging.LogRecord:
        return logging.LogRecord("x", logging.WARNING, "", 0, "bad %s", ("request",), None)

    assert sum(limit.filter(record()) for _ in range(10_000)) == 50
    now[0] = 60.0
    line = record()
    assert limit.filter(line)
    assert line.getMessage() == "bad request (9,950 lines before it left out)"


def test_every_limit_is_a_flag_of_its_own():
    assert {"connections", "header_seconds", "body_seconds"} <= set(Limits.__dataclass_fields__)
    with pytest.raises(TypeError):
        Limits(connection=3)
