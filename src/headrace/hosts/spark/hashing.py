"""Bucket numbers that Spark's shuffle spreads evenly.

Spark sends a row to partition pmod(murmur3(bucket), partitions). Numbers 0 and 1 both land in partition 1 of 2, so
numbers are chosen by their hash.
"""

from __future__ import annotations

from collections.abc import Sequence

_MASK = 0xFFFFFFFF


def spread(buckets: int, partitions: int) -> list[int]:
    """Return numbers of which each partition gets an equal share, also with any other count that divides `buckets`.

    If `partitions` does not divide it, the shares differ by one at most.
    """
    places = buckets if buckets % partitions == 0 else partitions
    room = [buckets // places + (index < buckets % places) for index in range(places)]
    chosen: list[int] = []
    number = 0
    while len(chosen) < buckets:
        place = partition_of(number, places)
        if room[place]:
            room[place] -= 1
            chosen.append(number)
        number += 1
    return chosen


def spread_from(numbers: Sequence[int], buckets: int, partitions: int) -> list[int]:
    """Return so many numbers, of these if possible, of which each partition gets an equal share, or one more."""
    shares = [list[int]() for _ in range(partitions)]
    for number in numbers:
        shares[partition_of(number, partitions)].append(number)
    # those that have most already get one more if the buckets cannot be divided evenly
    richest = sorted(range(partitions), key=lambda place: -len(shares[place]))
    room = {place: buckets // partitions + (rank < buckets % partitions) for rank, place in enumerate(richest)}
    kept = {number for place, share in enumerate(shares) for number in share[: room[place]]}
    chosen = [number for number in numbers if number in kept]
    for number in chosen:
        room[partition_of(number, partitions)] -= 1
    number = 0
    while len(chosen) < buckets:
        place = partition_of(number, partitions)
        if room[place] and number not in numbers:
            room[place] -= 1
            chosen.append(number)
        number += 1
    return chosen


def partition_of(number: int, partitions: int) -> int:
    """Return the partition of an INT key: Murmur3 x86 32 with seed 42 over its four bytes, then a remainder >= 0."""
    k = (number * 0xCC9E2D51) & _MASK
    k = ((k << 15 | k >> 17) & _MASK) * 0x1B873593 & _MASK
    h = 42 ^ k
    h = (((h << 13 | h >> 19) & _MASK) * 5 + 0xE6546B64) & _MASK
    h ^= 4
    h = ((h ^ h >> 16) * 0x85EBCA6B) & _MASK
    h = ((h ^ h >> 13) * 0xC2B2AE35) & _MASK
    h ^= h >> 16
    signed = h - (1 << 32) if h & 0x80000000 else h
    return signed % partitions
