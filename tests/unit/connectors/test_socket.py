import json
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog.definitions import Connector, Stream, Timing
from headrace.connectors.socket import SocketSource
from headrace.errors import SourceFault
from headrace.model.limits import LINE_BYTES
from headrace.model.schema import Schema
from headrace.model.types import Type

SCHEMA = Schema.of(id=Type.INT)
WAIT = 20


class Server:
    """Sends what it is told to whoever connects."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(WAIT)
        self.port = self.listening.getsockname()[1]

    def serve(self, data: bytes) -> None:
        peer, _ = self.listening.accept()
        with peer:
            peer.sendall(data)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.listening.close()


def source_at(port: int, home: Path) -> SocketSource:
    return SocketSource(
        Stream("s", SCHEMA, Connector("SOCKET", {"host": "127.0.0.1", "port": port}), Timing.LATENT), home
    )


def lines(first: int, last: int) -> bytes:
    return b"".join(b'{"id": %d}\n' % i for i in range(first, last))


def wait_for(source: SocketSource, done: Callable[[Any], bool], start: Any = None) -> Any:
    """Poll until an offset is as wanted; bounded by the number of polls."""
    pause = threading.Event()
    for _ in range(WAIT * 100):
        offset = source.latest(start, now=0, limit=10**9)
        if done(offset):
            return json.loads(json.dumps(offset))
        pause.wait(0.01)
    raise AssertionError("the lines did not come")


def read(
    source: SocketSource, start: Any, end: Any, parallel: int = 1
) -> tuple[list[tuple[int, int]], list[tuple[str, str]]]:
    source = pickle.loads(pickle.dumps(source))
    rows, bad = [], []
    for split in json.loads(json.dumps(source.splits(start, end, parallel=parallel))):
        for piece in source.read(split):
            rows += list(zip(piece.seq, piece.rows["id"], strict=True))
            bad += [] if piece.bad is None else [(record, origin) for record, _, origin in piece.bad.rows()]
    return rows, bad


def test_lines_are_spooled_cut_anywhere_and_read_again(server: Server, tmp_path: Path) -> None:
    source = source_at(server.port, tmp_path)
    assert source.latest(None, now=0, limit=9) is None
    sent = lines(0, 50) + b'{"id": "x"}\n' + lines(50, 60) + b'{"id": 6'
    server.serve(sent)
    end = wait_for(source, lambda offset: offset == len(sent) + 1)
    source.close()
    rows, bad = read(source, None, end)
    assert [row[1] for row in rows] == list(range(60))
    assert bad == [('{"id": "x"}', f"127.0.0.1:{server.port}:51"), ('{"id": 6', f"127.0.0.1:{server.port}:62")]
    again = source_at(server.port, tmp_path)
    for step in (1, 7, 100):
        cut: list[tuple[int, int]] = []
        for begin in range(0, end, step):
            cut += read(again, begin, min(begin + step, end))[0]
        assert cut == rows
    assert again.finished(end)
    assert not again.finished(None)


def test_it_connects_again_and_a_limit_is_kept(server: Server, tmp_path: Path) -> None:
    source = source_at(server.port, tmp_path)
    source.latest(None, now=0, limit=9)
    server.serve(lines(0, 10))
    first = wait_for(source, lambda offset: offset == len(lines(0, 10)))
    server.serve(lines(10, 20))
    second = wait_for(source, lambda offset: offset == len(lines(0, 20)), start=first)
    assert [row[1] for row in read(source, first, second)[0]] == list(range(10, 20))
    part = source.latest(None, now=0, limit=5)
    assert [row[1] for row in read(source, None, part)[0]] in (list(range(5)), list(range(6)))
    source.close()


def test_a_peer_that_is_not_there_does_not_block(server: Server, tmp_path: Path) -> None:
    server.listening.close()
    source = source_at(server.port, tmp_path)
    assert [source.latest(None, now=now, limit=9) for now in range(3)] == [None] * 3
    assert source.finished(None)
    source.close()


def is_past(start: Any, offset: Any) -> bool:
    return offset is not None and offset != start


def test_old_segments_are_deleted_and_positions_go_on(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.connectors.socket._SEGMENT", 10)
    source = source_at(server.port, tmp_path)
    source.latest(None, now=0, limit=9)
    end: Any = None
    for number in range(3):
        server.serve(lines(number, number + 1))
        end = wait_for(source, partial(is_past, end), start=end)
    source.close()
    spool = tmp_path / "sources" / "s"
    assert len(list(spool.iterdir())) == 3
    assert [row[1] for row in read(source, None, end)[0]] == [0, 1, 2]
    source.forget(end)
    assert len(list(spool.iterdir())) == 1
    assert source.finished(end)
    with pytest.raises(SourceFault, match="no longer holds position 0"):
        source.splits(None, end, parallel=1)


def test_a_line_torn_by_a_crash_is_one_bad_record(server: Server, tmp_path: Path) -> None:
    spool = tmp_path / "sources" / "s"
    spool.mkdir(parents=True)
    (spool / f"{0:020d}.lines").write_bytes(lines(0, 2) + b'{"id"')
    source = source_at(server.port, tmp_path)
    source.latest(None, now=0, limit=9)
    server.serve(lines(2, 3))
    end = wait_for(source, lambda offset: offset == len(lines(0, 3)) + 6)
    source.close()
    rows, bad = read(source, None, end)
    assert [row[1] for row in rows] == [0, 1, 2]
    assert [record for record, _ in bad] == ['{"id"']


def test_a_line_without_an_end_is_cut_and_is_one_bad_record(server: Server, tmp_path: Path) -> None:
    data = lines(0, 2) + b"x" * (3 * LINE_BYTES) + b"\n" + lines(2, 4)
    threading.Thread(target=server.serve, args=(data,), daemon=True).start()
    source = source_at(server.port, tmp_path)
    end = wait_for(source, lambda offset: offset is not None and offset >= len(lines(0, 4)) + LINE_BYTES + 1)
    slices = [part for split in source.splits(None, end, parallel=1) for part in source.read(split)]
    source.close()
    assert [row for part in slices for row in part.rows["id"].to_list()] == [0, 1, 2, 3]
    bad = [part.bad for part in slices if part.bad is not None]
    assert sum(map(len, bad)) == 1
    assert end == len(lines(0, 4)) + LINE_BYTES + 1, "the rest of the line is not kept"
