"""Random queries in a whole session on the local host, in one bucket or several, give what the oracle says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.live import check_agreement, examples, expected_of, live

from headrace.model.page import Page
from headrace.session import Session, Started
from headrace.testing.oracle.oracle import Row, rows_of
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
    check_agreement(run_session(text, histories, buckets, size), expected_of(text, histories))


@examples(EXAMPLES)
@given(queries(), stream_histories(most=10), st.sampled_from([1, 4]), st.sampled_from([1, 2, 7, 100, 10_000]))
def test_sessions_agree_with_the_oracle(text, histories, buckets, size):
    check_session(text, histories, buckets, size)


@examples(EXAMPLES)
@given(sequences(), stream_histories(most=15), st.sampled_from([1, 3]), st.sampled_from([1, 7, 10_000]))
def test_sequences_in_sessions_agree_with_the_oracle(text, histories, buckets, size):
    check_session(text, histories, buckets, size)


def run_live(
    text: str, histories: Mapping[str, Sequence[Row]], buckets: int, modes: Sequence[str], options: str = ""
) -> list[Row]:
    """Push every tuple at its time, so that silent streams follow the clock; change their bounds on the way."""
    with live(text, histories, buckets, options=options, forgetful=bool(options)) as run:
        for number, arrival in enumerate(run.arrivals):
            if number % 3 == 0:
                run.session.execute(f"ALTER SYSTEM SET ets = '{modes[number // 3 % len(modes)]}'")
            run.push(arrival)
            run.deployment.step()
        run.session.drain(timeout=30)
        assert not any(seen.late for seen in run.session.statistics().streams.values())
    return run.results


@pytest.mark.slow
@examples(EXAMPLES)
@given(
    queries(),
    stream_histories(most=8),
    st.sampled_from([1, 3]),
    st.lists(st.sampled_from(["on demand", "periodic 1 ms", "periodic 3 s", "none"]), min_size=1, max_size=3),
)
def test_live_sessions_agree_with_the_oracle_however_streams_tell_their_time(text, histories, buckets, modes):
    check_agreement(run_live(text, histories, buckets, modes), expected_of(text, histories))


@pytest.mark.slow
@examples(EXAMPLES)
@given(
    st.one_of(unions(), joins()),
    stream_histories(most=8),
    st.sampled_from([1, 3]),
    st.sampled_from(["on demand", "periodic 3 s", "none"]),
)
def test_unions_and_joins_that_merge_agree_with_the_oracle_and_keep_order(text, histories, buckets, mode):
    rows = run_live(text, histories, buckets, [mode], "WITH (ordered merge)")
    check_agreement(rows, expected_of(text, histories))
    assert [row.ts for row in rows] == sorted(row.ts for row in rows)
