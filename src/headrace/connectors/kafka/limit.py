"""How far to read the partitions of a topic if all of it is too much: up to one moment, by the stamps of the records.

Partitions are read in step, so that none runs ahead in time: what the others hold would then be late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Offsets = list[int]
#: How far before the newest record the search for a moment begins if nothing is known, in milliseconds.
_STEP = 1000


def cut(
    begins: Sequence[int],
    ends: Sequence[int],
    counted: Sequence[bool],
    limit: int,
    at: Callable[[int], Offsets],
    newest: int,
    since: int = 0,
) -> tuple[Offsets, int]:
    """Return new ends at which the `counted` partitions give about `limit` records, and a moment not after them.

    `at` says the offsets of the first records from a moment on, and each time asks the brokers. `newest` is a moment
    after which there is nothing, `since` one before which nothing is left, such as the moment of the last cut.
    """

    def size(stops: Sequence[int]) -> int:
        return sum(stop - begin for stop, begin, counts in zip(stops, begins, counted, strict=True) if counts)

    def within(stops: Sequence[int]) -> Offsets:
        return [min(max(stop, begin), end) for stop, begin, end in zip(stops, begins, ends, strict=True)]

    if size(ends) <= limit:
        return list(ends), since
    low, high = since, newest + 1
    below, above = list(begins), list(ends)
    step = _STEP
    while not low and high - step > low:  # nothing is known of the oldest record: go back from the newest
        stops = within(at(high - step))
        if size(stops) <= limit:
            low, below = high - step, stops
        else:
            high, above, step = high - step, stops, 4 * step
    guess = True
    while high - low > 1 and size(below) * 8 < limit * 7:
        share = (limit * 15 // 16 - size(below)) / max(size(above) - size(below), 1)  # as if they came evenly
        middle = low + max(1, min(int((high - low) * share), high - low - 1)) if guess else (low + high) // 2
        stops = within(at(middle))
        if size(stops) <= limit:
            low, below = middle, stops
        else:
            high, above = middle, stops
        guess = not guess
    if size(below) * 2 >= limit:
        return below, low
    # more than we want has one stamp, or none at all: the same share of each partition
    remaining, total = limit - size(below), size(above) - size(below)
    return [low + -(-(high - low) * remaining // total) for low, high in zip(below, above, strict=True)], low
