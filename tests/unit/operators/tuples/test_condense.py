"""Tuples of one instant that are alike become one row; where few are alike, each stays by itself."""

from __future__ import annotations

from headrace.model.expressions.expression import Column
from headrace.model.page import Page, page_of
from headrace.model.schema import TS, Field, Schema
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.operators.tuples.condense import Condense

SCHEMA = Schema((Field("k", Type.INT), Field("v", Type.INT)))
V = Column("v", Type.INT)
SPEC = Condense(
    ("k",),
    (
        AggregateCall("n", "count", None, Type.BIGINT),
        AggregateCall("c", "count", V, Type.BIGINT),
        AggregateCall("s", "sum", V, Type.BIGINT),
        AggregateCall("lo", "min", V, Type.INT),
        AggregateCall("hi", "max", V, Type.INT),
    ),
)


def condensed(rows: list[tuple[int, int | None, int | None]]) -> list[tuple[object, ...]]:
    page = page_of(SCHEMA, [{"k": k, "v": v} for _, k, v in rows], [ts for ts, _, _ in rows])
    (found,) = SPEC.build().on_page(0, page)
    assert isinstance(found, Page)
    assert found.rows.columns == ["k", "n", "c", "s", "lo", "hi", TS]
    assert found.rows.schema["s"] == page_of(Schema((Field("s", Type.BIGINT),)), [], []).rows.schema["s"]
    return found.rows.rows()


def test_tuples_that_agree_are_one_row() -> None:
    rows = [(1, 7, 3), (1, 7, None), (1, 8, None), (1, 7, 5), (2, 7, 1), (2, None, 4), (2, None, 4), (2, 8, None)]
    assert condensed(rows) == [
        (7, 3, 2, 8, 3, 5, 1),
        (8, 1, 0, None, None, None, 1),
        (7, 1, 1, 1, 1, 1, 2),
        (None, 2, 2, 8, 4, 4, 2),
        (8, 1, 0, None, None, None, 2),
    ]


def test_tuples_that_differ_stay_by_themselves() -> None:
    assert condensed([(1, 7, 3), (1, 8, None), (2, 7, 3)]) == [
        (7, 1, 1, 3, 3, 3, 1),
        (8, 1, 0, None, None, None, 1),
        (7, 1, 1, 3, 3, 3, 2),
    ]


def test_what_lies_by_its_keys_still_does() -> None:
    assert SPEC.keys_after((Column("k", Type.INT),)) == (Column("k", Type.INT),)
    assert SPEC.keys_after((V,)) is None
    assert SPEC.keys_before((Column("n", Type.BIGINT),)) is None
