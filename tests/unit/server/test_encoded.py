"""Messages of results are encoded once for all followers at the same place."""

from __future__ import annotations

from headrace.server.encoded import Encoded


def test_a_message_is_made_once_and_the_oldest_give_way() -> None:
    made: list[int] = []

    def make(number: int) -> bytes:
        made.append(number)
        return b"x" * 40

    encoded = Encoded(most_bytes=100)
    assert encoded.get(1, lambda: make(1)) is encoded.get(1, lambda: make(1))
    encoded.get(2, lambda: make(2))
    encoded.get(3, lambda: make(3))  # 120 bytes: the first goes
    encoded.get(2, lambda: make(2))
    encoded.get(1, lambda: make(1))
    assert made == [1, 2, 3, 1]


def test_a_message_that_is_too_large_is_not_remembered() -> None:
    encoded = Encoded(most_bytes=10)
    assert len(encoded.get("large", lambda: b"x" * 50)) == 50
    assert encoded.get("large", lambda: b"other") == b"other"
