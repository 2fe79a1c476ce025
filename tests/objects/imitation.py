"""An imitation of S3 on this machine: moto's server, behind a proxy that adds faults and counts requests."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: Where tests/objects/setup puts the server and Spark's jars.
PLACE = Path(os.environ.get("HEADRACE_TEST_OBJECTS", Path(__file__).parents[2] / ".objects"))
BUCKET = "lake"
#: The program of the server; its first argument is the folder of its packages.
SERVER = "import sys; sys.path.append(sys.argv.pop(1)); from moto.server import main; main(sys.argv[1:])"
_HOP = {"connection", "keep-alive", "transfer-encoding", "proxy-connection", "te", "upgrade"}


def reason_to_skip() -> str | None:
    """Return why the imitation cannot run here."""
    if not (PLACE / "server" / "moto").is_dir():
        return "no imitation of S3 here: run tests/objects/setup"
    return None


class Proxy(ThreadingHTTPServer):
    """Forwards requests; every so many it loses the request, or the answer, or answers 503."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.behind = port
        self.delay = 0.0
        self.lose_request_every = self.lose_answer_every = self.refuse_every = 0
        self.requests: list[tuple[str, str, str]] = []  # method, path with query, user agent
        self._lock = threading.Lock()
        #: One writes at a time: moto first compares the tag and then writes, which S3 does in one step.
        self.writing = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def note(self, method: str, path: str, agent: str) -> int:
        with self._lock:
            self.requests.append((method, path, agent))
            return len(self.requests)

    def counts(self, since: int = 0, *, ours: bool = True) -> Counter[str]:
        """Count requests by method and folder of the checkpoint, ours or those of Spark."""
        counted: Counter[str] = Counter()
        for method, path, agent in self.requests[since:]:
            if is_ours(agent) is ours:
                counted[f"{method} {key_of(path)}"] += 1
        return counted

    def heal(self) -> None:
        """Add no more faults."""
        self.delay = 0.0
        self.lose_request_every = self.lose_answer_every = self.refuse_every = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that were dropped."""


def is_ours(agent: str) -> bool:
    """Return whether a request comes from Headrace and not from Spark."""
    return "object_store" in agent


def key_of(path: str) -> str:
    """Return the key of an object, or the prefix that is listed."""
    parts = urlsplit(path)
    query = parse_qs(parts.query)
    if "list-type" in query:
        return f"?{query.get('prefix', [''])[0]}"
    return parts.path.split("/", 2)[2] if parts.path.count("/") > 1 else f"?{parts.query}"


class _Forward(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _forward(self) -> None:
        body = self._body()
        number = self.server.note(self.command, self.path, self.headers.get("User-Agent", ""))
        if self.server.delay:
            time.sleep(self.server.delay)
        if _every(number, self.server.lose_request_every):
            self._drop()
            return
        if _every(number, self.server.refuse_every):
            self._answer(503, [("Content-Type", "application/xml")], b"<Error><Code>SlowDown</Code></Error>")
            return
        behind = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in (*_HOP, "expect")}
            with nullcontext() if self.command in ("GET", "HEAD") else self.server.writing:
                behind.request(self.command, self.path, body, headers)
                answer = behind.getresponse()
                data = answer.read()
        finally:
            behind.close()
        if _every(number, self.server.lose_answer_every):
            self._drop()
            return
        self._answer(answer.status, answer.getheaders(), data)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _forward

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in _HOP and not (name.lower() == "content-length" and self.command != "HEAD"):
                self.send_header(name, value)
        if self.command != "HEAD" or "content-length" not in names:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _every(number: int, every: int) -> bool:
    return every > 0 and number % every == 0


def s3_environment(proxy: Proxy) -> dict[str, str]:
    """Return the variables by which clients find the imitation."""
    return {
        "AWS_ENDPOINT_URL_S3": proxy.url,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }


@contextmanager
def imitation() -> Iterator[Proxy]:
    """Run the server and the proxy; the bucket `lake` is there and empty."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVER, str(PLACE / "server"), "-H", "127.0.0.1", "-p", str(port)]
    # short pages: what is listed in one request only would show
    environ = {**os.environ, "PYTHONWARNINGS": "ignore", "MOTO_S3_DEFAULT_MAX_KEYS": "50"}
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)
    proxy = None
    try:
        _await(port, server)
        proxy = Proxy(port)
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()
        yield proxy
    finally:
        if proxy is not None:
            proxy.shutdown()
            proxy.server_close()
        server.terminate()
        server.wait(60)


def _await(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as tried:
            tried.settimeout(1)
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the imitation of S3 does not start")
