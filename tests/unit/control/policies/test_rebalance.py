"""When parcels move, and which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.control.policies.rebalance import (
    BYTE_SECONDS,
    LASTING,
    LONGER,
    MOST_BYTES,
    PAUSE,
    STAY,
    Balance,
    Look,
    Movables,
    Move,
    Processor,
    is_uneven,
    rebalance,
)
from headrace.model.time import SECOND


def look(loads: dict[int, float], bytes_: dict[int, float] | None = None, *, time: int = 0) -> Look:
    """Two buckets, each a processor: even parcels are in bucket 0, odd ones in bucket 1."""
    busy = {bucket: sum(load for parcel, load in loads.items() if parcel % 2 == bucket) for bucket in (0, 1)}
    places = {parcel: parcel % 2 for parcel in loads}
    return Look(
        time, 0.1, [Processor({0: busy[0]}), Processor({1: busy[1]})], {"g": Movables(loads, places, bytes_ or {})}
    )


def after(looks: list[Look]) -> Move | None:
    memory, move = Balance(), None
    for each in looks:
        memory, move = rebalance(memory, each)
    return move


def decided(seen: Look) -> Move | None:
    return after([seen, replace(seen, time=seen.time + LASTING)])


@pytest.mark.parametrize(
    ("busiest", "idlest", "expected"),
    [
        (0.9, 0.1, True),  # busy, idle, different
        (0.9, 0.79, False),  # busy, idle, alike
        (2.0, 0.9, False),  # busy, none idle, different
        (0.95, 0.9, False),  # busy, none idle, alike
        (0.19, 0.1, False),  # none busy, idle, different
        (0.19, 0.18, False),  # none busy, idle, alike
        # none busy means at most BUSY, which is less than IDLE: no fourth and fifth case of the table can occur
        (0.2, 0.16, True),  # at the limits
        (0.2, 0.18, False),
    ],
)
def test_all_three_thresholds_must_be_passed(busiest: float, idlest: float, expected: bool) -> None:
    assert is_uneven(busiest, idlest) is expected


def test_half_of_the_difference_goes_over_heavy_parcels_first() -> None:
    move = decided(look({0: 0.3, 2: 0.2, 4: 0.2, 6: 0.1, 1: 0.1}))
    assert move is not None
    assert move.moves == {"g": {0: 1}}
    assert move.load == pytest.approx(0.3)


def test_a_parcel_that_is_heavier_than_the_difference_stays_and_others_leave() -> None:
    move = decided(look({0: 0.7, 2: 0.1, 4: 0.05, 1: 0.1}))
    assert move is not None
    assert move.moves == {"g": {2: 1, 4: 1}}


def test_one_heavy_parcel_alone_does_not_move() -> None:
    assert decided(look({0: 0.9, 1: 0.1})) is None


def test_a_difference_must_last() -> None:
    uneven, even = look({0: 0.3, 2: 0.3, 1: 0.1}), look({0: 0.3, 1: 0.3})
    assert after([uneven]) is None
    assert after([uneven, replace(uneven, time=LASTING - 1)]) is None
    assert after([uneven, replace(even, time=SECOND), replace(uneven, time=LASTING)]) is None
    assert after([uneven, replace(uneven, time=LASTING)]) is not None


def test_moves_pause_and_a_parcel_stays_for_a_while() -> None:
    first = look({0: 0.3, 2: 0.3, 1: 0.1})
    memory, _ = rebalance(Balance(), first)
    memory, move = rebalance(memory, replace(first, time=LASTING))
    assert move is not None
    (parcel,) = move.moves["g"]
    soon = [rebalance(memory, replace(first, time=LASTING + wait))[1] for wait in (0, PAUSE - 1)]
    assert soon == [None, None]
    # nothing has changed: another parcel may go, the same one not before its time
    memory, _ = rebalance(memory, replace(first, time=LASTING + PAUSE))
    memory, again = rebalance(memory, replace(first, time=2 * LASTING + PAUSE))
    assert again is not None
    assert parcel not in again.moves["g"]
    late = 3 * LASTING + 2 * PAUSE + STAY
    memory, _ = rebalance(memory, replace(first, time=late))
    _, last = rebalance(memory, replace(first, time=late + LASTING))
    assert last is not None
    assert parcel in last.moves["g"]


def test_large_state_moves_in_parts_and_only_if_it_pays() -> None:
    loads = {0: 0.1, 2: 0.1, 4: 0.1, 6: 0.1, 8: 0.1, 1: 0.05}
    move = decided(replace(look(loads, {0: 5.0 * MOST_BYTES / 2}), period=5.0))
    assert move is not None
    assert len(move.moves["g"]) == 2
    assert move.bytes <= MOST_BYTES
    assert decided(replace(look(loads, {0: float(MOST_BYTES)}), period=0.001)) is None


def test_a_move_makes_a_micro_batch_longer_by_a_share_at_most_unless_it_is_one_parcel() -> None:
    loads = {parcel: 0.09 if parcel % 2 == 0 else 0.0 for parcel in range(20)}
    move = decided(replace(look(loads, {0: 3.9e7}), period=0.3))
    assert move is not None
    assert move.bytes * BYTE_SECONDS / 2 <= LONGER * 0.3
    assert len(move.moves["g"]) == 2
    alone = decided(replace(look(loads, {0: 4e8}), period=0.3))
    assert alone is not None
    assert len(alone.moves["g"]) == 1


def test_nothing_moves_while_parcels_are_under_way_or_with_one_processor() -> None:
    seen = look({0: 0.3, 2: 0.3, 1: 0.1})
    assert decided(replace(seen, is_settled=False)) is None
    assert decided(replace(seen, processors=seen.processors[:1])) is None


@given(st.lists(st.floats(0.001, 0.3), min_size=2, max_size=40), st.integers(0, 3))
def test_a_move_never_makes_the_busiest_processor_busier(loads: list[float], shift: int) -> None:
    seen = look({parcel * 2 + (parcel % 4 == shift): load for parcel, load in enumerate(loads)})
    move = decided(seen)
    if move is None:
        return
    group = seen.groups["g"]
    places = {**group.places, **move.moves["g"]}
    now = [sum(load for parcel, load in group.loads.items() if places[parcel] == bucket) for bucket in (0, 1)]
    before = [processor.load for processor in seen.processors]
    assert max(now) < max(before)
    assert sum(now) == pytest.approx(sum(before))
