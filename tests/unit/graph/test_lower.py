"""Operators that are chosen for a plan: what is read of a stream, and what is left out before it is ranked."""

from __future__ import annotations

from headrace.graph.lower import lower
from headrace.model.expressions.expression import Call, Column, Literal
from headrace.model.rank import RankOrder
from headrace.model.schema import Schema
from headrace.model.types import ArrayType, Type
from headrace.operators import specs
from headrace.plan import nodes

SCHEMA = Schema.of(item=Type.INT, price=Type.BIGINT, note=Type.STRING, tags=ArrayType(Type.INT))
BIDS = nodes.Scan("bids", SCHEMA)
PRICE = Column("price", Type.BIGINT)


def chosen(plan: nodes.Node) -> list[specs.Spec]:
    return [vertex.spec for vertex in lower(plan, "q", {}).vertices[:-1]]


def test_a_stream_gives_only_the_columns_with_which_a_projection_computes() -> None:
    double = ("double", Call("+", (PRICE, PRICE), Type.BIGINT))
    assert chosen(nodes.Project(BIDS, (double,))) == [specs.Scan("bids", ("price",)), specs.Project((double,))]
    constant = ("one", Literal(1, Type.INT))
    assert chosen(nodes.Project(BIDS, (constant,))) == [specs.Scan("bids", ("item",)), specs.Project((constant,))]


def test_what_cannot_have_one_of_the_first_places_is_left_out() -> None:
    def specs_of(function: str, order: Column, value: int = 2) -> list[specs.Spec]:
        ranked = nodes.Rank(BIDS, 10, (), (RankOrder(order, True, False),), "dense_rank", "place")
        place = Call(function, (Column("place", Type.BIGINT), Literal(value, Type.INT)), Type.BOOLEAN)
        return [spec for spec in chosen(nodes.Filter(ranked, place)) if isinstance(spec, specs.Leading)]

    assert specs_of("<", PRICE, 4) == [specs.Leading(10, (), RankOrder(PRICE, True, False), 3, True)]
    assert specs_of(">", PRICE) == [], "any place may satisfy the condition"
    assert specs_of("=", Column("tags", ArrayType(Type.INT))) == [], "how arrays compare is not known here"
    assert specs_of("<", PRICE, -5)[0].limit == 1, "an operator needs a limit, though no place satisfies this"
