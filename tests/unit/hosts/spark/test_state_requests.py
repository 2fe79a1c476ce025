"""Requests to Spark's state are sent without waiting; what they are answered is read later, errors too."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import BinaryType, StructType

from headrace.hosts.spark.state_requests import StateRequests

KEY = StructType().add("key", BinaryType())


class Jvm:
    """The other end of a client of PySpark. It answers when we say so, also before it is asked."""

    def __init__(self, path: str) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        listening.listen(1)
        self.client = StatefulProcessorApiClient(path, KEY)
        self.requests = StateRequests(SimpleNamespace(_statefulProcessorApiClient=self.client))
        self.values = MapStateClient(self.client, KEY, KEY)
        self._socket, _ = listening.accept()
        self._file = self._socket.makefile("rb")
        listening.close()

    def answer(self, error: str = "", value: bytes = b"") -> None:
        """Answer one request."""
        answer = messages.StateResponse(statusCode=1 if error else 0, errorMessage=error, value=value)
        data = answer.SerializeToString()
        self._socket.sendall(len(data).to_bytes(4) + data)

    def asked(self) -> str:
        """Return what the next request is."""
        assert self._file.read(4) == bytes(4)  # the version of the protocol
        request = messages.StateRequest.FromString(self._file.read(int.from_bytes(self._file.read(4))))
        part = getattr(request, request.WhichOneof("method"))
        return str(part.WhichOneof("method"))

    def close(self) -> None:
        """End the connection."""
        self.client._client_socket.close()
        self._file.close()
        self._socket.close()


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jvm]:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    made = Jvm("socket")
    yield made
    made.close()


def test_requests_are_sent_before_one_is_answered(jvm: Jvm) -> None:
    jvm.client.set_implicit_key((b"1",))
    jvm.values.update_value("values", (b"a",), (b"1",))
    jvm.client.remove_implicit_key()
    assert [jvm.asked() for _ in range(3)] == ["setImplicitKey", "mapStateCall", "removeImplicitKey"]
    for _ in range(3):
        jvm.answer()
    jvm.requests.settle()


def test_a_value_is_the_one_that_was_asked_for(jvm: Jvm) -> None:
    jvm.client.set_implicit_key((b"1",))
    jvm.values.update_value("values", (b"a",), (b"1",))
    jvm.answer()
    jvm.answer()
    jvm.answer(value=pickle.dumps((b"1",)))
    with jvm.requests.awaited():
        assert jvm.values.get_value("values", (b"a",)) == (b"1",)


def test_an_error_is_raised_when_the_answers_are_read(jvm: Jvm) -> None:
    jvm.values.update_value("values", (b"a",), (b"1",))
    jvm.client.remove_implicit_key()
    jvm.answer(error="the disk is full")
    with pytest.raises(PySparkRuntimeError, match="the disk is full"):
        jvm.requests.settle()


def test_an_error_before_a_value_is_raised_in_its_place(jvm: Jvm) -> None:
    jvm.values.update_value("values", (b"a",), (b"1",))
    jvm.answer(error="the disk is full")
    with jvm.requests.awaited(), pytest.raises(PySparkRuntimeError, match="the disk is full"):
        jvm.values.get_value("values", (b"b",))


def test_more_than_fits_into_a_socket_is_waited_for(jvm: Jvm) -> None:
    jvm.client.set_implicit_key((b"1",))
    jvm.answer()
    jvm.answer(error="the disk is full")
    with pytest.raises(PySparkRuntimeError, match="the disk is full"):
        jvm.values.update_value("values", (b"a",), (bytes(70_000),))


def test_many_small_requests_are_waited_for(jvm: Jvm) -> None:
    for _ in range(6):
        jvm.values.update_value("values", (b"a",), (bytes(10_000),))
    jvm.answer(error="the disk is full")
    with pytest.raises(PySparkRuntimeError, match="the disk is full"):
        jvm.values.update_value("values", (b"a",), (bytes(10_000),))


def test_all_is_waited_for_in_the_end(jvm: Jvm) -> None:
    jvm.requests.settle()
    jvm.answer(error="the disk is full")
    with pytest.raises(PySparkRuntimeError, match="the disk is full"):
        jvm.client.remove_implicit_key()
