"""The live feed: topics of a WebSocket, and results that follow."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.server.conftest import Client
from tests.unit.server.test_statements import ROWS
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect


@contextmanager
def live(client: Client, **headers: str) -> Iterator[ClientConnection]:
    sent = {"Authorization": f"Bearer {client.token}", **headers}
    url = f"ws://127.0.0.1:{client.server.port}/api/v1/live"
    with connect(url, additional_headers=sent, proxy=None, max_queue=None) as socket:
        yield socket


def heard(socket: ClientConnection, kind: str) -> Any:
    while True:
        message = json.loads(socket.recv(10))
        if message["t"] == kind:
            return message


def test_a_page_hears_beats_figures_results_and_changes(client: Client) -> None:
    with live(client) as socket:
        assert json.loads(socket.recv(10))["t"] == "hello"
        topics = [{"t": "beat"}, {"t": "catalog"}, {"t": "graph", "query": "dear"}, {"t": "results", "query": "dear"}]
        socket.send(json.dumps({"watch": topics}))
        before = heard(socket, "catalog")["catalog"]
        client.push(*ROWS)
        result = heard(socket, "results")["result"]
        assert result["rows"] == [[2, 110.0], [3, 120.0]]
        while heard(socket, "beat")["beat"]["streams"] == []:
            pass
        vertices = {vertex["id"] for vertex in client.get("queries/dear/graph")["vertices"]}
        assert {figures["id"] for figures in heard(socket, "graph")["figures"]} == vertices
        client.run("CREATE VIEW v AS SELECT item FROM bids")
        assert heard(socket, "catalog")["catalog"] > before


def test_wrong_messages_are_answered(client: Client) -> None:
    with live(client) as socket:
        socket.send("{")
        assert heard(socket, "error")["problem"]["status"] == 422
        socket.send(json.dumps({"watch": [{"t": "results", "query": "none"}]}))
        assert heard(socket, "error")["topic"] == "results:none"
        socket.send(json.dumps({"watch": [{"t": "graph", "query": str(n)} for n in range(40)]}))
        assert heard(socket, "error")["problem"]["status"] == 429


def test_credit_limits_messages_of_results(client: Client) -> None:
    with live(client) as socket:
        socket.send(json.dumps({"watch": [{"t": "results", "query": "dear"}], "credit": {"results:dear": 1}}))
        client.push(ROWS[1])
        first = heard(socket, "results")["result"]
        client.push(ROWS[2])
        client.until(lambda: client.get("queries/dear")["figures"]["results"] == 2)
        with pytest.raises(TimeoutError):
            socket.recv(0.5)
        socket.send(json.dumps({"credit": {"results:dear": 1}}))
        assert heard(socket, "results")["result"]["batch"] > first["batch"]


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_socket_needs_a_token(client: Client, token: str) -> None:
    client.token = token
    with pytest.raises(InvalidStatus, match="403"), live(client):
        pass


def test_results_follow_as_lines_and_as_events(client: Client) -> None:
    for accept, first in (("application/x-ndjson", b'{"batch"'), ("text/event-stream", b"id: ")):
        connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=20)
        headers = {"Authorization": f"Bearer {client.token}", "Accept": accept}
        connection.request("GET", "/api/v1/queries/dear/results?follow&after=latest", headers=headers)
        response = connection.getresponse()
        client.push(ROWS[1])
        lines = iter(response.readline, b"")
        line = next(line for line in lines if line.startswith(first))
        batch = json.loads(line)["batch"] if first.startswith(b"{") else int(line.split()[1])
        if first.startswith(b"{"):
            assert json.loads(next(lines)) == {"item": 2, "price": 110.0}
        assert batch >= 0
        connection.close()


def test_an_arrow_stream_goes_on_and_numbers_its_batches(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=20)
    headers = {"Authorization": f"Bearer {client.token}", "Accept": "application/vnd.apache.arrow.stream"}
    connection.request("GET", "/api/v1/queries/dear/results?follow&after=latest", headers=headers)
    answer = connection.getresponse()
    reader = pa.ipc.open_stream(answer)  # before there are results
    assert reader.schema.names == ["item", "price"]
    batches = []
    for number in (1, 2):
        client.push({"item": number, "price": 200.0, "at": f"2026-01-01T00:00:0{number}Z"})
        rows, about = reader.read_next_batch_with_custom_metadata()
        assert rows.to_pylist() == [{"item": number, "price": 200.0}]
        batches.append(int(about["batch"]))
        assert about["skipped"] == b"0"
    assert batches[0] < batches[1]
    client.run("DROP QUERY dear")
    with pytest.raises(StopIteration):
        reader.read_next_batch()
    connection.close()


def test_a_stream_of_results_says_what_it_is(client: Client) -> None:
    assert client.ask("GET", "queries/dear/results?follow", headers={"Accept": "text/csv"}).status == 406
    connection = http.client.HTTPConnection("127.0.0.1", client.server.port, timeout=20)
    headers = {"Authorization": f"Bearer {client.token}", "Accept": "application/json"}
    connection.request("GET", "/api/v1/queries/dear/results?follow", headers=headers)
    assert connection.getresponse().headers["content-type"] == "application/x-ndjson"
    connection.close()
