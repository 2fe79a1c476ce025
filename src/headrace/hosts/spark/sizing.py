"""How many buckets a checkpoint gets, and into how many Spark partitions they go.

The number of buckets stays; that of partitions follows the cores. On a cluster there are several buckets for each core,
and their number has many divisors: every number of partitions that divides it gets equal shares.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.hosts.spark.hashing import spread

#: Numbers of buckets on a cluster, and how many there are for each core, about.
BUCKETS = (12, 24, 60, 120, 240, 360, 720, 2520)
BUCKETS_PER_CORE = 4


class Sizes(NamedTuple):
    """The numbers of new buckets, and the number of partitions."""

    buckets: list[int]
    partitions: int


def sizes(cores: int, *, is_local: bool, wanted: int | None) -> Sizes:
    """Return the sizes of a new checkpoint; `wanted` buckets, if given."""
    if is_local:  # one bucket for each core costs least, and there is no machine to move others to
        return Sizes(spread(wanted or cores, cores), cores)
    count = wanted or next((count for count in BUCKETS if count >= BUCKETS_PER_CORE * cores), BUCKETS[-1])
    return Sizes(spread(count, count), partitions_for(count, cores))


def partitions_for(buckets: int, cores: int) -> int:
    """Return the greatest number of partitions that divides the buckets and does not exceed the cores."""
    return next(count for count in range(max(1, min(buckets, cores)), 0, -1) if buckets % count == 0)


def possible_partitions(buckets: int) -> list[int]:
    """Return the numbers of partitions that give each the same number of buckets."""
    return [count for count in range(1, buckets + 1) if buckets % count == 0]
