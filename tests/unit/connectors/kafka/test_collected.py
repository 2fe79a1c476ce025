"""What a reader of a partition collects from the client's messages."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.connectors.kafka import client
from headrace.connectors.kafka.client import KafkaTopic, Place

END_OF_PARTITION = -191


class Message:
    """A record of the client, or the news that a partition ends here."""

    def __init__(self, offset: int, problem: int | None = None) -> None:
        self._offset, self._problem = offset, problem

    def offset(self) -> int:
        return self._offset

    def error(self) -> Any:
        return None if self._problem is None else SimpleNamespace(code=lambda: self._problem)

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self._offset

    def key(self) -> bytes:
        return b"k%d" % self._offset

    def value(self) -> bytes:
        return b"v%d" % self._offset

    def __len__(self) -> int:
        return len(self.value())


class Consumer:
    """Hands out messages in their order."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self.most = 0

    def assign(self, places: object) -> None:
        """Begin with the first message."""

    def consume(self, count: int, timeout: float) -> list[Message]:
        self.most = max(self.most, count)
        taken, self._messages = self._messages[:count], self._messages[count:]
        return taken

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    def run(offsets: list[int], end: int, **wanted: bool) -> list[Any]:
        consumer = Consumer([*map(Message, offsets), Message(end, END_OF_PARTITION)])
        library = SimpleNamespace(
            KafkaException=Exception,
            KafkaError=SimpleNamespace(_PARTITION_EOF=END_OF_PARTITION),
            IsolationLevel=SimpleNamespace(READ_COMMITTED=1),
            TopicPartition=lambda *place: place,
            OffsetSpec=None,
            AdminClient=lambda settings, logger: None,
            Consumer=lambda settings, logger: consumer,
        )
        monkeypatch.setattr(client, "library", lambda *_: library)
        monkeypatch.setattr(client, "PIECE", 5)
        monkeypatch.setattr(client, "_AT_ONCE", 3)
        pieces = [*KafkaTopic(Place("localhost:9092", "readings", 10.0, {})).read(0, offsets[0], end, **wanted)]
        assert consumer.most <= 3
        return pieces

    return run


@pytest.mark.parametrize("offsets", [[*range(4, 17)], [2, 3, 7, 8, 9, 10, 14], [5, 6, 8], [0]])
def test_numbers_times_and_keys_belong_to_their_records_also_where_numbers_are_missing(
    read: Any, offsets: list[int]
) -> None:
    pieces = read(offsets, offsets[-1] + 3, stamps=True, keys=True)
    assert [len(piece.values) for piece in pieces[:-1]] == [5] * (len(pieces) - 1)
    assert [at for piece in pieces for at in piece.offsets.tolist()] == offsets
    assert [at for piece in pieces for at in piece.stamps.tolist()] == [1000 + at for at in offsets]
    assert [key for piece in pieces for key in piece.keys] == [b"k%d" % at for at in offsets]
    assert [value for piece in pieces for value in piece.values] == [b"v%d" % at for at in offsets]


def test_few_large_records_are_handed_on_at_once(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PIECE_BYTES", 5)
    pieces = read([*range(10)], 10, stamps=True, keys=True)
    assert [piece.offsets.tolist() for piece in pieces] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_times_and_keys_that_nobody_asked_for_are_not_collected(read: Any) -> None:
    (piece,) = read([1, 2], 3, stamps=False, keys=False)
    assert piece.values == [b"v1", b"v2"]
    assert len(piece.stamps) == len(piece.keys) == 0


def test_records_behind_the_end_are_left_for_the_next_reader(read: Any) -> None:
    pieces = read([0, 1, 2, 3, 4, 5, 6, 7], 7, stamps=True, keys=False)
    assert [at for piece in pieces for at in piece.offsets.tolist()] == [0, 1, 2, 3, 4, 5, 6]
