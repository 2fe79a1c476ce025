"""The results are the same tuples in timestamp order, whatever selects operators and wherever the graph is cut."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.bounds.ets import ClockEts
from headrace.engine.bounds.mode import BoundsMode
from headrace.engine.engine import Engine
from headrace.graph.graph import Graph, Vertex
from headrace.model.expressions.expression import Call, Column, Literal
from headrace.model.page import Page, Punctuation
from headrace.model.schema import TS, Schema
from headrace.model.time import END
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators.specs import Filter, OrderedJoin, OrderedUnion, Output, Project, Scan
from headrace.testing.clock import VirtualClock

X = Column("x", Type.INT)
SIDE = Schema.of(x=Type.INT)
SPAN = 3
Row = tuple[int, int]  # ts, x


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    vertices = [Vertex(f"S{n}", Scan(f"S{n}", ("x",))) for n in range(draw(st.integers(1, 3)))]
    readable = [vertex.id for vertex in vertices]
    join_at = draw(st.integers(0, 8))  # one join at most: pairs of pairs of pairs grow without end
    for number in range(draw(st.integers(1, 6))):
        name = f"q{number}"
        match "join" if number == join_at else draw(st.sampled_from(["select", "union"])):
            case "select":
                keep = Call("<>", (X, Literal(draw(st.integers(0, 3)), Type.INT)), Type.BOOLEAN)
                vertices.append(Vertex(name, Filter(keep), (draw(st.sampled_from(readable)),)))
            case "union":
                inputs = tuple(draw(st.lists(st.sampled_from(readable), min_size=2, max_size=3)))
                vertices.append(Vertex(name, OrderedUnion(len(inputs)), inputs))
            case "join":
                inputs = tuple(draw(st.lists(st.sampled_from(readable), min_size=2, max_size=2)))
                join = OrderedJoin("inner", SIDE, SIDE, ("y",), ((X, X),), None, Extent(SPAN), Extent(SPAN), False)
                vertices += [Vertex(f"j{number}", join, inputs), Vertex(name, Project((("x", X),)), (f"j{number}",))]
        readable.append(name)
    ends = [name for name in readable if not any(name in vertex.inputs for vertex in vertices) or draw(st.booleans())]
    return Graph((*vertices, *(Vertex(f"out-{name}", Output(name), (name,)) for name in ends)))


def expected(graph: Graph, histories: dict[str, list[Row]]) -> dict[str, Counter[Row]]:
    found: dict[str, list[Row]] = {}
    for vertex in graph:
        inputs = [found[origin] for origin in vertex.inputs]
        match vertex.spec:
            case Scan():
                found[vertex.id] = histories.get(vertex.id, [])
            case Filter(predicate=Call(args=(_, Literal(value=value)))):
                found[vertex.id] = [row for row in inputs[0] if row[1] != value]
            case OrderedJoin():
                found[vertex.id] = [
                    (max(a[0], b[0]), a[1])
                    for a in inputs[0]
                    for b in inputs[1]
                    if a[1] == b[1] and abs(a[0] - b[0]) <= SPAN
                ]
            case _:
                found[vertex.id] = [row for rows in inputs for row in rows]
    return {vertex.id: Counter(found[vertex.id]) for vertex in graph if isinstance(vertex.spec, Output)}


def run(engine: Engine) -> None:
    for _ in range(5000):
        if engine.step() is None:
            return
    raise AssertionError("there is no end of steps")


NAMES = st.sampled_from(["dfs", "bfs", "rr", "dfs-1", "dfs-2", "dfs-5"])


@pytest.mark.slow
@given(st.data(), graphs(), st.sampled_from(["none", "literal", "absorb", "registers"]), NAMES)
@settings(deadline=None, max_examples=80)
def test_any_selection_gives_the_same_tuples_in_order(
    data: st.DataObject, graph: Graph, mode: str, strategy: str
) -> None:
    clock = VirtualClock()
    sources = [vertex.id for vertex in graph if not vertex.inputs]
    inner = [vertex.id for vertex in graph if vertex.inputs and not isinstance(vertex.spec, Output)]
    arcs = [(vertex.id, port) for vertex in graph if vertex.id in inner for port in range(len(vertex.inputs))]
    ets = None if mode == "none" else ClockEts(clock, dict.fromkeys(sources))
    bounds = BoundsMode(registers=mode == "registers", absorb=mode != "literal")
    engine = Engine(graph, ets=ets, mode=bounds)
    engine.dispatch.use_strategy(strategy)
    histories: dict[str, list[Row]] = {name: [] for name in sources}
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(
            st.sampled_from(
                [
                    "push",
                    "push",
                    "push",
                    "mark",
                    "steps",
                    "steps",
                    "run",
                    "strategy",
                    "break",
                    "heal",
                    "restart",
                    "same",
                ]
            )
        ):
            case "push":
                name = data.draw(st.sampled_from(sources))
                rows = []
                for x, pause in data.draw(
                    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=4)
                ):
                    rows.append((clock.advance(pause), x))
                engine.push(
                    name, Page(pl.DataFrame(rows, schema={TS: pl.Int64, "x": pl.Int32}, orient="row").select("x", TS))
                )
                histories[name] += rows
            case "mark":
                engine.push(data.draw(st.sampled_from(sources)), Punctuation(clock.now()))
            case "steps":
                for _ in range(data.draw(st.integers(1, 5))):
                    engine.step()
            case "run":
                run(engine)
            case "strategy":
                engine.dispatch.use_strategy(data.draw(NAMES), data.draw(st.none() | st.lists(st.sampled_from(inner))))
            case "break":
                engine.dispatch.set_break(*data.draw(st.sampled_from(arcs)))
            case "heal":
                engine.dispatch.use_breaks(data.draw(st.lists(st.sampled_from(arcs))))
            case "same":
                engine.use(graph)
            case "restart":
                saved = {
                    name: {chunk: Page.decode(Page(frame).encode()).rows for chunk, frame in state.items()}
                    for name, state in engine.state().items()
                }
                results = engine.execution.results
                engine = Engine(graph, ets=ets, mode=bounds)
                engine.dispatch.use_strategy(data.draw(NAMES))
                engine.restore(saved)
                engine.execution.results = results
    if ets is None:
        for name in sources:
            engine.push(name, Punctuation(END))
    run(engine)
    assert not any(engine.network.blocked(name) for name in engine.network.registers)
    # where punctuation is taken in turn, one may be left at a head
    assert not (engine.network.ready if mode != "literal" else [name for name in inner if engine.network.queued(name)])
    found = engine.take_results()
    wanted = expected(graph, histories)
    for end, counts in wanted.items():
        came = [row for page in found.get(end, []) for row in page.rows.select(TS, "x").rows()]
        assert [ts for ts, _ in came] == sorted(ts for ts, _ in came)
        assert Counter(came) == counts
    if ets is None:
        assert all(engine.bounds.reached[end] == END for end in wanted)
