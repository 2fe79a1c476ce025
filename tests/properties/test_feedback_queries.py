"""Random queries that share operators, feedback at any time, restarts: nothing needed is lost, nothing is added."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from headrace.engine.engine import Engine
from headrace.engine.feedback.guards import Guard
from headrace.graph.feedback import stamped
from headrace.graph.graph import Graph, merge
from headrace.graph.lower import lower
from headrace.language.parser import parse
from headrace.language.syntax.statements import Select
from headrace.model.expressions.expression import Column
from headrace.model.page import Element, Page, Punctuation
from headrace.model.patterns.feedback import Feedback, Intent
from headrace.model.patterns.match import IsNull, Match, OneOf, at_least, at_most, less, unequal
from headrace.model.patterns.pattern import STAMP, Pattern, matches, pattern
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.time import BEGIN, END
from headrace.model.types import Type
from headrace.operators.specs import Scan
from headrace.optimizer.gathering import gather_joins
from headrace.optimizer.optimizer import best
from headrace.plan.binding.binder import bind
from headrace.testing.oracle.rows import Row, rounded
from headrace.testing.strategies.queries import STREAMS, stream_histories
from headrace.testing.strategies.shapes import SHAPES, STORED, catalog
from headrace.testing.streams import page

CATALOG = catalog()
#: Shapes to which no feedback is given here.
LEFT_OUT = ("speaking_joins", "imputations", "modifiers", "window_modifiers", "suppressions")
EXAMPLES = int(os.environ.get("HEADRACE_EXAMPLES", "4"))
Told = list[tuple[int, str, Pattern]]  # before which element, which query, what
TIMES = {stream.name: stream.time_column for stream in STREAMS if stream.time_column is not None}


def compiled(text: str, name: str) -> tuple[Graph, Schema]:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    plan = best(bind(statement.select, statement.text, CATALOG))
    graph = lower(gather_joins(plan), name, STORED)
    return graph, plan.schema


def elements(histories: Mapping[str, Sequence[Row]], size: int) -> list[tuple[str, Element]]:
    """Pages of the streams in turn, each followed by the bound that the skew permits."""
    found: list[tuple[str, Element]] = []
    newest: dict[str, int] = {}
    for start in range(0, max(map(len, histories.values()), default=0), size):
        for stream in STREAMS:
            rows = histories[stream.name][start : start + size]
            if rows:
                found.append((stream.name, page(stream.schema, rows)))
                newest[stream.name] = max(newest.get(stream.name, BEGIN), *(row.ts for row in rows))
                found.append((stream.name, Punctuation(newest[stream.name] - stream.skew)))
    return [*found, *((stream.name, Punctuation(END)) for stream in STREAMS)]


def run(
    graph: Graph, events: list[tuple[str, Element]], told: Told, *, restart: int, luck: random.Random
) -> dict[str, pl.DataFrame]:
    engine = Engine(graph)
    results: dict[str, list[Page]] = {}
    bounds: dict[str, Element] = {}
    for number, (stream, element) in enumerate(events):
        for when, end, wanted in told:
            if when == number:
                engine.feedback(end, Feedback(Intent.ASSUMED, wanted))
            if when // 2 == number:  # these change nothing
                engine.feedback(end, Feedback(Intent.DESIRED, wanted))
                demand(engine, end, wanted)
        if number == restart:
            saved = {
                name: {chunk: Page.decode(Page(frame).encode()).rows for chunk, frame in state.items()}
                for name, state in engine.state().items()
            }
            guards = msgspec.json.decode(msgspec.json.encode(engine.guards.in_force()), type=list[Guard])
            again = Engine(graph)
            again.restore(saved)
            again.guards.restore(guards)
            engine = again
            for known, bound in bounds.items():
                push(engine, known, bound, luck)
        push(engine, stream, element, luck)
        if isinstance(element, Punctuation):
            bounds[stream] = element
        if luck.random() < 0.5:
            for _ in range(luck.randrange(3)):
                engine.step()
        else:
            engine.run()
        if number == len(events) - 1:
            engine.run()
        for name, pages in engine.take_results().items():
            results.setdefault(name, []).extend(pages)
    return {name: pl.concat([one.rows for one in pages]) for name, pages in results.items()}


def demand(engine: Engine, end: str, wanted: Pattern) -> None:
    """Compare what is demanded with what all operators would give, whether it is needed or not."""
    engine.feedback(end, Feedback(Intent.DEMANDED, wanted))
    everything = [one.rows.filter(matches(wanted, one.rows)) for one in engine.results_now(end)]
    answer = [one.rows for one in engine.take_partials()[end]]
    assert sum(map(counted, answer), Counter[Any]()) == sum(map(counted, everything), Counter[Any]())


def push(engine: Engine, stream: str, element: Element, luck: random.Random) -> None:
    """Let an element enter, without some of what nobody needs."""
    for vertex in engine.graph:
        if not isinstance(vertex.spec, Scan) or vertex.spec.stream != stream:
            continue
        if isinstance(element, Page):
            hidden = [TS, SEQ] if vertex.spec.seq else [TS]
            rows = element.rows.select([*vertex.spec.columns, *hidden])
            dropped = np.zeros(rows.height, np.bool_)
            for one in engine.guards.relayed.get(vertex.id, ()):
                if one.intent is Intent.ASSUMED:
                    dropped |= matches(one.pattern, rows).to_numpy()
            dropped &= np.array([luck.random() < 0.5 for _ in range(rows.height)], np.bool_)
            engine.push(vertex.id, Page(rows.filter(pl.Series(~dropped))))
        else:
            engine.push(vertex.id, element)


def counted(rows: pl.DataFrame | None) -> Counter[Any]:
    return (
        Counter()
        if rows is None
        else Counter(tuple((name, rounded(row[name])) for name in sorted(row)) for row in rows.iter_rows(named=True))
    )


@st.composite
def patterns(draw: st.DrawFn, schema: Schema, rows: pl.DataFrame) -> Pattern:
    """Some that match results, or nearly."""
    terms: list[tuple[Column, Match]] = []
    fields = [
        field for field in schema if field.type in (Type.INT, Type.BIGINT, Type.STRING, Type.BOOLEAN, Type.TIMESTAMP)
    ]
    for field in draw(st.lists(st.sampled_from(fields), max_size=2, unique=True)) if fields else []:
        values = rows[field.name].to_physical().drop_nulls().unique().sort().to_list()
        choices: list[Match] = [IsNull()]
        if values:
            value = draw(st.sampled_from(values))
            choices += [at_least(value), at_most(value), OneOf((value,)), unequal(value), less(value)]
        terms.append((Column(field.name, field.type), draw(st.sampled_from(choices))))
    if not terms or draw(st.booleans()):
        stamp = draw(st.sampled_from(rows[TS].to_list()))
        terms.append((STAMP, draw(st.sampled_from([at_most(stamp), at_least(stamp), OneOf((stamp,))]))))
    return pattern(*terms)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape not in LEFT_OUT])
def test_feedback_loses_nothing_that_is_needed(shape: str) -> None:
    @settings(
        deadline=None,
        max_examples=EXAMPLES,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.generate, Phase.shrink],
    )
    @given(SHAPES[shape], SHAPES[shape], stream_histories(most=10), st.sampled_from([1, 3]), st.booleans(), st.data())
    def check(text: str, other: str, histories: Any, size: int, alone: bool, data: st.DataObject) -> None:
        parts = {"a": compiled(text, "a")} if alone else {"a": compiled(text, "a"), "b": compiled(other, "b")}
        graph = merge(part for part, _ in parts.values())
        ends = {vertex.spec.query: vertex.id for vertex in graph if type(vertex.spec).__name__ == "Output"}
        events = elements(histories, size)
        luck = random.Random(0)
        expected = run(graph, events, [], restart=-1, luck=luck)
        told: Told = []
        meant: list[tuple[str, Pattern]] = []
        for name, (_, schema) in parts.items():
            if ends[name] in expected:
                wanted = data.draw(patterns(schema, expected[ends[name]]))
                meant.append((ends[name], wanted))
                if data.draw(st.booleans()):
                    wanted = stamped(graph, ends[name], wanted, TIMES)
                told.append((data.draw(st.integers(0, len(events) - 1)), ends[name], wanted))
        note(f"{text}\n{other}\n{told}")
        found = run(graph, events, told, restart=data.draw(st.integers(-1, len(events) - 1)), luck=luck)
        for end in ends.values():
            whole, came = expected.get(end), counted(found.get(end))
            needed = whole
            for teller, wanted in meant:
                if teller == end and needed is not None:
                    needed = needed.filter(~matches(wanted, needed))
            assert not came - counted(whole), f"foreign at {end}: {came - counted(whole)}"
            assert not counted(needed) - came, f"lost at {end}: {counted(needed) - came}"

    check()
