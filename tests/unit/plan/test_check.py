"""A broken plan is found and the node named."""

from __future__ import annotations

import pytest

from headrace.errors import InternalError
from headrace.model.expressions.expression import TRUE, Call, Column, Literal
from headrace.model.schema import TS, Schema
from headrace.model.types import Type
from headrace.model.window import Extent, Rows, While
from headrace.plan.check import check
from headrace.plan.nodes import Aggregate, Filter, Join, Node, Project, Scan, TableJoin, Union

S = Scan("s", Schema.of(a=Type.INT, b=Type.STRING))
T = Scan("t", Schema.of(c=Type.BIGINT))
A, C, MISSING = Column("a", Type.INT), Column("c", Type.BIGINT), Column("z", Type.INT)
WIDE = Extent(span=1)


def missing(node: Node = S) -> Filter:
    return Filter(node, Call("is_null", (MISSING,), Type.BOOLEAN))


@pytest.mark.parametrize(
    ("plan", "fault"),
    [
        (missing(), "column 'z' is not among a, b"),
        (
            Filter(S, Call("is_null", (Column("a", Type.BIGINT),), Type.BOOLEAN)),
            "column 'a' is INT, but it is read as BIGINT",
        ),
        (Filter(S, A), "the predicate is INT, not BOOLEAN"),
        (Project(S, (("x", A), ("x", A))), "column names are not unique: x, x"),
        (Project(S, (("x", Call("frobnicate", (A,), Type.INT)),)), "there is no function 'frobnicate'"),
        (Project(S, (("x", Call("upper", (), Type.STRING)),)), "function 'upper' does not take 0 arguments"),
        (Union((S, T)), "inputs of a union differ in schema"),
        (Join(S, T, "inner", ((A, C),), None, WIDE, WIDE, ("c",)), "a key joins INT with BIGINT"),
        (Join(S, T, "inner", (), None, WIDE, WIDE, ()), "one name for each column of the right input"),
        (Join(S, T, "inner", (), None, WIDE, WIDE, ("a",)), "column names are not unique: a, b, a"),
        (Join(S, T, "inner", (), None, WIDE, Extent(rows=1, by=(A,)), ("c",)), "column 'a' is not among c"),
        (TableJoin(S, "p", T.schema, "inner", ((A, "k"),), None, ("c",)), "table p has no column 'k'"),
        (TableJoin(S, "p", T.schema, "inner", ((A, "c"),), None, ("c",)), "a key joins INT with BIGINT"),
        (Aggregate(S, Rows(1, 1, (MISSING,)), (), ()), "column 'z' is not among a, b"),
        (Aggregate(S, While(A), (), ()), "the predicate is INT, not BOOLEAN"),
        (Aggregate(S, Rows(1, 1), (("window_end", A),), ()), "column names are not unique"),
    ],
)
def test_a_broken_invariant_is_an_internal_error(plan: Node, fault: str) -> None:
    with pytest.raises(InternalError) as caught:
        check(plan)
    assert fault in caught.value.message


def test_the_error_names_the_broken_node_not_the_root() -> None:
    with pytest.raises(InternalError, match="in plan node: Filter z IS NULL"):
        check(Project(missing(), (("a", A),)))


def test_the_timestamp_may_be_read_although_no_schema_lists_it() -> None:
    late = Call(">", (Column(TS, Type.BIGINT), Literal(5, Type.BIGINT)), Type.BOOLEAN)
    assert check(Filter(Filter(S, late), TRUE)) is None
