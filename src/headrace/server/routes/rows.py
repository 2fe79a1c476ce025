"""Rows that clients append to MEMORY streams."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import Future
from typing import Any

import msgspec

from headrace.server.problems import Fault
from headrace.server.route import Call
from headrace.server.routes.definitions import unknown
from headrace.server.views import PushAnswer

#: Keys of requests are remembered for so many seconds, and so many of them.
_DAY, _KEYS = 86400.0, 100_000


class Keys:
    """The keys of requests that have been answered."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: str) -> int | None:
        """Return how many rows a request with this key added; None if there was none."""
        with self._lock:
            at, rows = self._known.get(key, (0.0, 0))
            return rows if at and time.time() - at < _DAY else None

    def add(self, key: str, rows: int) -> None:
        """Remember a key."""
        with self._lock:
            self._known[key] = time.time(), rows
            while len(self._known) > _KEYS:
                self._known.popitem(last=False)


def push(call: Call) -> Future[PushAnswer]:
    """Append rows to a MEMORY stream."""
    service, name = call.server.service, call.names["name"]
    known = next((each for each in service.catalog.streams() if each.name.lower() == name.lower()), None)
    if known is None:
        raise unknown("stream", name, [each.name for each in service.catalog.streams()])
    key = call.request.headers.get("idempotency-key", "")
    if len(key) > 200:
        raise Fault(400, "an Idempotency-Key has at most 200 characters")
    given: list[dict[str, Any]] = call.body

    def run() -> PushAnswer:
        if key and (before := call.server.pushed.find(f"{known.name} {key}")) is not None:
            return PushAnswer(before, repeated=True)
        service.session.push(known.name, given)
        if key:
            call.server.pushed.add(f"{known.name} {key}", len(given))
        return PushAnswer(len(given))

    return service.change(run)


def rows_of(body: bytes, kind: str) -> list[dict[str, Any]]:
    """Decode rows by their content type."""
    match kind:
        case "application/x-ndjson":
            return [_object(line) for line in body.split(b"\n") if line.strip()]
        case "application/vnd.apache.arrow.stream":
            from headrace.model.page import Page

            try:
                return Page.decode(body).rows.to_dicts()
            except ValueError as error:
                raise Fault(422, str(error)) from None
        case _:
            return msgspec.json.decode(body, type=list[dict[str, Any]])


def _object(line: bytes) -> dict[str, Any]:
    return msgspec.json.decode(line, type=dict[str, Any])


__all__ = ["Keys", "push", "rows_of"]
