"""Joins of streams with different keys, in a grid and with exchanges: both give what the oracle says."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.errors import NotSupported
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Page
from headrace.operators.specs import MultiJoin
from headrace.plan.binding.binder import bind
from headrace.session import Session, Started
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.oracle import Row, answer, as_multiset, rows_of
from headrace.testing.strategies.grid_queries import dense_histories, joins_by_different_keys
from headrace.testing.strategies.queries import STREAMS, stream_statements
from headrace.testing.streams import page

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "6"))
MORE = (
    "ALTER SYSTEM SET budget = '1 ms'",
    "ALTER SYSTEM SET budget = 'off'",
    "ALTER SYSTEM SET ets = 'periodic 3 s'",
    "ALTER QUERY live SET scheduler = 'chain'",
)


def plans(labels: Sequence[str]) -> tuple[str, ...]:
    (first, *rest), (*others, last) = labels, labels
    return "mjoin", "left-deep", f"({first} ({' '.join(rest)}))", f"(({' '.join(others)}) {last})"


def run_live(
    text: str, histories: Mapping[str, Sequence[Row]], mode: str, buckets: int, size: int, seed: int
) -> tuple[list[Row], bool]:
    """Push every tuple at its time; change the plan and the number of buckets meanwhile. Also say if it is a grid."""
    arrivals = []
    for stream in STREAMS:
        newest = -(2**62)
        for row in histories[stream.name]:
            newest = max(newest, row.ts)
            arrivals.append((newest, stream.name, row))
    arrivals.sort(key=lambda arrival: arrival[:2])
    schemas = {stream.name: stream.schema for stream in STREAMS}
    found: list[Row] = []
    chance = random.Random(seed)

    def take(batch: int, pages: Sequence[Page]) -> None:
        found.extend(row for each in pages for row in rows_of(each.rows.iter_rows(named=True)))

    with Session(host="local", buckets=buckets, page=size) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.clock = clock = VirtualClock(arrivals[0][0] if arrivals else 0)
        session.deployment.forgetful = bool(seed % 2)
        session.execute(f"{stream_statements()}; ALTER SYSTEM SET grid = '{mode}'")
        (started,) = session.execute(f"CREATE QUERY live AS {text} INTO MEMORY")
        assert isinstance(started, Started)
        session.deployment.delivery.subscribers.setdefault(started.query, []).append(take)
        running = session.deployment.intake.deployments.newest()
        boxes = [vertex.spec for vertex in running.queries[0].graph if isinstance(vertex.spec, MultiJoin)]
        for time, name, row in arrivals:
            clock.advance(max(0, time - clock.now()))
            session.push(name, page(schemas[name], [row]).visible().to_dicts())
            if chance.random() < 0.4:
                continue
            for box in boxes:
                if chance.random() < 0.3:
                    session.execute(f"ALTER QUERY live SET plan = '{chance.choice(plans(box.labels))}'")
            if chance.random() < 0.1:
                session.execute(chance.choice(MORE))
            if chance.random() < 0.1:
                session.execute(f"ALTER SYSTEM SET buckets = {chance.choice((1, 2, 3, 4, 6))}")
            if chance.random() < 0.1:
                with suppress(NotSupported):
                    session.execute(f"MOVE PARCELS 0 OF live TO BUCKET {running.in_use(range(buckets))[0]}")
            session.deployment.step()
        session.drain(timeout=30)
    return found, any(box.grid for box in boxes)


@pytest.mark.slow
def test_a_grid_and_exchanges_agree_with_the_oracle() -> None:
    in_grids = 0  # results of grids with several cells

    @settings(
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.generate, Phase.shrink],
    )
    @given(
        joins_by_different_keys(),
        dense_histories(),
        st.sampled_from([1, 2, 3, 4, 6]),
        st.sampled_from([1, 3, 10_000]),
        st.integers(0, 10**6),
    )
    def run(text: str, histories: dict[str, list[Row]], buckets: int, size: int, seed: int) -> None:
        nonlocal in_grids
        note(text)
        (statement,) = parse(text)
        assert isinstance(statement, Select)
        expected = as_multiset(answer(bind(statement.select, statement.text, CATALOG), histories))
        for mode in ("on", "off"):
            results, is_grid = run_live(text, histories, mode, buckets, size, seed)
            assert not is_grid or mode == "on"
            in_grids += len(results) if is_grid and buckets > 1 else 0
            found = as_multiset(results)
            assert found == expected, f"{mode}: missing {dict(expected - found)}, too many {dict(found - expected)}"

    run()
    assert in_grids, "no grid has given a result"
