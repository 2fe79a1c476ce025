"""Aggregates of joins whose tuples are condensed before they are joined: the oracle says the same."""

from __future__ import annotations

import os
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.graph.lower import lower
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.time import SECOND
from headrace.operators.specs import Condense
from headrace.optimizer.condensing import condense_joins
from headrace.optimizer.gathering import gather_joins
from headrace.optimizer.optimizer import best
from headrace.plan.binding.binder import bind
from headrace.plan.explain import explain
from headrace.testing.oracle.oracle import answer, as_multiset
from headrace.testing.run_graph import run_graph
from headrace.testing.strategies.queries import STREAMS, stream_histories

CATALOG = Catalog()
for stream in STREAMS:
    CATALOG.add(stream)
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "8"))
CALLS = (
    "count(*)",
    *(f"{name}({alias}.n)" for name in ("count", "sum", "avg", "min", "max") for alias in "xy"),
    "max(y.item)",
    "count(y.at)",
)


@st.composite
def aggregates(draw: st.DrawFn) -> str:
    """Draw an aggregate of a join of two or three streams."""
    count = draw(st.integers(2, 3))
    windows = st.sampled_from(["RANGE 2 SECONDS", "RANGE 6 SECONDS"])
    window = draw(windows)
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4, unique=True))
    columns = ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
    aliases = "xyz"[:count]
    sources = ", ".join(f"{each.name} [{window}] AS {x}" for each, x in zip(STREAMS, aliases, strict=False))
    terms = [f"x.item = {x}.item" for x in aliases[1:]]
    terms += draw(st.sampled_from([[], ["x.n > 0"], ["x.n <> y.n"]]))
    keys = draw(st.sampled_from([("x.item",), ("x.item", "y.n"), ("y.n",)]))
    named = ", ".join(f"{key} AS k{number}" for number, key in enumerate(keys))
    return f"SELECT {named}, {columns} FROM {sources} WHERE {' AND '.join(terms)} GROUP BY {', '.join(keys)}"


@settings(
    deadline=None,
    max_examples=4 * EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
@given(
    aggregates(),
    stream_histories(most=12),
    st.sampled_from([2, 2, 4]),
    st.sampled_from([1, 4, 100]),
    st.sets(st.sampled_from([stream.name for stream in STREAMS]), min_size=1),
)
def test_condensed_tuples_give_the_same_aggregates(text, histories, seconds, size, condensed):
    step = seconds * SECOND
    coarse = {
        name: [replace(row, ts=(ts := row.ts // step * step), values={**row.values, "at": ts}) for row in rows]
        for name, rows in histories.items()
    }
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    plan = bind(statement.select, statement.text, CATALOG)
    chosen = condense_joins(gather_joins(best(plan)), condensed)
    note(f"{text}\n{explain(chosen)}")
    graph = lower(chosen, "q", {})
    expected = as_multiset(answer(plan, coarse, {}))
    found = as_multiset(run_graph(graph, STREAMS, coarse, size=size, forgetful=size == 4))
    assert found == expected, f"missing {dict(expected - found)}, too many {dict(found - expected)}"
    read = {word for word in text.replace(",", " ").split() if word in condensed}
    if read and "<>" not in text:
        assert any(isinstance(vertex.spec, Condense) for vertex in graph)
