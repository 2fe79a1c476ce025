"""The demo's moving viewport: what it says when it moves, what is dropped, and that guards do not add up."""

from __future__ import annotations

import datetime as dt
import re
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

from headrace.cli.demo import demo
from headrace.cli.demo.viewport import SEGMENTS, Display, Savings, Viewport
from headrace.engine.statistics import GuardStatistics, Statistics, StreamStatistics
from headrace.hosts.local import LocalDeployment
from headrace.model.time import SECOND
from headrace.session import Session

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001  results have no zone
START = round(EPOCH.replace(tzinfo=dt.UTC).timestamp()) * SECOND


@pytest.mark.parametrize(
    "viewport", [Viewport(), Viewport(width=3, step=1), Viewport(width=5, step=3), Viewport(width=11, step=4)]
)
def test_it_goes_to_the_end_of_the_road_and_back(viewport: Viewport) -> None:
    places = [viewport._visible(stretch) for stretch in range(60)]
    assert {segment for place in places for segment in place} == set(range(1, SEGMENTS + 1))
    assert all(len(place) == viewport.width for place in places)
    assert all(0 < abs(one[0] - other[0]) <= viewport.step for one, other in pairwise(places))


def test_stretches_leave_no_window_out_and_have_none_in_common() -> None:
    viewport = Viewport(every=6)
    assert viewport.visible(START + 6 * SECOND) == viewport.visible(START + 1)
    assert viewport.visible(START + 6 * SECOND) != viewport.visible(START + 6 * SECOND + 1)
    first, second = (viewport.assume(START // SECOND // 6 + number, "q") for number in (0, 1))
    assert first.startswith("ASSUME q WHERE segment NOT IN (")
    assert "window_end <= TIMESTAMP '2026-01-01 00:00:06'" in first
    assert "window_end > TIMESTAMP '2026-01-01 00:00:06'" in second


def test_it_speaks_once_for_each_move_and_in_time() -> None:
    said: list[str] = []
    display = Display(Viewport(every=6, lead=2), said.append)
    for tenth in range(1, 301):
        display.look(START + tenth * SECOND // 10, Statistics())
    assert display.moves == len(said) == len(set(said)) == 6, "30 seconds, and 2 more"
    early: list[str] = []
    display = Display(Viewport(every=6, lead=2), early.append)
    display.look(START + 4 * SECOND, Statistics())
    display.look(START + 4 * SECOND + 1, Statistics())
    assert "window_end > TIMESTAMP '2026-01-01 00:00:06'" in early[-1], "2 seconds before it moves"
    assert len(early) == 2


def test_savings_go_on_when_a_deployment_forgets_old_guards() -> None:
    savings = Savings()
    streams = {"s": StreamStatistics(tuples=200, skipped=7)}
    guards = {("filter-1", "a"): GuardStatistics(None, 10), ("output", "a"): GuardStatistics(None, 5, active=False)}
    seen = Statistics(streams=streams, purged=3, guards=guards)
    savings.look(seen)
    savings.look(seen)
    guards = {("filter-1", "a"): GuardStatistics(None, 15), ("filter-2", "b"): GuardStatistics(None, 25)}
    savings.look(Statistics(streams=streams, purged=3, guards=guards))
    assert savings.dropped == {"the filter": 40, "the result": 5}
    assert (
        savings.line()
        == "saved: 45 of 200 tuples dropped early (22%), 7 not read, 3 rows of state purged, 2 guards active"
    )


def memory_script() -> str:
    """The demo's query over pushed rows."""
    return re.sub(r"FROM GENERATOR \(.*?\);", "FROM MEMORY;", demo.statements("viewport.sql"), flags=re.DOTALL)


@pytest.mark.slow
def test_many_moves_save_most_of_the_work_and_guards_stay_few() -> None:
    picture = demo.SpeedMap(Viewport(every=6, lead=2))
    windows: dict[dt.datetime, list[int]] = {}

    def keep(batch: int, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            windows.setdefault(row["window_end"], []).append(row["segment"])

    with Session(host="local", buckets=2) as session:
        session.execute(memory_script())
        session.subscribe("speed_map", keep)
        session.subscribe("speed_map", picture.take_speeds)
        assert picture.viewport is not None
        picture.display = display = Display(picture.viewport, session.execute)
        most = 0
        for second in range(0, 120, 2):
            display.look(START + second * SECOND, session.statistics())
            for stream in ("detectors", "probes"):
                at = [EPOCH + dt.timedelta(seconds=second + part) for part in (0, 1)]
                session.push(
                    stream,
                    [
                        {"segment": segment, "at": instant, "speed": 50.0}
                        for instant in at
                        for segment in range(1, SEGMENTS + 1)
                    ],
                )
            assert isinstance(session.deployment, LocalDeployment)
            while session.deployment.step():
                pass
            most = max(most, sum(1 for guard in session.statistics().guards.values() if guard.active))
        session.drain()
        display.savings.look(session.statistics())
        told = len(session._running().feedback)
    assert display.moves == 20
    assert most <= 30, "guards go with time"
    assert told <= 4
    assert len(windows) == 60
    for end, segments in windows.items():
        assert sorted(segments) == list(
            picture.viewport.visible(round(end.replace(tzinfo=dt.UTC).timestamp()) * SECOND)
        ), end
    assert display.savings.dropped["the filter"] == 120 * 2 * 8, (
        "every reading that is not visible, before it was even filtered"
    )
    assert "not visible" in text_of(picture)
    assert "67%" in text_of(picture)
    assert "1,920 of 2,880 tuples dropped early (67%)" in picture.line()


def test_before_the_first_window_nothing_is_drawn() -> None:
    picture = demo.SpeedMap(Viewport())
    assert "queries are running" in text_of(picture)
    assert picture.script == "viewport.sql"
    assert picture.line().startswith("km/h by segment - |")


def text_of(picture: demo.SpeedMap) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(picture.draw(120))
    return captured.get()
