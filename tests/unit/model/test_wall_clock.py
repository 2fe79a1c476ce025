"""Times of the clock with wildcards."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.time import DAY, HOUR, SECOND
from headrace.model.wall_clock import clock_name, parse_times, times_named

PATTERNS = ("*:00:00", "06:30:00", "*:*/20:15", "2026-*-01 00:00:00", "*-02-29 12:00:00", "*:*:*")


def told(text: str, after: str, upto: str) -> list[str]:
    first, last = (
        round(datetime.datetime.fromisoformat(each + "+00:00").timestamp()) * SECOND for each in (after, upto)
    )
    return [
        datetime.datetime.fromtimestamp(each // SECOND, datetime.UTC).strftime("%m-%d %H:%M:%S")
        for each in parse_times(text).between(first, last)
    ]


def test_stars_stand_for_every_number_and_every_so_many() -> None:
    assert told("*:00:00", "2026-01-01 22:00:00", "2026-01-02 01:00:00") == [
        "01-01 23:00:00",
        "01-02 00:00:00",
        "01-02 01:00:00",
    ]
    assert told("06:*/30:00", "2026-01-01", "2026-01-02 12:00:00") == [
        "01-01 06:00:00",
        "01-01 06:30:00",
        "01-02 06:00:00",
        "01-02 06:30:00",
    ]
    assert told("2026-*-01 00:00:00", "2025-12-15", "2026-03-15") == [
        "01-01 00:00:00",
        "02-01 00:00:00",
        "03-01 00:00:00",
    ]
    assert told("*-02-29 12:00:00", "2024-01-01", "2029-01-01") == ["02-29 12:00:00", "02-29 12:00:00"]


@given(st.sampled_from(PATTERNS), st.integers(20_000 * DAY, 20_400 * DAY), st.integers(0, 3 * HOUR))
def test_the_last_time_is_the_last_of_all(text: str, after: int, length: int) -> None:
    times = parse_times(text)
    assert times.last(after, after + length) == max(times.between(after, after + length), default=None)


@pytest.mark.parametrize(
    "text",
    ["", "12:00", "24:00:00", "*:60:00", "1:2:x", "*/0:00:00", "2026-13-01 00:00:00", "2026 00:00:00", "-1:00:00"],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_times(text)


def test_a_clock_is_known_by_its_times() -> None:
    assert times_named(clock_name(" *:00:00 ")) == "*:00:00"
    assert times_named("attic") is None
