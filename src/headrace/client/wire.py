"""Requests to a server, and its problems as the errors that a session raises."""

from __future__ import annotations

import base64
import datetime
import http.client
import json
import math
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from headrace import errors
from headrace.errors import HeadraceError, HostFault, InternalError, RunError, Span

API = "/api/v1"


class Wire:
    """One server: its address and a token."""

    def __init__(self, url: str, token: str, *, timeout: float = 60.0, cafile: str | None = None) -> None:
        parts = urlsplit(url if "://" in url or url.startswith("unix:") else f"http://{url}")
        if parts.scheme not in ("http", "https", "unix"):
            raise HostFault(f"{url!r} is not the address of a server", hint="write http://127.0.0.1:4280")
        self.url, self._parts = url.partition("#")[0].rstrip("/"), parts
        self._token = token or parts.fragment.removeprefix("token=")
        self._prefix = "" if parts.scheme == "unix" else parts.path.rstrip("/")  # there the path is the socket
        self._timeout, self._cafile = timeout, cafile

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> http.client.HTTPResponse:
        """Send a request and return the answer, which may still be coming; a problem is raised."""
        connection = self._connection(timeout or self._timeout)
        sent = {"Authorization": f"Bearer {self._token}", "Connection": "close", **(headers or {})}
        data = None
        if body is not None:
            data = json_of(body)
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, f"{self._prefix}{API}{path}", data, sent)
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise unreachable(self.url, error) from error
        if response.status >= 400:
            problem = response.read()
            response.close()
            raise error_of(problem, response.status, _text_in(body))
        return response

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the answer as JSON."""
        response = self.request(method, path, body, headers)
        try:
            return json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise unreachable(self.url, error) from error
        finally:
            response.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._parts.scheme == "unix":
            return _UnixConnection(self._parts.path, timeout)
        host, port = self._parts.hostname or "127.0.0.1", self._parts.port
        if self._parts.scheme == "https":
            context = ssl.create_default_context(cafile=self._cafile)
            return http.client.HTTPSConnection(host, port or 443, timeout=timeout, context=context)
        return http.client.HTTPConnection(host, port or 80, timeout=timeout)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def unreachable(url: str, error: Exception) -> HostFault:
    """Return the fault for a server that does not answer."""
    return HostFault(f"the server at {url} does not answer: {error}", hint="headrace status says whether it runs")


def error_of(data: bytes, status: int, text: str | None) -> HeadraceError:
    """Return a problem as the error that a session would raise; its span points into `text`."""
    try:
        problem = json.loads(data)
    except ValueError:
        problem = {}
    title, detail = problem.get("title", ""), problem.get("detail") or f"the server answered with {status}"
    kind = getattr(errors, title, None)
    if not (isinstance(kind, type) and issubclass(kind, HeadraceError)):
        kind = InternalError if status == 500 else HostFault if status in (401, 403, 503) else RunError
    error = kind(detail, hint=problem.get("hint"))
    span = problem.get("span")
    if span is not None and text is not None:
        error.span = Span(_characters(text, span["start"]), _characters(text, span["end"]))
        error.text = text
    return error


def _characters(text: str, units: int) -> int:
    """Return the position in characters of a position in UTF-16 units."""
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore"))


def _text_in(body: Any) -> str | None:
    return body.get("text") if isinstance(body, dict) else None


def json_of(body: Any) -> bytes:
    """Return values of Python as JSON; NaN and infinities, which it does not have, are strings."""
    try:
        return json.dumps(body, default=_plain, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_with_words(body), default=_plain).encode()


def _with_words(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _with_words(item) for key, item in value.items()}
    return [_with_words(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    match value:
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case datetime.timedelta():
            return value // datetime.timedelta(microseconds=1)
        case _:
            return value.isoformat() if hasattr(value, "isoformat") else str(value)
