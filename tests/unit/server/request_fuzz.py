"""Random requests from the OpenAPI document of a server: none is answered with 500, and every answer fits the document.

A request has the parameters and the body that the document describes, or something near to that, or anything. Texts of
statements are mutations of known ones (`testing.fuzz`).
"""

from __future__ import annotations

import http.client
import json
import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from headrace.server.route import Route
from headrace.server.views.problem import Problem
from headrace.testing.fuzz import mutate

#: These would end the server under test.
LEFT_OUT = frozenset({"/api/v1/stop"})
#: Seconds after which a request hangs, and the bytes that are read of an answer that does not end.
PATIENCE, ENOUGH = 30.0, 4096
_TEXTS = (
    "", " ", "0", "-1", "best", "latest", "first", "complete", "true", "null", "NaN", "1e999", "9" * 40, "../../etc",
    "%00", "\x00", "'; DROP", "<script>", "\u202e", "\U0001f697", "a" * 300, "🚗" * 100, "*", "load,vertex.*", "É",
)  # fmt: skip
_NUMBERS = (0, 1, -1, 2, 10, 500, 2**31, 2**53, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308)
_ACCEPTS = (
    "*/*", "application/json", "application/x-ndjson", "text/event-stream", "application/vnd.apache.arrow.stream",
    "text/csv", "text/html", "", "application/json;q=0.1, text/csv;q=0.9", "nonsense", "a" * 500,
)  # fmt: skip
_KINDS = ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream", "text/plain", "")


@dataclass(frozen=True, slots=True)
class Request:
    """A request, and the route that it is meant for."""

    route: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    is_endless: bool = False  # whether the answer may go on for ever

    def __str__(self) -> str:
        return f"{self.method} {self.target} {dict(self.headers)} {(self.body or b'')[:300]!r}"


class Requests:
    """Makes requests of a document; `names` exist on the server, `statements` are known."""

    def __init__(self, document: Mapping[str, Any], names: Sequence[str], statements: Sequence[str], seed: int) -> None:
        self._schemas: Mapping[str, Any] = document["components"]["schemas"]
        self._operations = [
            (method.upper(), path, operation)
            for path, operations in document["paths"].items()
            if path not in LEFT_OUT
            for method, operation in operations.items()
        ]
        self._names, self._statements = names, statements
        self._random = random.Random(seed)

    def make(self) -> Request:
        """Return another request."""
        chance = self._random
        method, path, operation = chance.choice(self._operations)
        target, options = path, []
        for parameter in operation["parameters"]:
            if parameter["in"] == "path":
                name = chance.choice(self._names) if chance.random() < 0.7 else chance.choice(_TEXTS)
                target = target.replace(f"{{{parameter['name']}}}", quote(name, safe=chance.choice(("", "/"))))
            elif chance.random() < 0.5:
                options.append((parameter["name"], self._option(parameter["schema"]["type"])))
        if chance.random() < 0.1:
            options.append((chance.choice(_TEXTS), chance.choice(_TEXTS)))
        headers = {"Accept": chance.choice(_ACCEPTS)} if chance.random() < 0.6 else {}
        body = None
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = self._body(schema)
            headers["Content-Type"] = "application/json" if chance.random() < 0.85 else chance.choice(_KINDS)
            if chance.random() < 0.2:
                headers["Idempotency-Key"] = chance.choice(("a", "b" * 250, "c d"))
        if chance.random() < 0.03:
            method = chance.choice(("PUT", "DELETE", "HEAD", "PATCH", "POST", "GET"))
        target += f"?{urlencode(options)}" if options else ""
        return Request(path, method, target, headers, body, any(name == "follow" for name, _ in options))

    def _option(self, kind: str) -> str:
        chance = self._random
        if kind == "integer" and chance.random() < 0.7:
            return str(chance.choice(_NUMBERS))
        return chance.choice(_TEXTS)

    def _body(self, schema: Mapping[str, Any]) -> bytes:
        chance = self._random
        odds = chance.random()
        if odds < 0.04:
            return chance.randbytes(chance.randrange(200))
        if odds < 0.06:
            return b"[" * 3000 + b"]" * chance.randrange(3000)
        text = json.dumps(self._value(schema)).encode()
        if chance.random() < 0.08 and text:
            at = chance.randrange(len(text))
            text = text[:at] + chance.randbytes(1) + text[at + chance.randrange(3) :]
        return text

    def _value(self, schema: Mapping[str, Any], depth: int = 0, name: str = "") -> Any:
        """Return a value of a schema, or now and then another."""
        chance = self._random
        if "$ref" in schema:
            return self._value(self._schemas[schema["$ref"].rpartition("/")[2]], depth, name)
        if chance.random() < 0.04 or depth > 4:
            return chance.choice((None, True, 0, "x", [], {}, [1], {"text": 1}, 1e300))
        if "anyOf" in schema:
            return self._value(chance.choice(schema["anyOf"]), depth, name)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                known = schema.get("properties", {})
                needed = set(schema.get("required", ()))
                found = {
                    key: self._value(inner, depth + 1, key)
                    for key, inner in known.items()
                    if (key in needed and chance.random() < 0.95) or chance.random() < 0.5
                }
                if ("additionalProperties" in schema and schema["additionalProperties"] is not False) or not known:
                    inner = schema.get("additionalProperties")
                    inner = inner if isinstance(inner, dict) else {}
                    for key in chance.sample(("item", "price", "at", "bids", "nothing", ""), chance.randrange(4)):
                        found[key] = self._value(inner, depth + 1, key)
                return found
            case "array":
                return [self._value(schema.get("items", {}), depth + 1) for _ in range(chance.randrange(4))]
            case "string":
                return self._text(name)
            case "integer" | "number":
                return chance.choice(_NUMBERS)
            case "boolean":
                return chance.random() < 0.5
            case "null":
                return None
            case _:
                return chance.choice((None, 1, -2.5, "2026-01-01T00:00:01Z", True, [], {}, "x", 2**70))

    def _text(self, name: str) -> str:
        chance = self._random
        if name == "text" and chance.random() < 0.9:
            if chance.random() < 0.3:
                return chance.choice(self._statements)
            return mutate(chance, self._statements)
        return chance.choice((*_TEXTS, "".join(chance.choices(string.printable, k=8))))


def send(port: int, token: str, request: Request) -> tuple[int, dict[str, str], bytes]:
    """Send a request as a holder of a token; of an answer that does not end, return the beginning."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.putrequest(request.method, request.target, skip_accept_encoding=True)
        headers = {"Authorization": f"Bearer {token}", **request.headers}
        if request.body is not None:
            headers["Content-Length"] = str(len(request.body))
        for name, value in headers.items():
            connection.putheader(name, value.encode())
        connection.endheaders(request.body)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        is_endless = request.is_endless or found.get("content-type", "").startswith("text/event-stream")
        if is_endless and "content-length" not in found:
            return answer.status, found, b""  # what follows comes when there are results
        return answer.status, found, answer.read()
    finally:
        connection.close()


def wrong(
    routes: Sequence[Route], request: Request, status: int, headers: Mapping[str, str], body: bytes
) -> str | None:
    """Return what is wrong with an answer; None if nothing is."""
    kind = headers.get("content-type", "").partition(";")[0]
    if status >= 500 and status != 503:
        return f"status {status}: {body[:500]!r}"
    for name in ("content-security-policy", "x-content-type-options", "cache-control"):
        if name not in headers and status < 400:
            return f"there is no header {name}"
    if request.method == "HEAD":
        return None
    if status >= 400:
        if kind == "text/plain" and status in (400, 404):  # of the HTTP parser, and of files that are not there
            return None
        return (
            None if kind == "application/problem+json" and _fits(body, Problem) else f"{status} is no problem: {body!r}"
        )
    route = next((r for r in routes if r.path == request.route and r.method == request.method), None)
    if route is None or route.answers is None or kind != "application/json":
        return None
    return None if _fits(body, route.answers) else f"the answer does not fit: {body[:500]!r}"


def _fits(body: bytes, kind: Any) -> bool:
    try:
        msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError:
        return False
    return True
