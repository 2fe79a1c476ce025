"""Rows that clients append to MEMORY streams."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import msgspec

from headrace.server.problems import Fault
from headrace.server.route import Call
from headrace.server.routes.definitions import stream_named
from headrace.server.values import with_numbers
from headrace.server.views.statements import PushAnswer


def push(call: Call) -> Future[PushAnswer]:
    """Append rows to a MEMORY stream."""
    service, known = call.server.service, stream_named(call)
    key = call.request.headers.get("idempotency-key", "")
    if len(key) > 200:
        raise Fault(400, "an Idempotency-Key has at most 200 characters")
    given = with_numbers(call.body, known.schema)

    def run() -> PushAnswer:
        before = service.session.push(known.name, given, key=key)
        return PushAnswer(len(given)) if before is None else PushAnswer(before, repeated=True)

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


__all__ = ["push", "rows_of"]
