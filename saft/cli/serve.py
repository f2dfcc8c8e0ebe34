"""``saft serve``: a trained model over HTTP, and a page to review what comes in."""

from __future__ import annotations

import importlib.util
import signal
import socket
from collections.abc import Callable, Collection
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saft.cli.console import plain, say
from saft.cli.options import COLUMNS, Model, Option, taking
from saft.errors import InputError, install_command
from saft.server.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

    from saft.server.service import ReviewService

LOOPBACK = "127.0.0.1"
NEEDED = ("fastapi", "fastapi_offline", "prometheus_client", "sqlalchemy", "uvicorn")


def _limit_options() -> dict[str, Option]:
    return {
        limit.name: (
            Annotated[
                {"int": int, "float": float}[str(limit.type)] | None,
                typer.Option(help=f"{limit.metadata['help']} ({limit.default:g})", min=0, rich_help_panel="Limits"),
            ],
            None,
        )
        for limit in fields(Limits)
    }


@taking("limits", _limit_options())
@taking("columns", {role: COLUMNS[role] for role in ("user", "item", "text", "label", "time", "encoding")})
def serve(
    model: Model,
    limits: dict[str, Any],
    columns: dict[str, Any],
    host: Annotated[
        str, typer.Option(help="The server listens on this address; by default only this machine can connect.")
    ] = LOOPBACK,
    port: Annotated[int, typer.Option(help="The server listens on this port.", min=0, max=65535)] = 8000,
    database: Annotated[
        str | None,
        typer.Option(
            help="Interactions and verdicts are stored in this file, or in postgresql://user@host/name; by default in "
            "a file beside the model."
        ),
    ] = None,
    queue: Annotated[
        list[Path] | None,
        typer.Option(help="Interactions of this table go into the queue first, unless they are known already."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Clients have to send the token in this file as `Authorization: Bearer …`.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="Without a token, the server answers under this name too; may be given several times."),
    ] = None,
    suspicious: Annotated[
        str | None, typer.Option(help="The review queue puts this class first; by default it is the rarest one.")
    ] = None,
    second_opinion: Annotated[
        float | None,
        typer.Option(help="This share of the interactions is judged by two reviewers.", min=0, max=1),
    ] = None,
    onnx: Annotated[
        bool | None,
        typer.Option(
            "--onnx/--no-onnx", help="Predict with ONNX Runtime, about twice as fast; by default if it is installed."
        ),
    ] = None,
) -> None:
    """Serve a model over HTTP: predict interactions, store them, and review them on a page."""
    require_extra()
    from saft.server.loading import service_loader

    load = service_loader(model, database, suspicious, onnx, second_opinion, queue or [], columns)
    run_server(model, load, host, port, _token(token_file), Limits(**limits), allowed_host or ())


def require_extra() -> None:
    """Refuse to go on without the packages of the extra ``serve``."""
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        raise InputError(f"Serving needs a few more packages. Install them with: {install_command('serve')}")


def run_server(
    model: Path,
    load: Callable[[], ReviewService],
    host: str = LOOPBACK,
    port: int = 8000,
    token: str | None = None,
    limits: Limits | None = None,
    allowed_hosts: Collection[str] = (),
) -> None:
    """Serve until Ctrl-C."""
    import uvicorn

    from saft.server.app import create_app
    from saft.server.connections import guarded_protocol, limit_logs

    _make_sure_it_is_free(host, port)
    if token is None and host not in (LOOPBACK, "localhost", "::1"):
        say(
            "[bold yellow]Note:[/] unless there are reviewers (saft reviewer add), anybody who can reach this address "
            "can read and add interactions. See --token-file."
        )
    say(
        f"Page: {plain(f'http://{host}:{port}/')}   Documentation: {plain(f'http://{host}:{port}/docs')}   Stop: Ctrl-C"
    )
    failures: list[Exception] = []

    def failed(error: Exception) -> None:
        failures.append(error)
        server.should_exit = True

    limits = limits or Limits()
    app = create_app(load, limits, token, model / "report.html", failed, {host, *allowed_hosts})
    protocol = guarded_protocol(limits)
    server = uvicorn.Server(
        uvicorn.Config(app, host=host, port=port, http=protocol, log_level="warning", timeout_graceful_shutdown=30)
    )
    limit_logs()
    _reload_on_hangup(app)
    server.run()
    if failures:
        raise failures[0]


def _reload_on_hangup(app: FastAPI) -> None:
    """SIGHUP, as for other servers, means: read the folder again."""
    if app.state.reloader is not None and hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: app.state.reloader.ask())


def _make_sure_it_is_free(host: str, port: int) -> None:
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise InputError(
            f"Cannot listen on {host}, port {port}: {error.strerror or error}. Try another --port."
        ) from error


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as a token: {error}.") from error
    if not token:
        raise InputError(f"{file} is empty; write a token into it.")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"{file} has to hold one token of ASCII characters without spaces: headers carry nothing else."
        )
    return token
