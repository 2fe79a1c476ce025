"""The guard before the application: which hosts are answered, from which pages, how large and how many requests.

Host comes first, also for WebSockets: a web page whose name is bound to a loopback address (DNS rebinding) sends its
own name there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection
from urllib.parse import unquote, urlsplit

import msgspec
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.server.problems import Fault
from headrace.server.tokens import Login
from headrace.server.views.problem import Problem

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Bytes of a body, of one with rows, requests at once, and seconds in which a body must have come.
BODY, ROWS_BODY, REQUESTS, BODY_SECONDS = 1 << 20, 16 << 20, 64, 10.0
#: Stands for a slash within a name, until the path has been divided; no text has it.
SLASH = "\ufffe"
#: How long a cookie opens the page (seconds).
COOKIE_SECONDS = 12 * 3600
HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def host_of(header: str) -> str | None:
    """Return the host of a Host header, in lower case without its port; None if it is not one."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port
    except ValueError:
        return None
    if parts.username or parts.password or parts.path or parts.query or parts.fragment or not parts.hostname:
        return None
    return parts.hostname.lower().rstrip(".")


def with_slashes(scope: Scope) -> Scope:
    """Return a request in whose path slashes of names, which clients write as %2F, are not those between parts."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    parts = [unquote(part).replace("/", SLASH) for part in raw.decode("latin-1").partition("?")[0].split("/")]
    return {**scope, "path": "/".join(parts)}


class Cookies:
    """Logins of pages: random names in memory, so that a restart ends them."""

    def __init__(self, port: int, *, secure: bool) -> None:
        self.name, self._secure = f"headrace_{port}", secure
        self._known: dict[str, tuple[Login, float]] = {}

    def make(self, login: Login) -> str:
        """Return a new cookie of a login."""
        now = time.monotonic()
        self._known = {key: entry for key, entry in self._known.items() if entry[1] > now}
        key = secrets.token_urlsafe(32)
        self._known[key] = login, now + COOKIE_SECONDS
        return key

    def find(self, connection: HTTPConnection) -> Login | None:
        """Return whose cookie a request has."""
        login, until = self._known.get(connection.cookies.get(self.name, ""), (None, 0.0))
        return login if until > time.monotonic() else None

    def end(self, connection: HTTPConnection) -> None:
        """Forget the cookie of a request."""
        self._known.pop(connection.cookies.get(self.name, ""), None)

    def forget(self, names: Collection[str]) -> None:
        """Forget the cookies of tokens that are not among these any more."""
        self._known = {key: entry for key, entry in self._known.items() if entry[0].name in names}

    def header(self, value: str) -> str:
        """Return the header that sets a cookie, or ends it."""
        parts = [f"{self.name}={value}", "Path=/", "HttpOnly", "SameSite=Strict"]
        parts += [f"Max-Age={COOKIE_SECONDS if value else 0}"] + (["Secure"] if self._secure else [])
        return "; ".join(parts)


class Guard:
    """Lets requests through that it may, and adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], origins: Collection[str], *, secure: bool) -> None:
        self._app, self._secure = app, secure
        self._hosts, self._origins = {host.lower() for host in hosts}, set(origins)
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check(scope, headers)
            limit = self._limit(scope, headers)
        except Fault as fault:
            await _refuse(scope, receive, send, fault.problem)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        self._running += 1
        try:
            if self._running > REQUESTS:
                problem = Fault(429, f"{REQUESTS} requests are being answered already").problem
                await _refuse(scope, receive, send, problem)
                return
            await self._app(with_slashes(scope), _limited(receive, limit), _with_headers(send, self._secure))
        finally:
            self._running -= 1

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = host_of(headers.get("host", ""))
        if host is None or (host not in self._hosts and "*" not in self._hosts):
            raise Fault(
                400, "this server does not answer to that host", hint="headrace serve --allow-host NAME allows one"
            )
        origin = headers.get("origin")
        is_change = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if origin is not None and is_change and not self._is_ours(origin, headers.get("host", "")):
            raise Fault(403, "a page of another origin may not do this", code="HR301")
        if origin is None and is_change and "cookie" in headers and "authorization" not in headers:
            path = scope["path"]
            if not path.endswith("/login"):
                raise Fault(403, "a request with a cookie must say from which page it comes (Origin)", code="HR301")

    def _is_ours(self, origin: str, host: str) -> bool:
        parts = urlsplit(origin)
        return origin in self._origins or (parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower())

    def _limit(self, scope: Scope, headers: Headers) -> int:
        limit = ROWS_BODY if scope["path"].endswith("/rows") else BODY
        length = headers.get("content-length")
        if length is not None and (not length.isdigit() or int(length) > limit):
            raise Fault(413, f"a body has at most {limit} bytes here")
        return limit


def _limited(receive: Receive, limit: int) -> Receive:
    """Return what receives a body that is neither too large nor too slow."""
    taken, deadline = 0, time.monotonic() + BODY_SECONDS
    is_over = False

    async def limited() -> Message:
        nonlocal taken, is_over
        if is_over:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise Fault(408, f"the body did not come within {BODY_SECONDS:.0f} seconds") from None
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            is_over = not message.get("more_body", False)
            if taken > limit:
                raise Fault(413, f"a body has at most {limit} bytes here")
        return message

    return limited


def _with_headers(send: Send, secure: bool) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message["headers"]}
            headers = list(message["headers"])
            headers += [
                (name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in known
            ]
            if b"cache-control" not in known:
                headers.append((b"cache-control", b"no-store"))
            if secure:
                headers.append((b"strict-transport-security", b"max-age=31536000"))
            message = {**message, "headers": headers}
        await send(message)

    return sending


async def _refuse(scope: Scope, receive: Receive, send: Send, problem: Problem) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": problem.detail[:100]})
        return
    body = msgspec.json.encode(problem)
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *((name.encode(), value.encode()) for name, value in HEADERS.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
