"""Buckets on a cluster: equal shares for every number of partitions that divides them."""

from collections import Counter

import pytest

from headrace.hosts.spark.hashing import partition_of, spread_from
from headrace.hosts.spark.sizing import BUCKETS, partitions_for, possible_partitions, sizes


@pytest.mark.parametrize("count", BUCKETS)
def test_every_number_of_partitions_that_divides_the_buckets_gets_equal_shares(count: int) -> None:
    numbers, _ = sizes(1, is_local=False, wanted=count)
    assert len({*numbers}) == count
    for partitions in possible_partitions(count):
        shares = Counter(partition_of(number, partitions) for number in numbers)
        assert set(shares.values()) == {count // partitions}


@pytest.mark.parametrize(
    ("cores", "buckets", "partitions"),
    [(1, 12, 1), (2, 12, 2), (3, 12, 3), (5, 24, 4), (7, 60, 6), (16, 120, 15), (100, 720, 90), (4000, 2520, 2520)],
)
def test_a_cluster_has_about_four_buckets_for_each_core(cores: int, buckets: int, partitions: int) -> None:
    chosen = sizes(cores, is_local=False, wanted=None)
    assert (len(chosen.buckets), chosen.partitions) == (buckets, partitions)


def test_one_machine_has_as_many_buckets_as_cores_unless_the_user_says_otherwise() -> None:
    assert sizes(2, is_local=True, wanted=None) == ([0, 2], 2)
    assert len(sizes(2, is_local=True, wanted=8).buckets) == 8
    assert sizes(3, is_local=True, wanted=8).partitions == 3


def test_the_buckets_that_a_user_asks_for_are_divided_as_the_cores_allow() -> None:
    chosen = sizes(6, is_local=False, wanted=8)
    assert (len(chosen.buckets), chosen.partitions) == (8, 4)
    assert [partitions_for(12, cores) for cores in range(1, 8)] == [1, 2, 3, 4, 4, 6, 6]


@pytest.mark.parametrize("partitions", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_other_buckets_are_those_there_are_as_far_as_partitions_stay_even(partitions: int, count: int) -> None:
    before = sizes(4, is_local=True, wanted=6).buckets
    chosen = spread_from(before, count, partitions)
    shares = Counter(partition_of(number, partitions) for number in chosen)
    assert len(set(chosen)) == count
    assert max(shares.values()) - min(shares[place] for place in range(partitions)) <= 1
    assert spread_from(chosen, count, partitions) == chosen
    if partitions == 1:
        assert len({*chosen} & {*before}) == min(count, 6)
