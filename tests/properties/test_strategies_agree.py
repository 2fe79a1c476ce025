"""Random queries in an engine: any strategies and breaks, changed between any two steps, agree with the oracle."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.engine.engine import Engine
from headrace.graph.lower import lower
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import SEQ, TS
from headrace.model.time import END
from headrace.operators.specs import Output, Scan
from headrace.optimizer.optimizer import best
from headrace.plan.binding.binder import bind
from headrace.testing.oracle.oracle import answer, as_multiset, rows_of
from headrace.testing.strategies.queries import STREAMS, queries, stream_histories
from headrace.testing.streams import page

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "25"))
NAMES = st.sampled_from(["dfs", "bfs", "rr", "dfs-1", "dfs-3"])


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
@given(st.data(), queries(), stream_histories(most=8), st.sampled_from([1, 3, 100]), NAMES)
def test_strategies_agree_with_the_oracle(data, text, histories, size, strategy):
    note(text)
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    plan = bind(statement.select, statement.text, CATALOG)
    graph = lower(best(plan), "q", {})
    engine = Engine(graph)
    engine.dispatch.use_strategy(strategy)
    arcs = [
        (vertex.id, port)
        for vertex in graph
        if not isinstance(vertex.spec, Output)
        for port in range(len(vertex.inputs))
    ]
    for stream in STREAMS:
        rows = histories[stream.name]
        pages = [page(stream.schema, rows[start : start + size]) for start in range(0, len(rows), size)]
        elements: list[Element] = [*pages, Punctuation(END)]
        for element in elements:
            for vertex in graph:
                if isinstance(vertex.spec, Scan) and vertex.spec.stream == stream.name:
                    engine.push(vertex.id, narrowed(element, vertex.spec))
            match data.draw(st.sampled_from(["steps", "strategy", "break", "nothing"])):
                case "steps":
                    for _ in range(data.draw(st.integers(1, 6))):
                        engine.step()
                case "strategy":
                    engine.dispatch.use_strategy(
                        data.draw(NAMES),
                        data.draw(st.none() | st.lists(st.sampled_from([vertex.id for vertex in graph]))),
                    )
                case "break" if arcs:
                    engine.dispatch.set_break(*data.draw(st.sampled_from(arcs)))
    engine.run()
    found = [
        row
        for pages in engine.take_results().values()
        for each in pages
        for row in rows_of(each.rows.iter_rows(named=True))
    ]
    expected, came = as_multiset(answer(plan, histories)), as_multiset(found)
    assert came == expected, f"missing {dict(expected - came)}, too many {dict(came - expected)}"
    assert all(engine.bounds.reached[end] == END for end in engine.ends)


def narrowed(element: Element, scan: Scan) -> Element:
    """Only the columns that the scan wants."""
    if isinstance(element, Punctuation):
        return element
    return Page(element.rows.select([*scan.columns, *([TS, SEQ] if scan.seq else [TS])]))
