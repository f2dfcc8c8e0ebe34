"""LimitsMiddleware counts and times every request and refuses those that are too large; Metrics holds the figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from saft.online.live import Prediction
from saft.server.limits import Limits
from saft.server.worker import Worker

Scope = dict[str, Any]
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})  # every label's values are bounded


class Metrics:
    """Figures for Prometheus."""

    def __init__(self, worker: Callable[[], Worker | None]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "saft_requests", "Requests, by route and outcome.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram("saft_request_seconds", "Duration of requests.", ["route"], registry=self.registry)
        self.predictions = Counter("saft_predictions", "Predictions, by label.", ["label"], registry=self.registry)
        waiting = Gauge("saft_waiting_requests", "Requests that are being worked on.", registry=self.registry)
        waiting.set_function(lambda: getattr(worker(), "waiting", 0))
        ready = Gauge("saft_ready", "1 once the model is loaded.", registry=self.registry)
        ready.set_function(lambda: float(worker() is not None))

    def count_predictions(self, predictions: Sequence[Prediction]) -> None:
        for prediction in predictions:
            self.predictions.labels(str(prediction.label)).inc()

    def text(self) -> tuple[bytes, str]:
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class LimitsMiddleware:
    """ASGI middleware; refuses a body that is too large with status 413, and one that takes too long with 408.

    Args:
        paths: path → bytes that a body may have there, where it is not what the limits say.
    """

    def __init__(self, app: Any, limits: Limits, metrics: Metrics, paths: Mapping[str, int] | None = None) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.paths = paths or {}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, received, is_whole = time.perf_counter(), 500, 0, False
        most_bytes = self.paths.get(scope["path"], self.limits.body_kb * 1024)
        too_large = f"A request may have at most {most_bytes // 1024:,} kilobytes. Send it in parts."

        async def counted() -> Any:
            nonlocal received, is_whole
            if is_whole:  # what comes now is the end of the connection
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), began + self.limits.body_seconds - time.perf_counter())
            except TimeoutError as error:
                raise HTTPException(408, "The body of this request took too long.", {"Connection": "close"}) from error
            is_whole = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > most_bytes:
                raise HTTPException(413, too_large)
            return message

        async def observed(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            declared = dict(scope["headers"]).get(b"content-length", b"0")
            if declared.isdigit() and int(declared) > most_bytes:
                await JSONResponse({"detail": too_large}, 413, {"Connection": "close"})(scope, receive, observed)
            else:
                await self.app(scope, counted, observed)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.metrics.requests.labels(method, route, status).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - began)
