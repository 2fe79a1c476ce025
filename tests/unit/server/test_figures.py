"""Figures from counters at two moments: which operator is the bottleneck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from headrace.control.observation import VertexCost
from headrace.driver.moment import Moment
from headrace.engine.statistics import Statistics, VertexStatistics
from headrace.model.time import SECOND
from headrace.server.figures import Figures
from headrace.session import Session

SQL = """
CREATE STREAM bids (item INT, price DOUBLE) FROM MEMORY;
CREATE QUERY q AS SELECT item, price FROM bids WHERE price > 10 AND price * 2 < 1000 INTO MEMORY;
CREATE QUERY n AS SELECT item, count(*) AS n FROM bids [ROWS 100] GROUP BY item INTO MEMORY;
"""


@pytest.fixture(scope="module")
def moment(tmp_path_factory: pytest.TempPathFactory) -> Moment:
    """A deployment after a micro-batch."""
    moments: list[Moment] = []
    directory: Path = tmp_path_factory.mktemp("state")
    with Session(directory, host="local") as session:
        session.deployment.delivery.watchers.append(moments.append)
        session.execute(SQL)
        session.push("bids", [{"item": n % 7, "price": n / 10} for n in range(200)])
        session.wait(0.2)
    return moments[-1]


def figures(
    moment: Moment, busy: Mapping[str, float], costs: Mapping[str, VertexCost], *, reading: float = 0.0
) -> Figures:
    """Return the figures of ten seconds in which operators were busy for these seconds, at 1,000 tuples a second."""
    vertices = {name: VertexStatistics(busy_ns=round(seconds * 1e9)) for name, seconds in busy.items()}
    observation = msgspec.structs.replace(
        moment.observation, is_first=False, rates={"bids": 1000.0}, costs=dict(costs), reading=reading
    )
    after = replace(moment, statistics=Statistics(vertices=vertices), observation=observation)
    return Figures(after, replace(after, now=after.now - 10 * SECOND, statistics=Statistics()))


def operators(moment: Moment) -> list[str]:
    return [vertex.id for vertex in Figures(moment, moment).graph]


def named(moment: Moment, kind: str) -> str:
    return next(name for name in operators(moment) if name.startswith(kind))


def test_what_works_most_is_the_bottleneck_although_estimates_name_another(moment: Moment) -> None:
    window, scan, filter_ = named(moment, "rowsaggregate"), named(moment, "scan"), named(moment, "filter")
    # feedback drops nearly all before the aggregate; rate times cost would make it need two processors
    costs = {window: VertexCost(0.002, 1.0), scan: VertexCost(0.0001, 1.0)}
    found = figures(moment, {window: 0.5, filter_: 8.0, scan: 1.0}, costs)
    assert found.load is not None
    assert found.load > 0.8
    assert found.bottleneck == filter_


def test_an_operator_with_few_tuples_can_be_the_bottleneck(moment: Moment) -> None:
    window, scan = named(moment, "rowsaggregate"), named(moment, "scan")
    # there is no cost of a tuple yet, since there were too few
    found = figures(moment, {window: 9.0, scan: 2.0}, {scan: VertexCost(0.002, 1.0)})
    assert found.bottleneck == window


def test_reading_can_be_the_bottleneck(moment: Moment) -> None:
    window, scan = named(moment, "rowsaggregate"), named(moment, "scan")
    found = figures(moment, {window: 5.0, scan: 0.1}, {window: VertexCost(0.0005, 1.0)}, reading=0.002)
    assert found.taken[scan] == pytest.approx(1.01)  # the stream is read for two scans
    [shown] = [vertex for vertex in found.vertices(None) if vertex.id == scan]
    assert shown.busy == pytest.approx(min(1.0, 1.01 / moment.cores)), "a bottleneck is shown as busy as it is"
    assert found.bottleneck == scan


def test_nothing_is_a_bottleneck_while_there_is_room(moment: Moment) -> None:
    window = named(moment, "rowsaggregate")
    assert figures(moment, {window: 2.0}, {window: VertexCost(0.0002, 1.0)}).bottleneck is None
    assert Figures(moment, moment).bottleneck is None


@pytest.mark.parametrize(("busy", "is_named"), [(9.0, True), (5.0, False)])
def test_before_the_load_is_known_a_busy_processor_has_a_bottleneck(
    moment: Moment, busy: float, is_named: bool
) -> None:
    window = named(moment, "rowsaggregate")
    found = figures(moment, {window: busy * moment.cores}, {})
    first = msgspec.structs.replace(found.moment.observation, is_first=True)
    found = Figures(replace(found.moment, observation=first), found.before)
    assert found.load is None
    assert (found.bottleneck == window) is is_named


def test_an_operator_that_is_held_up_is_the_bottleneck_although_others_work_more(moment: Moment) -> None:
    window, scan = named(moment, "rowsaggregate"), named(moment, "scan")
    found = figures(moment, {window: 2.0, scan: 3.0}, {scan: VertexCost(0.002, 1.0)})
    assert found.bottleneck == scan
    counted = found.moment.statistics.vertices | {
        window: VertexStatistics(busy_ns=2_000_000_000, tuples_in=100, queued=900)
    }
    later = replace(found.moment, statistics=Statistics(vertices=counted))
    assert Figures(later, found.before).bottleneck == window, "ten times as many tuples came as it took"
