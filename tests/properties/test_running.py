"""Whatever statements come in whatever order, what is in force after them can be computed."""

from __future__ import annotations

import os

from hypothesis import given, note, settings
from hypothesis import strategies as st

from headrace.analysis.shedding.from_running import shed_options
from headrace.commands.command import EndQuery, ShedAt, StopQuery, Suspension, UseDeferrals, UseShedders
from headrace.commands.running import Running
from headrace.commands.running_graph import (
    closed_in,
    invariants_in,
    names_in,
    placement_of,
    sharing_in_transit,
    spread_in,
    whole_of,
)
from headrace.commands.shedders_in_force import place_shedders, readers_of, shedders_in
from headrace.control.policies.deferral import deferrals
from headrace.driver.shed_rows import shed_rows
from headrace.driver.totals import Totals
from headrace.engine.shedding.shedders import ShedSeen
from headrace.errors import HeadraceError
from headrace.session.forecast import Stated
from headrace.session.session import Session
from headrace.worker.wire import BucketNote, Report

EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "15"))
STREAMS = """CREATE STREAM t (at TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY at FROM MEMORY;
CREATE STREAM u (at TIMESTAMP, k INT, v DOUBLE) TIMESTAMP BY at FROM MEMORY"""
SELECTS = (
    "SELECT k, v FROM t WHERE v >= 0",
    "SELECT k, sum(v) AS s FROM t [RANGE 1 SECOND] WHERE v >= 0 GROUP BY k",
    "SELECT x.k AS k, y.v AS v FROM t [RANGE 1 SECOND] AS x LEFT JOIN u [RANGE 1 SECOND] AS y ON x.k = y.k",
    "SELECT DISTINCT k FROM u [RANGE 1 SECOND]",
    "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM t [RANGE 1 SECOND] GROUP BY k) [RANGE 2 SECONDS] "
    "GROUP BY n",
)
STARTS = ("", "", "START ON u ", "STOP ON u ", "START '2024-01-01' STOP '2024-01-02' EVERY 3 DAYS ")
NAMES = ("p", "q", "r")


@st.composite
def statements(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(NAMES))
    changes = [
        f"DROP QUERY {name}",
        f"START QUERY {name}",
        f"STOP QUERY {name}",
        f"ALTER QUERY {name} SET shedding = {draw(st.sampled_from(['0.2', '0.4', repr('off'), repr('auto')]))}",
        f"ALTER QUERY {name} SET scheduler = 'chain'",
        f"ALTER QUERY {name} SET (error {draw(st.sampled_from(['0.3', '0.5', 'NONE']))})",
        f"ASSUME {name} WHERE k = 1 FOR 1 HOUR",
        "shed everywhere",
        "defer",
        "suspend",
        "end",
    ]
    error = draw(st.sampled_from(["", "WITH (error 0.5) ", "WITH (error 0.5, shed SMALLEST v) "]))
    create = (
        f"CREATE QUERY {name} {draw(st.sampled_from(STARTS))}{error}AS {draw(st.sampled_from(SELECTS))} INTO MEMORY"
    )
    return draw(st.sampled_from([create, create, create, *changes]))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(statements(), min_size=2, max_size=12))
def test_what_is_in_force_after_any_statements_can_be_computed(texts: list[str]) -> None:
    with Session(host="local", buckets=1) as session:
        session.execute(STREAMS)
        running = session._running()
        for text in texts:
            note(text)
            match text:
                case "shed everywhere":
                    arcs = [(vertex.id, port) for vertex in whole_of(running) for port in range(len(vertex.inputs))]
                    session.deployment.send(UseShedders(tuple(ShedAt(*arc, 0.5) for arc in arcs)))
                case "defer":
                    work = {vertex.id: 1.0 for vertex in whole_of(running)}
                    chosen = deferrals(running, work, frozenset(query.query for query in running.queries))
                    session.deployment.send(UseDeferrals(chosen))
                case "suspend":
                    may_be = [query for query in running.queries if sharing_in_transit(query, running) is None]
                    stops = [StopQuery(q.query, q.number, Suspension("others come first", 0, 0.1)) for q in may_be[:1]]
                    session.deployment.send(*stops)
                case "end":
                    session.deployment.send(*(EndQuery(query.query, query.number) for query in running.ending))
                case _:
                    try:
                        session.execute(text)
                    except HeadraceError as error:
                        note(f"refused: {error}")
            running = session._running()
            compute(running, session)


def compute(running: Running, session: Session) -> None:
    placement, shedders = placement_of(running), shedders_in(running)
    assert running.suspended.keys() <= {query.query for query in running.stopped}
    placed = place_shedders(placement, shedders)
    assert len(placed.ingest) + len(placed.routes) + len(placed.keyed) == len(shedders)
    strict = {vertex.id for query in running.queries if not query.qos.error for vertex in query.graph}
    assert strict.isdisjoint(reader for reader, _ in shedders)
    counted = [ShedSeen(*arc, 10, 5) for arc in shedders]
    report = Report(buckets=[BucketNote(0)], time=0, shed=counted)
    Totals().add(1, [report], running, {}, delivered=0, milliseconds=None)
    shed_rows([report], running)
    names_in(running), closed_in(running), readers_of(running), spread_in(running, invariants_in(running))
    shed_options(running, Stated({"t": 1e6, "u": 1e6}).facts(session.catalog.streams()))
