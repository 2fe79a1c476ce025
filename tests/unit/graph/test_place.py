"""Placement: where pages must be exchanged, and that running queries keep their exchanges."""

from __future__ import annotations

import msgspec
import pytest

from headrace.graph.graph import Graph, vertex
from headrace.graph.place import place
from headrace.model.expressions.expression import Cast, Column, Expr
from headrace.model.schema import TS, Schema
from headrace.model.types import Type
from headrace.model.window import Extent
from headrace.operators import specs
from headrace.operators.joins.pairing import JoinKind

ITEM, OTHER = Column("item", Type.INT), Column("item_1", Type.INT)
BIDS = Schema.of(item=Type.INT)
PAIRS = Schema.of(item=Type.INT, item_1=Type.INT)
WINDOW = Extent(span=10_000_000)


def chain(key: Expr, *, kind: JoinKind = "inner", keys: tuple[Expr, Expr] = (ITEM, ITEM)) -> Graph:
    """Return two joins, of which the second has `key` on its left."""
    scans = [vertex(specs.Scan(name, ("item",))) for name in "abc"]
    first = specs.Join(kind, BIDS, BIDS, ("item_1",), (keys,), None, WINDOW, WINDOW, True, both_keys=True)
    second = specs.Join("inner", PAIRS, BIDS, ("item_2",), ((key, ITEM),), None, None, WINDOW, False, both_keys=True)
    below = vertex(first, scans[:2])
    above = vertex(second, [below, scans[2]])
    return Graph((*scans, below, above, vertex(specs.Output("q"), [above])))


@pytest.mark.parametrize("key", [ITEM, OTHER, Cast(OTHER, Type.BIGINT)])
def test_an_inner_join_lies_by_the_keys_of_both_sides(key: Expr) -> None:
    assert place(chain(key)).exchanges() == ()


@pytest.mark.parametrize(("kind", "key"), [("left", OTHER), ("right", ITEM), ("full", ITEM), ("full", OTHER)])
def test_padded_rows_do_not_lie_by_the_keys_that_they_lack(kind: JoinKind, key: Expr) -> None:
    assert len(place(chain(key, kind=kind)).exchanges()) == 1


@pytest.mark.parametrize(("kind", "key"), [("left", ITEM), ("right", OTHER)])
def test_outer_joins_lie_by_the_keys_of_the_side_that_they_preserve(kind: JoinKind, key: Expr) -> None:
    assert place(chain(key, kind=kind)).exchanges() == ()


def test_a_key_that_reads_the_timestamp_of_one_side_is_not_one_of_the_pair() -> None:
    time = Column(TS, Type.BIGINT)

    assert len(place(chain(time, keys=(time, time))).exchanges()) == 1


def test_a_join_that_an_earlier_version_wrote_keeps_its_exchange() -> None:
    written = msgspec.json.encode(chain(OTHER)).replace(b',"both_keys":true', b"")
    graph = msgspec.json.decode(written, type=Graph)

    assert len(place(graph).exchanges()) == 1  # its pages are under way
    assert (
        place(
            msgspec.json.decode(msgspec.json.encode(chain(ITEM)).replace(b',"both_keys":true', b""), type=Graph)
        ).exchanges()
        == ()
    )


def test_a_union_lies_by_what_all_its_inputs_lie_by() -> None:
    scans = [vertex(specs.Scan(name, ("item",))) for name in "abcd"]
    joins = [
        vertex(
            specs.Join("inner", BIDS, BIDS, ("item_1",), ((ITEM, ITEM),), None, WINDOW, WINDOW, False, both_keys=both),
            scans[port : port + 2],
        )
        for port, both in ((0, True), (2, False))
    ]
    union = vertex(specs.Union(2), joins)

    def exchanges(key: Column) -> int:
        reader = vertex(specs.Distinct((key,), 1), [union])
        graph = Graph((*scans, *joins, union, reader, vertex(specs.Output("q"), [reader])))
        return len(place(graph).exchanges())

    assert (exchanges(ITEM), exchanges(OTHER)) == (0, 1)
