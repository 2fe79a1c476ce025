"""Names of vertices: what they say, that they are short, and that they are unique."""

from __future__ import annotations

import pytest

from headrace.graph.graph import Graph, Vertex, merge, vertex
from headrace.graph.naming import LONGEST_NAME, Names, shorten
from headrace.graph.place import place
from headrace.model.expressions.expression import Call, Column, Expr, Literal
from headrace.model.schema import Schema
from headrace.model.types import Type
from headrace.model.window import AggregateCall, Extent, Range
from headrace.operators import specs

ITEM, PRICE = Column("item", Type.INT), Column("price", Type.INT)
BIDS = Schema.of(item=Type.INT, price=Type.INT)


def above(limit: int) -> Expr:
    return Call(">", (PRICE, Literal(limit, Type.INT)), Type.BOOLEAN)


def scan(stream: str) -> Vertex:
    return vertex(specs.Scan(stream, ("item", "price")))


def filtered(stream: str, query: str, limit: int = 5) -> Graph:
    origin = scan(stream)
    kept = vertex(specs.Filter(above(limit)), [origin])
    return Graph((origin, kept, vertex(specs.Output(query), [kept])))


def named(graph: Graph) -> list[str]:
    names = Names(graph)
    return [names[each.id] for each in graph]


def test_a_name_says_what_a_vertex_does_with_which_streams() -> None:
    window = Extent(span=10_000_000)
    join = specs.Join("inner", BIDS, BIDS, ("item_1", "price_1"), ((ITEM, ITEM),), None, window, window, False)
    sides = [scan("bids"), scan("asks")]
    graph = Graph((*sides, vertex(join, sides)))
    assert named(graph) == ["scan bids (item, price)", "scan asks (item, price)", "join bids x asks on item"]


def test_an_aggregate_is_named_by_what_it_computes_of_which_groups_in_which_window() -> None:
    calls = (AggregateCall("n", "count", None, Type.BIGINT), AggregateCall("m", "max", PRICE, Type.INT))
    spec = specs.PaneAggregate(Range(10_000_000, 5_000_000), (("item", ITEM),), calls)
    assert spec.describe() == "count, max(price) per item, 10 s every 5 s"


def test_vertices_that_do_the_same_are_told_apart_by_their_streams_then_by_their_queries() -> None:
    graph = merge([filtered("bids", "a"), filtered("asks", "b")])
    assert [name for name in named(graph) if "filter" in name] == [
        "filter price > 5 of bids",
        "filter price > 5 of asks",
    ]
    origin = scan("bids")
    sorts = [vertex(specs.Reorder((), ("item",)), [origin]), vertex(specs.Reorder((ITEM,), ("item",)), [origin])]
    ends = [vertex(specs.Output(query), [each]) for query, each in zip("ab", sorts, strict=True)]
    assert named(Graph((origin, *sorts, *ends)))[1:3] == [
        "sort bids by timestamp, item (a)",
        "sort bids by timestamp, item (b)",
    ]


def test_where_nothing_else_differs_vertices_are_numbered() -> None:
    origin = scan("bids")
    sorts = [vertex(specs.Reorder(by, ("item",)), [origin]) for by in ((), (ITEM,))]
    assert named(Graph((origin, *sorts)))[1:] == ["sort bids by timestamp, item #1", "sort bids by timestamp, item #2"]


def test_no_name_is_long_and_all_are_unique() -> None:
    lots: list[Expr] = [Call("+", (PRICE, Literal(number, Type.INT)), Type.INT) for number in range(50)]
    origin = scan("a_stream_with_a_name_that_is_longer_than_any_name_should_be_in_a_table")
    projects = [
        vertex(
            specs.Project(tuple((f"c{i}", expr) for i, expr in enumerate([*lots, Literal(last, Type.INT), *lots]))),
            [origin],
        )
        for last in range(5)
    ]
    names = named(Graph((origin, *projects)))
    assert max(map(len, names)) <= LONGEST_NAME
    assert len(set(names)) == len(names)


def test_vertices_that_placing_adds_have_names_as_well() -> None:
    graph = filtered("bids", "q")
    names = Names(graph)
    assert {names[each.id] for each in place(graph).keyed} == {"receive filter price > 5", "output of q"}
    assert names["unknown"] == "unknown"


@pytest.mark.parametrize("longest", [20, 40, 60])
def test_a_shortened_text_keeps_its_beginning_and_its_end(longest: int) -> None:
    text = "sum(speed * weight), sum(weight), count per segment, 10 s every 1 s"
    short = shorten(text, longest)
    assert len(short) <= longest
    assert short.startswith("sum(")
    assert short.endswith("1 s")
    assert shorten(short, longest) == short
