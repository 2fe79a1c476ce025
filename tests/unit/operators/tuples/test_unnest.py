"""Unnest: pages cut anywhere, and the oracle's answer; the optimizer lets go of the array."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from headrace.model.expressions.expression import Call, Column, Literal
from headrace.model.page import page_of
from headrace.model.schema import Field, Schema
from headrace.model.types import ArrayType, MapType, Type
from headrace.operators.tuples.unnest import Unnest
from headrace.optimizer.optimizer import best
from headrace.plan import nodes
from headrace.plan.traversal import walk
from headrace.testing.contract import check_operator
from headrace.testing.oracle.oracle import answer, as_multiset
from headrace.testing.oracle.rows import Row

XS, M = ArrayType(Type.BIGINT), MapType(Type.STRING, Type.BIGINT)
SCHEMA = Schema((Field("k", Type.BIGINT), Field("xs", XS), Field("m", M)))
ROWS: list[dict[str, Any]] = [
    {"k": 1, "xs": [1, None, 1], "m": {"a": 1, "b": None}},
    {"k": 2, "xs": [], "m": {}},
    {"k": 3, "xs": None, "m": None},
    {"k": 4, "xs": [7], "m": {"a": 2}},
]
SCAN = nodes.Scan("s", SCHEMA)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize(("of", "names"), [(Column("xs", XS), ("x",)), (Column("m", M), ("key", "value"))])
@pytest.mark.parametrize("place", ["", "n"])
@pytest.mark.parametrize("kept", [None, ("k",)])
def test_it_gives_what_the_oracle_gives(
    of: Column, names: tuple[str, ...], place: str, outer: bool, kept: tuple[str, ...] | None
) -> None:
    pages = [(0, page_of(SCHEMA, ROWS[a:b], range(a, b))) for a, b in pairwise((0, 3, 4))]
    found = check_operator(Unnest(of, names, place, 1, outer, kept), pages)
    plan = nodes.Unnest(SCAN, of, names, place, 1, outer, kept)
    expected = answer(plan, {"s": [Row(at, row, at) for at, row in enumerate(ROWS)]})
    assert as_multiset(found) == as_multiset(expected)
    assert tuple(found[0].values) == plan.schema.names


def test_a_filter_moves_below_and_the_array_is_not_carried_along() -> None:
    unnest = nodes.Unnest(SCAN, Column("xs", XS), ("x",))
    first = Call("=", (Column("k", Type.BIGINT), Literal(1, Type.BIGINT)), Type.BOOLEAN)
    keys = nodes.Filter(unnest, first)
    plan = best(nodes.Project(keys, (("k", Column("k", Type.BIGINT)), ("x", Column("x", Type.BIGINT)))))
    (made,) = (node for node in walk(plan) if isinstance(node, nodes.Unnest))
    assert made.kept == ("k",)
    assert any(isinstance(node, nodes.Filter) for node in walk(made.input))
