"""Documents about the interface itself."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from headrace.server.metrics import exposition
from headrace.server.openapi import document
from headrace.server.route import Call


def openapi(call: Call) -> Any:
    """Return the interface as an OpenAPI document."""
    return document(call.server.routes)


def metrics(call: Call) -> Response:
    """Return the metrics as Prometheus reads them."""
    body, media = exposition(call.server)
    return Response(body, media_type=media)


def live(call: Call) -> Any:
    """Stand for the live feed, which `server.live` serves."""
    raise AssertionError("a WebSocket has no answer")
