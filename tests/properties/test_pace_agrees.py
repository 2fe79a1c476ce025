"""PACE from SQL to operators gives what the oracle says; with a cut, no less than is owed and nothing foreign."""

from __future__ import annotations

import re
from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.engine.engine import Engine
from headrace.graph.lower import lower
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS
from headrace.model.time import END, SECOND
from headrace.operators.specs import Scan
from headrace.optimizer.optimizer import best
from headrace.plan.binding.binder import bind
from headrace.plan.binding.pace import late_of
from headrace.plan.nodes import Node
from headrace.testing.oracle.oracle import Row, answer
from headrace.testing.strategies.queries import STREAMS

CATALOG = Catalog()
for definition in STREAMS:
    CATALOG.add(definition)
SCHEMAS = {stream.name: stream.schema for stream in STREAMS}
PACED = {
    "items": "SELECT at, item, n FROM bids UNION ALL SELECT at, item, n FROM moves "
    "WITH PACE ON MAX(bids.at, moves.at) 5 SECONDS CUT {cut}",
    "filtered": "SELECT item, n + 1 AS m FROM bids WHERE n > 1 UNION ALL SELECT item, n FROM moves "
    "WITH PACE ON rowtime 3 SECONDS CUT {cut}",
    "split": """WITH low AS (SELECT item, n FROM bids WHERE n < 2), high AS (SELECT item, n FROM bids WHERE n >= 2)
                SELECT n, item FROM low UNION high WITH PACE ON rowtime 4 SECONDS CUT {cut} WHERE n <> 1""",
}


@st.composite
def arrivals(draw):
    """Tuples of two streams in the order in which they come: name, second, n."""
    return draw(
        st.lists(st.tuples(st.sampled_from(["bids", "moves"]), st.integers(0, 15), st.integers(0, 3)), max_size=25)
    )


def plan_of(text: str) -> Node:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return bind(statement.select, statement.text, CATALOG)


def rows_of(arrived) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
    for number, (name, second, n) in enumerate(arrived):
        values = {"at": second * SECOND, "item": "ab"[n % 2], "n": n, "price": 1.0, "up": True}
        found[name].append(Row(second * SECOND, {field.name: values[field.name] for field in SCHEMAS[name]}, number))
    return found


def run(plan: Node, arrived) -> Counter[tuple[object, ...]]:
    """Each tuple on its own through the whole graph."""
    graph = lower(plan, "q", {})
    engine = Engine(graph)
    scans = {vertex.id: vertex.spec for vertex in graph if isinstance(vertex.spec, Scan)}
    histories = rows_of(arrived)
    for _, name, row in sorted(
        ((row.seq, name, row) for name, rows in histories.items() for row in rows), key=lambda entry: entry[0] or 0
    ):
        frame = pl.DataFrame(
            [{**row.values, TS: row.ts}],
            schema={**{k: _physical(v) for k, v in SCHEMAS[name].polars().items()}, TS: pl.Int64},
        )
        for vertex, spec in scans.items():
            if spec.stream == name:
                engine.push(
                    vertex, Page(frame.select(*(pl.col(c).cast(SCHEMAS[name].polars()[c]) for c in spec.columns), TS))
                )
        engine.run()
    for vertex in scans:
        engine.push(vertex, Punctuation(END))
    engine.run()
    pages = [page for found in engine.take_results().values() for page in found]
    return Counter(
        tuple(row) for page in pages for row in page.rows.with_columns(pl.selectors.datetime().to_physical()).rows()
    )


def _physical(dtype: pl.DataType) -> pl.DataType:
    return pl.Int64() if isinstance(dtype, pl.Datetime) else dtype


def expected(plan: Node, arrived) -> Counter[tuple[object, ...]]:
    return Counter((*row.values.values(), row.ts) for row in answer(plan, rows_of(arrived)))


@pytest.mark.parametrize("shape", PACED)
@pytest.mark.parametrize("optimized", [False, True])
def test_a_pace_that_cuts_at_its_tolerance_gives_what_the_oracle_says(shape, optimized):
    plan = plan_of(PACED[shape].format(cut=1))

    @settings(deadline=None, max_examples=20)
    @given(arrivals())
    def check(arrived):
        assert run(best(plan) if optimized else plan, arrived) == expected(plan, arrived)

    check()


@pytest.mark.parametrize("shape", PACED)
@pytest.mark.parametrize("cut", [0, 0.5])
def test_a_cut_leaves_out_only_what_lags_behind_it_on_an_input_that_was_late(shape, cut):
    plan = best(plan_of(PACED[shape].format(cut=cut)))

    @settings(deadline=None, max_examples=20)
    @given(arrivals())
    def check(arrived):
        whole, found = expected(plan, arrived), run(plan, arrived)
        assert not found - whole, "nothing foreign"
        newest = max((second for _, second, _ in arrived), default=0)
        tolerance = {"items": 5, "filtered": 3, "split": 4}[shape]
        owed = Counter({row: n for row, n in whole.items() if row[-1] >= (newest - cut * tolerance) * SECOND})
        assert not owed - found, "what is younger than every cut comes out"

    check()


@pytest.mark.parametrize("shape", PACED)
def test_what_is_too_late_is_all_that_the_pace_leaves_out(shape):
    plan = plan_of(PACED[shape].format(cut=1))
    late = late_of(plan, "q")

    @settings(deadline=None, max_examples=20)
    @given(arrivals())
    def check(arrived):
        missed = run(best(late), arrived)
        assert missed == expected(late, arrived)
        values = Counter(row[:-1] for found in (missed, run(best(plan), arrived)) for row in found.elements())
        everything = run(best(plan_of(re.sub(r"\d SECONDS", "1 HOUR", PACED[shape]).format(cut=1))), arrived)
        assert values == Counter(row[:-1] for row in everything.elements())

    check()
