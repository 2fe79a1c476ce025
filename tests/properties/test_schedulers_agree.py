"""Random queries under any scheduler and budget, changed at any moment, with restarts: as the oracle says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.commands.command import Cost, UseCosts, UseDeferrals
from headrace.commands.running_graph import whole_of
from headrace.driver.progress import read_progress, write_progress
from headrace.engine.engine import Engine
from headrace.engine.scheduling.schedulers import SCHEDULERS
from headrace.graph.deferral import deferral_of
from headrace.graph.graph import Graph, VertexId
from headrace.graph.place import Deferral, place
from headrace.hosts.local import LocalDeployment
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Page
from headrace.plan.binding.binder import bind
from headrace.session import Session, Started
from headrace.testing.clock import VirtualClock
from headrace.testing.oracle.oracle import Row, answer, as_multiset, rows_of
from headrace.testing.strategies.queries import STREAMS, queries, stream_histories, stream_statements, unions
from headrace.testing.streams import page

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "10"))
NAMES = st.sampled_from(["none", "threshold 1 kB", *SCHEDULERS])
#: Nanoseconds; a tuple is taken to cost some tens to some thousands.
BUDGETS = st.none() | st.sampled_from([0, 30, 1000, 5000, 50_000])


@dataclass(frozen=True)
class Turn:
    """What happens before a micro-batch: a budget, perhaps another scheduler, weights of queries, perhaps a restart."""

    budget: int | None
    scheduler: str | None
    query: int | None
    forgets: bool
    push: int
    eligibility: str | None
    defers: int  # a bit for each vertex that can be put off
    setting: str | None  # of the budget, which decides over the one above unless it is `auto`
    cost: tuple[float, float] | None  # nanoseconds of a tuple and of an execution, at every operator


ELIGIBILITIES = st.none() | st.sampled_from(["none", "1 tuple or 1 second", "3 tuples or 1 ms"])
CHANGES = st.builds(
    Turn,
    BUDGETS,
    st.none() | NAMES,
    st.sampled_from([None, 0, 1]),
    st.booleans(),
    st.integers(0, 4),
    ELIGIBILITIES,
    st.sampled_from([0, 1, 2, 3, 6, 255]),
    st.none() | st.sampled_from(["off", "auto", "1 ms", "3 ms", "1 day"]),
    st.none() | st.sampled_from([(100.0, 0.0), (400_000.0, 0.0), (1000.0, 900_000.0), (2_000_000.0, 2_000_000.0)]),
)
TURNS = st.lists(CHANGES, min_size=1, max_size=12)


def run_session(
    texts: Sequence[str], histories: Mapping[str, Sequence[Row]], buckets: int, turns: Sequence[Turn], options: str = ""
) -> list[list[Row]]:
    """Push tuples between micro-batches of little budget, then drain with the last budget; return all results."""
    found: list[list[Row]] = [[] for _ in texts]
    with Session(host="local", buckets=buckets) as session:
        deployment = session.deployment
        assert isinstance(deployment, LocalDeployment)
        deployment.clock = VirtualClock()
        session.execute(stream_statements())
        for number, text in enumerate(texts):
            (started,) = session.execute(f"CREATE QUERY q{number} {options} AS {text} INTO MEMORY")
            assert isinstance(started, Started)

            def take(batch: int, pages: Sequence[Page], number: int = number) -> None:
                found[number].extend(row for each in pages for row in rows_of(each.rows.iter_rows(named=True)))

            deployment.delivery.subscribers.setdefault(started.query, []).append(take)
        left = {
            stream.name: page(stream.schema, histories[stream.name]).visible().to_dicts()
            if histories[stream.name]
            else []
            for stream in STREAMS
        }
        for turn in turns:
            if turn.scheduler is not None:
                target = "SYSTEM" if turn.query is None or turn.query >= len(texts) else f"QUERY q{turn.query}"
                session.execute(f"ALTER {target} SET scheduler = '{turn.scheduler}'")
            if turn.eligibility is not None:
                session.execute(f"ALTER SYSTEM SET eligibility = '{turn.eligibility}'")
            if turn.setting is not None:
                session.execute(f"ALTER SYSTEM SET budget = '{turn.setting}'")
            if turn.cost is not None:
                service, page_work = turn.cost
                cost = Cost(service, 0.5, 20.0, 20.0, page_work)
                deployment.send(UseCosts({vertex.id: cost for vertex in whole_of(session._running())}))
            deployment.send(UseDeferrals(_chosen(whole_of(session._running()), turn.defers)))
            deployment.forgetful = turn.forgets
            for name, rows in left.items():
                if turn.push and rows:
                    session.push(name, rows[: turn.push])
                    left[name] = rows[turn.push :]
            write_progress(
                session.directory, msgspec.structs.replace(read_progress(session.directory), budget=turn.budget)
            )
            deployment.step()
            engines = [bucket.engine for bucket in deployment.kept.values()]
            assert session.statistics().queues.tuples == sum(map(_queued, engines)), "queues are counted"
        for name, rows in left.items():
            if rows:
                session.push(name, rows)
        session.drain(timeout=60)
        assert not any(seen.queued for seen in session.statistics().vertices.values())
        assert session.statistics().queues.tuples == 0
    return found


def _queued(engine: Engine) -> int:
    """The tuples that wait: those that several operators read count once."""
    longest: dict[VertexId, int] = {}
    for name, port in engine.network.ready:
        origin = engine.graph.by_id()[name].inputs[port]
        longest[origin] = max(longest.get(origin, 0), engine.network.tuples((name, port)))
    return sum(longest.values())


def _chosen(graph: Graph, bits: int) -> tuple[Deferral, ...]:
    """Some of the vertices that can be put off, such that none is behind another."""
    chosen: list[Deferral] = []
    behind: set[VertexId] = set()
    for number, vertex in enumerate(graph):
        if not behind.isdisjoint(vertex.inputs):
            behind.add(vertex.id)
        elif (
            bits >> number % 8 & 1
            and vertex.id in place(graph).ingest.by_id()
            and (found := deferral_of(graph, vertex.id)) is not None
        ):
            chosen.append(found)
            behind.add(vertex.id)
    return tuple(chosen)


def check(
    texts: Sequence[str], histories: Mapping[str, Sequence[Row]], buckets: int, turns: Sequence[Turn], options: str = ""
) -> list[list[Row]]:
    for rows, text in zip(found := run_session(texts, histories, buckets, turns, options), texts, strict=True):
        note(text)
        (statement,) = parse(text)
        assert isinstance(statement, Select)
        expected = as_multiset(answer(bind(statement.select, statement.text, CATALOG), histories))
        came = as_multiset(rows)
        assert came == expected, f"{text}: missing {dict(expected - came)}, too many {dict(came - expected)}"
    return found


@pytest.mark.slow
@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(st.lists(queries(), min_size=1, max_size=2), stream_histories(most=8), st.sampled_from([1, 3]), TURNS)
def test_schedulers_and_budgets_agree_with_the_oracle(texts, histories, buckets, turns):
    check(texts, histories, buckets, turns)


@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(unions(), stream_histories(most=8), st.sampled_from([1, 3]), TURNS)
def test_merging_unions_keep_order_under_schedulers_and_budgets(text, histories, buckets, turns):
    (rows,) = check([text], histories, buckets, turns, "WITH (ordered merge)")
    assert [row.ts for row in rows] == sorted(row.ts for row in rows)
