"""Random queries in a whole session on the local host, in one bucket or several, give what the oracle says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Page
from headrace.plan.binding.binder import bind
from headrace.session import Session, Started
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.oracle import Row, answer, as_multiset, rows_of
from headrace.testing.strategies.queries import (
    STREAMS,
    joins,
    queries,
    sequences,
    stream_histories,
    stream_statements,
    unions,
)
from headrace.testing.streams import page

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "10"))


def run_session(text: str, histories: Mapping[str, Sequence[Row]], buckets: int, size: int) -> list[Row]:
    """Push all histories, drain, and collect results with their timestamps."""
    found: list[Row] = []

    def take(batch: int, pages: Sequence[Page]) -> None:
        found.extend(row for each in pages for row in rows_of(each.rows.iter_rows(named=True)))

    with Session(host="local", buckets=buckets, page=size) as session:
        session.execute(stream_statements())
        (started,) = session.execute(f"{text} INTO MEMORY")
        assert isinstance(started, Started)
        session.deployment.delivery.subscribers.setdefault(started.query, []).append(take)
        for stream in STREAMS:
            if histories[stream.name]:
                session.push(stream.name, page(stream.schema, histories[stream.name]).visible().to_dicts())
        session.drain(timeout=30)
    return found


def check_session(text: str, histories: Mapping[str, Sequence[Row]], buckets: int, size: int) -> None:
    note(text)
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    expected = as_multiset(answer(bind(statement.select, statement.text, CATALOG), histories))
    found = as_multiset(run_session(text, histories, buckets, size))
    assert found == expected, f"missing {dict(expected - found)}, too many {dict(found - expected)}"


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
@given(queries(), stream_histories(most=10), st.sampled_from([1, 4]), st.sampled_from([1, 2, 7, 100, 10_000]))
def test_sessions_agree_with_the_oracle(text, histories, buckets, size):
    check_session(text, histories, buckets, size)


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
@given(sequences(), stream_histories(most=15), st.sampled_from([1, 3]), st.sampled_from([1, 7, 10_000]))
def test_sequences_in_sessions_agree_with_the_oracle(text, histories, buckets, size):
    check_session(text, histories, buckets, size)


def run_live(
    text: str, histories: Mapping[str, Sequence[Row]], buckets: int, modes: Sequence[str], options: str = ""
) -> list[Row]:
    """Push every tuple at its time, so that silent streams follow the clock; change their bounds on the way."""
    arrivals: list[tuple[int, str, Row]] = []
    for stream in STREAMS:
        newest = -(2**62)
        for row in histories[stream.name]:
            newest = max(newest, row.ts)
            arrivals.append((newest, stream.name, row))
    arrivals.sort(key=lambda arrival: arrival[:2])
    schemas = {stream.name: stream.schema for stream in STREAMS}
    found: list[Row] = []

    def take(batch: int, pages: Sequence[Page]) -> None:
        found.extend(row for each in pages for row in rows_of(each.rows.iter_rows(named=True)))

    with Session(host="local", buckets=buckets) as session:
        assert isinstance(session.deployment, LocalDeployment)
        session.deployment.clock = clock = VirtualClock(arrivals[0][0] if arrivals else 0)
        session.deployment.forgetful = bool(options)
        session.execute(stream_statements())
        (started,) = session.execute(
            f"CREATE QUERY live {options} AS {text} INTO MEMORY" if options else f"{text} INTO MEMORY"
        )
        assert isinstance(started, Started)
        session.deployment.delivery.subscribers.setdefault(started.query, []).append(take)
        for number, (time, name, row) in enumerate(arrivals):
            if number % 3 == 0:
                session.execute(f"ALTER SYSTEM SET ets = '{modes[number // 3 % len(modes)]}'")
            clock.advance(max(0, time - clock.now()))
            session.push(name, page(schemas[name], [row]).visible().to_dicts())
            session.deployment.step()
        session.drain(timeout=30)
        assert not any(seen.late for seen in session.statistics().streams.values())
    return found


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
@given(
    queries(),
    stream_histories(most=8),
    st.sampled_from([1, 3]),
    st.lists(st.sampled_from(["on demand", "periodic 1 ms", "periodic 3 s", "none"]), min_size=1, max_size=3),
)
def test_live_sessions_agree_with_the_oracle_however_streams_tell_their_time(text, histories, buckets, modes):
    note(text)
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    expected = as_multiset(answer(bind(statement.select, statement.text, CATALOG), histories))
    found = as_multiset(run_live(text, histories, buckets, modes))
    assert found == expected, f"missing {dict(expected - found)}, too many {dict(found - expected)}"


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
@given(
    st.one_of(unions(), joins()),
    stream_histories(most=8),
    st.sampled_from([1, 3]),
    st.sampled_from(["on demand", "periodic 3 s", "none"]),
)
def test_unions_and_joins_that_merge_agree_with_the_oracle_and_keep_order(text, histories, buckets, mode):
    note(text)
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    expected = as_multiset(answer(bind(statement.select, statement.text, CATALOG), histories))
    rows = run_live(text, histories, buckets, [mode], "WITH (ordered merge)")
    found = as_multiset(rows)
    assert found == expected, f"missing {dict(expected - found)}, too many {dict(found - expected)}"
    assert [row.ts for row in rows] == sorted(row.ts for row in rows)
