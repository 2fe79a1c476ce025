"""Who takes whom in a sequence join, for many right tuples at once.

Both sides are sorted by group, and by order within a group; a right tuple may take the left places start..stop - 1,
all of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import polars as pl

from headrace.operators.arrays import PAIRS_AT_ONCE, Array, Flags, Ints

#: Which of the pairs (right place, left place) are a match.
Accept: TypeAlias = Callable[[Ints, Ints], Flags]


def places_before(left_groups: Array, left_ts: Ints, right_groups: Array, right_ts: Ints, *, inclusive: bool) -> Ints:
    """Return for each right tuple the number of left ones in smaller groups, or earlier in its group.

    The left ones are sorted by group and time; the right ones may be in any order.
    """
    if not len(left_ts):
        return np.zeros(len(right_ts), np.int64)
    begins = np.flatnonzero(np.concatenate([[True], left_groups[1:] != left_groups[:-1]]))
    distinct = left_groups[begins]
    group = np.searchsorted(distinct, right_groups)
    first, width = int(left_ts.min()), int(left_ts.max()) - int(left_ts.min()) + 3
    if len(begins) * width >= 1 << 62:
        return _sorted_places(left_groups, left_ts, right_groups, right_ts, inclusive=inclusive)
    # Group and time as one number. A right tuple's time is brought near those of the left ones, which changes nothing
    # for them.
    lefts = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(left_ts))) * width + (left_ts - first + 1)
    rights = group * width + (np.clip(right_ts, first - 1, first + width - 2) - first + 1)
    alone = distinct[np.minimum(group, len(distinct) - 1)] != right_groups
    rights[alone] = group[alone] * width
    return np.searchsorted(lefts, rights, "right" if inclusive else "left")


def _sorted_places(left_groups: Array, left_ts: Ints, right_groups: Array, right_ts: Ints, *, inclusive: bool) -> Ints:
    """Return the same for times so far apart that no number holds group and time."""
    count = len(left_ts)
    groups, ts = np.concatenate([left_groups, right_groups]), np.concatenate([left_ts, right_ts])
    is_right = np.arange(len(ts)) >= count
    order = np.lexsort((is_right if inclusive else ~is_right, ts, groups))
    before = np.empty(len(ts), np.int64)
    before[order] = np.cumsum(~is_right[order])
    return before[count:]


def earliest_unused(start: Ints, stop: Ints) -> Ints:
    """Return for each right tuple, in order, the first place that is not taken yet; -1 if there is none.

    Within a group start and stop only rise. If p is the first place that was not looked at before right tuple j
    came, it is afterwards min(max(p, start) + 1, stop). With p - j in place of p this is a clamp, and clamps after one
    another are a clamp: hence a prefix scan, in which the number of steps is the logarithm of the number of tuples.
    """
    index = np.arange(len(start))
    low, high = start + 1 - index, stop - index
    step = 1
    while step < len(start):
        # first the clamp that ends `step` places earlier, then this one
        high[step:] = np.minimum(np.maximum(high[:-step], low[step:]), high[step:])
        low[step:] = np.maximum(low[:-step], low[step:])
        step *= 2
    after = np.minimum(low, high) + index
    before = np.concatenate([[0], after[:-1]])
    place = np.maximum(before, start)
    return np.where(place < stop, place, -1)


def last_come(start: Ints, stop: Ints, accept: Accept) -> Ints:
    """Return for each right tuple the last place that is accepted, or -1."""
    taken = np.full(len(start), -1)
    for rights, lefts in candidates(start, stop):
        matched = accept(rights, lefts)
        taken[rights[matched]] = lefts[matched]  # candidates of one right tuple are in order, so the last one stays
    return taken


def first_come(start: Ints, stop: Ints, accept: Accept, places: int) -> Ints:
    """Return for each right tuple, in order, the first accepted place that is not taken yet; -1 if there is none."""
    taken = np.full(len(start), -1)
    used = np.zeros(places, np.bool_)
    for rights, lefts in candidates(start, stop):
        free = ~used[lefts]
        rights, lefts = rights[free], lefts[free]
        matched = accept(rights, lefts)
        for right, left in zip(rights[matched].tolist(), lefts[matched].tolist(), strict=True):
            if taken[right] < 0 and not used[left]:
                taken[right] = left
                used[left] = True
    return taken


def first_fit(start: Ints, stop: Ints, accept: Accept) -> Ints:
    """Return for each of one side the first place start..stop - 1 of the other that is accepted; -1 if there is none.

    Those that have found nothing yet look at twice as many places in the next round, so few rounds are needed and
    little is looked at in vain.
    """
    taken = np.full(len(start), -1)
    seeking = np.flatnonzero(start < stop)
    place, width = start[seeking], 1
    while len(seeking):
        until = np.minimum(place + width, stop[seeking])
        for which, tried in candidates(place, until):
            passed = np.flatnonzero(accept(tried, seeking[which]))[::-1]
            taken[seeking[which[passed]]] = tried[passed]  # from the last to the first, so the first one stays
        more = (taken[seeking] < 0) & (until < stop[seeking])
        seeking, place = seeking[more], until[more]
        width = min(2 * width, max(1, PAIRS_AT_ONCE // max(1, len(seeking))))
    return taken


def number_rows(keys: pl.DataFrame) -> Ints:
    """Return numbers that are equal iff the rows are."""
    distinct = keys.unique(maintain_order=True).with_row_index("__number")
    numbered = keys.join(distinct, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    return numbered["__number"].cast(pl.Int64).to_numpy()


def candidates(start: Ints, stop: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield all pairs (right place, left place) in order.

    They come in portions of bounded size, unless one right tuple has more.
    """
    counts = np.maximum(stop - start, 0)
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + PAIRS_AT_ONCE, "right")))
        some = counts[first:last]
        total = int(some.sum())
        if total:
            rights = np.repeat(np.arange(first, last), some)
            yield rights, np.arange(total) + np.repeat(start[first:last] - (ends[first:last] - some - done), some)
        first = last
