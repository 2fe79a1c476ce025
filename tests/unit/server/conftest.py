"""A server on the local host, in this process, and a client of plain HTTP."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import pytest

from headrace.server.server import Options, Server
from headrace.server.service import Service, Startup
from headrace.session import Session

SQL = """
CREATE STREAM bids (item INT, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at FROM MEMORY;
CREATE QUERY best WITH (latency '5 s' MUST) AS
  SELECT item, max(price) AS top, window_end FROM bids [RANGE 10 SECONDS] GROUP BY item INTO MEMORY;
CREATE QUERY dear AS SELECT item, price FROM bids WHERE price > 100;
"""


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class Client:
    """Sends requests to a server as its owner, unless it is told otherwise."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.token: str | None = server.owner_url.partition("#token=")[2]

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, *, raw: bool = False
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        sent = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        data: bytes | None = None
        if isinstance(body, bytes):
            data = body
        elif body is not None:
            data = msgspec.json.encode(body)
            sent["Content-Type"] = "application/json"
        try:
            connection.request(
                method, path if path.startswith("/") else f"/api/v1/{path}", data, sent | (headers or {})
            )
            response = connection.getresponse()
            content = response.read()
            found = {name.lower(): value for name, value in response.getheaders()}
            is_json = "json" in found.get("content-type", "") and "ndjson" not in found["content-type"] and not raw
            return Answer(response.status, json.loads(content) if is_json else content, found)
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Any:
        answer = self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        assert answer.status == 200, answer
        return answer.body

    def run(self, text: str, **more: Any) -> Answer:
        return self.ask("POST", "statements", {"text": text, **more})

    def push(self, *rows: dict[str, Any]) -> Answer:
        return self.ask("POST", "streams/bids/rows", list(rows))

    def until(self, is_so: Callable[[], Any], seconds: float = 20.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := is_so()):
            assert time.monotonic() < deadline, "it has not happened"
            time.sleep(0.02)
        return found


def serve(
    directory: Path,
    text: str = SQL,
    options: Options | None = None,
    host: Literal["spark", "local"] = "local",
    **more: Any,
) -> Server:
    """Start a server and wait until it is ready."""
    service = Service(lambda: Session(directory, host=host, **more), Startup(text))
    service.own()
    server = Server(service, options or Options(port=0))
    server.start()
    deadline = time.monotonic() + (20 if host == "local" else 120)
    while service.status()[0] == "starting":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return server


def end(server: Server) -> None:
    server.stop()
    server.release()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = serve(tmp_path / "state")
    yield server
    end(server)


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server that the tests of a module share; they do not change it."""
    server = serve(tmp_path_factory.mktemp("shared") / "state")
    yield Client(server)
    end(server)


def raw(port: int, text: bytes) -> bytes:
    """Send bytes and return the head of the answer; all of it if the connection is to be closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(text)
        answer = b""
        while (b"Connection: close" in text or b"\r\n\r\n" not in answer) and (part := connection.recv(65536)):
            answer += part
        return answer
