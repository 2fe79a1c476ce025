"""Which partition a key is in, and which partitions hold nothing that anybody needs.

Kafka's producers choose the partition of a record with a key by a hash, so a stream whose records are keyed by a column
keeps each of its values in one partition. If only some values are needed, and none of them belongs into a partition,
that partition need not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from headrace.model.patterns.match import NOT_NULL, Between, IsNull, Match, OneOf, Value, contains, whole_range
from headrace.model.patterns.pattern import Pattern
from headrace.model.schema import TS
from headrace.model.types import DataType, Type

#: Types of columns that may be keys: everybody writes their values as the same text.
KEY_TYPES = (Type.INT, Type.BIGINT, Type.STRING)
#: So many values that are needed are looked at one by one.
_FEW = 4096
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


@lru_cache(1 << 16)
def murmur2(key: bytes) -> int:
    """Return the hash by which Kafka's producers choose a partition, as a non-negative number."""
    hashed = (0x9747B28C ^ len(key)) & _MASK
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        hashed = hashed * _M & _MASK ^ k
    if whole < len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF


def homes(key: str, counts: Iterable[int]) -> set[int]:
    """Return the partitions that may hold a key, given the numbers of partitions that the topic has had."""
    hashed = murmur2(key.encode())
    return {hashed % count for count in counts}


def needed_keys(
    key: str, type_: DataType, unneeded: Sequence[Pattern], covers_time: Callable[[Match], bool], times: tuple[str, ...]
) -> set[Value] | None:
    """Return the values of a key that are needed; None if they cannot be listed.

    `covers_time` says which terms of the timestamp all records match.

    NULL is not among them: a record without a key cannot be told a partition, so it is a bad one.
    """
    matches = [match for condition in unneeded if (match := _of_key(condition, key, covers_time, times)) is not None]
    candidates = _candidates(matches, type_)
    return (
        None
        if candidates is None
        else {value for value in candidates if not any(contains(match, value, type_) for match in matches)}
    )


def _of_key(condition: Pattern, key: str, covers_time: Callable[[Match], bool], times: tuple[str, ...]) -> Match | None:
    """Return the part of a pattern that concerns the key; None if it depends on more than is known of the records."""
    match: Match = NOT_NULL
    for term in condition.terms:
        if term.column.name == key:
            match = term.match
        elif not (term.column.name in (TS, *times) and covers_time(term.match)):
            return None
    return match


def _candidates(matches: Sequence[Match], type_: DataType) -> list[Value] | None:
    """Return finitely many values outside of which one match holds: holes, and values between two half-lines."""
    lows: list[Value] = []
    highs: list[Value] = []
    holes: list[Value] = []
    whole = False
    for matcher in matches:
        match matcher:
            case Between(low=None, high=None, but=but):
                whole = True
                holes += but
            case Between(low=None, high=high, but=but) if high is not None:
                highs.append(high)  # everything below is not needed
                holes += but
            case Between(low=low, high=None, but=but) if low is not None:
                lows.append(low)
                holes += but
            case Between() | OneOf() | IsNull():
                pass  # a part of the line: it only takes away
    if whole:
        return holes
    if type_ is Type.STRING or not lows or not highs:
        return None
    first, last = int(max(highs)), int(min(lows))  # ends may be open, so they are looked at too
    return [*holes, *range(first, last + 1)] if last - first < _FEW else None


class TimeTest:
    """Whether the stamps of the records before some offset lie within limits, asked of the topic's index."""

    def __init__(
        self,
        first_at: Callable[[int], int | None],
        *,
        origin: int,
        begin: int,
        end: int,
        skew: int,
        newest: int | None = None,
    ) -> None:
        self._first_at, self._origin, self._begin, self._end, self._skew = first_at, origin, begin, end, skew
        self._newest = newest  # timestamp that the stream has read before; None: the index tells

    def __call__(self, match: Match) -> bool:
        """Say whether all records that are in time lie within; False if that is unknown.

        No record in [begin, end) that is in time lies more than the skew below one that the stream has read before,
        from `origin` on. The index also has records that were bad because they were ahead of the clock.
        """
        limits = whole_range(match)
        if limits is None:
            return False
        low, high = limits
        if low is not None and self._newest is not None:
            if self._newest - self._skew < low:
                return False
        elif low is not None:
            before = self._first_at(-(-(low + self._skew) // 1000))
            if before is None or not self._origin <= before < self._begin:
                return False
        if high is not None:
            after = self._first_at(high // 1000 + 1)
            return after is None or after >= self._end
        return True
