"""Answers of WebHDFS, and what becomes of each; `tests/hadoop` asks a real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.session import Session
from headrace.storage import object_settings
from headrace.storage.location import location
from headrace.storage.objects import TRIES, ObjectStorage

Answer = tuple[int, bytes]


@contextmanager
def name_node(answer: Callable[[str], Answer]) -> Iterator[str]:
    """A server that answers each request as told; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def fault(status: int, exception: str, message: str = "no") -> Answer:
    return status, json.dumps({"RemoteException": {"exception": exception, "message": message}}).encode()


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let clients find a name node, or two of a name service."""
    monkeypatch.setattr(object_settings, "_given", {})

    def set_addresses(*addresses: str) -> None:
        names = [f"nn{number}" for number in range(len(addresses))]
        settings = {"dfs.ha.namenodes.lake": ",".join(names)}
        settings |= {f"dfs.namenode.http-address.lake.{name}": at for name, at in zip(names, addresses, strict=True)}
        object_settings.configure(settings)

    return set_addresses


def storage() -> ObjectStorage:
    return ObjectStorage(pause=lambda seconds: None)


def test_the_name_node_that_is_active_is_asked(configure: Callable[..., None]) -> None:
    asked: list[str] = []

    def active(path: str) -> Answer:
        asked.append(path)
        return 200, b'{"FileStatuses": {"FileStatus": [{"pathSuffix": "a", "type": "FILE"}]}}'

    with name_node(lambda path: fault(403, "StandbyException")) as standby, name_node(active) as other:
        configure(standby, other)
        store = storage()
        assert store.names(location("hdfs://lake/x")) == ["a"]
        assert store.names(location("hdfs://lake/x")) == ["a"]
        (requests,) = store.counted.values()
        assert (len(asked), requests.repeated) == (2, 0)


@pytest.mark.parametrize(
    ("answer", "error", "told", "tries"),
    [
        ((401, b"<html>"), PermissionError, "refuses access (401 Kerberos is not supported)", 1),
        (fault(403, "AccessControlException"), PermissionError, "refuses access (403 AccessControlException)", 1),
        (fault(403, "DSQuotaExceededException", "full"), PermissionError, "(403 DSQuotaExceededException: full)", 1),
        (fault(403, "SafeModeException"), OSError, f"after {TRIES} tries (503 SafeModeException)", TRIES),
    ],
)
def test_a_refusal_says_why(
    configure: Callable[..., None], answer: Answer, error: type[OSError], told: str, tries: int
) -> None:
    with name_node(lambda path: answer) as address:
        configure(address)
        store = storage()
        with pytest.raises(error) as raised:
            store.names(location("hdfs://lake/x"))
    assert told in str(raised.value)
    assert store.counted["hdfs://lake"].made == tries


def test_a_name_node_that_does_not_answer_is_named(
    configure: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("headrace.storage.objects._PAUSES", (0.0,) * TRIES)
    with name_node(lambda path: (200, b"")) as address:
        pass
    configure(address)
    with pytest.raises(
        HeadraceError, match=f"cannot read the checkpoint hdfs://lake/state: .*no WebHDFS at http://{address}"
    ):
        Session("hdfs://lake/state", host="local")
    assert list(tmp_path.iterdir()) == []
