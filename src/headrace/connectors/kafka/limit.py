"""How far to read the partitions of a topic if all of it is too much: up to one moment, by the stamps of the records.

Partitions are read in step, so that none runs ahead in time: what the others hold would then be late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Offsets = list[int]


def cut(
    begins: Sequence[int],
    ends: Sequence[int],
    counted: Sequence[bool],
    limit: int,
    at: Callable[[int], Offsets],
    newest: int,
) -> Offsets:
    """Return new ends at which the `counted` partitions give about `limit` records.

    `at` says the offsets of the first records from a moment on, `newest` is a moment after which there is nothing.
    """

    def size(stops: Sequence[int]) -> int:
        return sum(stop - begin for stop, begin, counts in zip(stops, begins, counted, strict=True) if counts)

    def within(stops: Sequence[int]) -> Offsets:
        return [min(max(stop, begin), end) for stop, begin, end in zip(stops, begins, ends, strict=True)]

    if size(ends) <= limit:
        return list(ends)
    low, high = 0, newest + 1
    below, above = list(begins), list(ends)
    while high - low > 1 and size(below) * 2 < limit:
        middle = (low + high) // 2
        stops = within(at(middle))
        if size(stops) <= limit:
            low, below = middle, stops
        else:
            high, above = middle, stops
    if size(below) * 2 >= limit:
        return below
    # more than we want has one stamp, or none at all: the same share of each partition
    remaining, total = limit - size(below), size(above) - size(below)
    return [low + -(-(high - low) * remaining // total) for low, high in zip(below, above, strict=True)]
