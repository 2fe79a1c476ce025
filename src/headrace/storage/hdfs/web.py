"""Requests of WebHDFS: HTTP to the name node, which sends those who read or write bytes to a data node."""

from __future__ import annotations

import json
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import quote, urlencode, urlsplit

from headrace.storage.hdfs.faults import HdfsError
from headrace.storage.hdfs.settings import Hdfs

_CONNECT, _ANSWER = 5.0, 60.0
#: So many connections to a server are kept for later requests, and for how long: a server closes idle ones.
_KEPT, _KEPT_SECONDS = 4, 2.0


class WebHdfs:
    """The name nodes that have the same files; of two, the one that is active is asked."""

    def __init__(self, hdfs: Hdfs) -> None:
        self._hdfs = hdfs
        self._active = 0  # the name node that answered last
        self._idle: dict[tuple[str, str], list[tuple[float, HTTPConnection]]] = {}  # since when
        self._lock = threading.Lock()

    def __del__(self) -> None:
        for idle in self._idle.values():
            for _, connection in idle:
                connection.close()

    def ask(self, method: str, key: str, op: str, data: bytes = b"", **parameters: str) -> bytes:
        """Return the answer to a request; raise FileNotFoundError if there is no such file, or an HdfsError."""
        query = urlencode({"op": op, **parameters, **self._hdfs.identity})
        target = f"/webhdfs/v1/{quote(key)}?{query}"
        nodes = self._hdfs.addresses
        for turn in range(len(nodes)):
            active = (self._active + turn) % len(nodes)
            try:
                body = self._ask_node(method, nodes[active], target, data, key)
            except HdfsError as error:
                if turn + 1 == len(nodes) or (error.status is not None and error.code != "StandbyException"):
                    raise
            else:
                self._active = active
                return body
        raise HdfsError(400, "dfs.ha.namenodes names no name node that has an address")

    def _ask_node(self, method: str, address: str, target: str, data: bytes, key: str) -> bytes:
        status, location, body = self._request(method, address, target, b"")
        if status == 307:
            place = urlsplit(location)
            status, _, body = self._request(
                method, f"{place.scheme}://{place.netloc}", f"{place.path}?{place.query}", data
            )
        if status >= 300:
            raise _error(status, body, key)
        return body

    def _request(self, method: str, address: str, target: str, data: bytes) -> tuple[int, str, bytes]:
        scheme, _, host = address.partition("://")
        connection = self._connection(scheme, host)
        try:
            connection.request(method, target, data, {"Content-Type": "application/octet-stream"})
            answer: HTTPResponse = connection.getresponse()
            body = answer.read()
        except (OSError, HTTPException) as error:
            connection.close()
            raise HdfsError(None, f"no answer from {address}: {str(error) or type(error).__name__}") from error
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            self._keep(scheme, host, connection)
        return answer.status, answer.getheader("Location", ""), body

    def _connection(self, scheme: str, host: str) -> HTTPConnection:
        with self._lock:
            idle = self._idle.get((scheme, host), [])
            while idle:
                since, kept = idle.pop()
                if time.monotonic() - since < _KEPT_SECONDS:
                    return kept
                kept.close()
        kind = HTTPSConnection if scheme == "https" else HTTPConnection
        connection = kind(host, timeout=_CONNECT)
        try:
            connection.connect()
        except OSError as error:
            raise HdfsError(None, f"no WebHDFS at {scheme}://{host}") from error
        assert connection.sock is not None
        connection.sock.settimeout(_ANSWER)
        return connection

    def _keep(self, scheme: str, host: str, connection: HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault((scheme, host), [])
            if len(idle) < _KEPT:
                idle.append((time.monotonic(), connection))
                return
        connection.close()


def _error(status: int, body: bytes, key: str) -> OSError:
    """Return an answer that is an error as one of Python."""
    try:
        remote = json.loads(body)["RemoteException"]
        name, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        name, message = "", ""
    if name == "FileNotFoundException":
        return FileNotFoundError(key)
    if status == 401:
        return HdfsError(401, "Kerberos is not supported")
    if "out of the range" in message:
        return HdfsError(status, message)
    if name in ("AccessControlException", "FileAlreadyExistsException", "StandbyException"):
        return HdfsError(status, name)
    if name in ("SafeModeException", "RetriableException"):
        return HdfsError(503, name)
    return HdfsError(status, f"{name}: {message.splitlines()[0]}" if message else name)
