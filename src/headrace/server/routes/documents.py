"""Documents about the interface itself."""

from __future__ import annotations

from typing import Any

from headrace.server.openapi import document
from headrace.server.route import Call


def openapi(call: Call) -> Any:
    """Return the interface as an OpenAPI document."""
    return document(call.server.routes)


def live(call: Call) -> Any:
    """Stand for the live feed, which `server.live` serves."""
    raise AssertionError("a WebSocket has no answer")
