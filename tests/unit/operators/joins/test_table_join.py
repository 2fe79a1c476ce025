from __future__ import annotations

import io
import typing
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Call, Cast, Column, Expr, Literal
from headrace.model.page import Page, page_of
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.types import Type
from headrace.operators.expressions.hashing import hash_columns
from headrace.operators.joins import table_search
from headrace.operators.joins.table_join import TableJoin

STREAM = Schema.of(a=Type.INT, s=Type.STRING)
TABLE = Schema.of(a=Type.BIGINT, name=Type.STRING)
A, S, NAME = Column("a", Type.INT), Column("s", Type.STRING), Column("t_name", Type.STRING)
ROWS: list[tuple[int | None, str | None]] = [(1, "one"), (2, "two"), (2, "zwei"), (None, "none"), (4, None)]
Kind = typing.Literal["inner", "left"]


def ipc(rows: list[tuple[Any, ...]], schema: Schema) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(rows, schema=schema.polars(), orient="row").write_ipc_stream(buffer)
    return buffer.getvalue()


def spec(kind: Kind, residual: Expr | None = None, on: tuple[tuple[Expr, str], ...] = ((A, "a"),)) -> TableJoin:
    return TableJoin(ipc(ROWS, TABLE), TABLE, kind, on, residual, ("t_a", "t_name"))


def page(rows: list[tuple[int | None, str | None]]) -> Page:
    return page_of(STREAM, [{"a": a, "s": s} for a, s in rows], list(range(len(rows))))


def joined(operator_spec: TableJoin, rows: list[tuple[int | None, str | None]]) -> list[tuple[Any, ...]]:
    outs = list(operator_spec.build().on_page(0, page(rows)))
    return [row for out in outs if isinstance(out, Page) for row in out.rows.rows()]


def test_inner_join_gives_every_partner_and_null_never_matches() -> None:
    assert joined(spec("inner"), [(2, "x"), (None, "y"), (9, "z"), (1, "w")]) == [
        (2, "x", 2, "two", 0),
        (2, "x", 2, "zwei", 0),
        (1, "w", 1, "one", 3),
    ]


def test_left_join_pads_tuples_without_partner() -> None:
    assert joined(spec("left"), [(None, "y"), (1, "w"), (9, None)]) == [
        (None, "y", None, None, 0),
        (1, "w", 1, "one", 1),
        (9, None, None, None, 2),
    ]


def test_the_residual_counts_before_padding() -> None:
    residual = Call("=", (NAME, S), Type.BOOLEAN)
    rows: list[tuple[int | None, str | None]] = [(2, "zwei"), (2, "no"), (4, "x")]
    assert joined(spec("inner", residual), rows) == [(2, "zwei", 2, "zwei", 0)]
    assert joined(spec("left", residual), rows) == [
        (2, "zwei", 2, "zwei", 0),
        (2, "no", None, None, 1),
        (4, "x", None, None, 2),
    ]
    assert joined(spec("left", Literal(False, Type.BOOLEAN)), [(1, "a")]) == [(1, "a", None, None, 0)]


def test_without_keys_the_residual_decides_alone() -> None:
    residual = Call("<", (A, Column("t_a", Type.BIGINT)), Type.BOOLEAN)
    assert joined(spec("inner", residual, on=()), [(2, "x")]) == [(2, "x", 4, None, 0)]
    assert len(joined(spec("inner", on=()), [(2, "x"), (3, "y")])) == 10


def test_a_constant_key_works() -> None:
    assert joined(spec("inner", on=((Literal(1, Type.INT), "a"),)), [(7, "x"), (8, "y")]) == [
        (7, "x", 1, "one", 0),
        (8, "y", 1, "one", 1),
    ]


def test_an_empty_table_matches_nothing() -> None:
    empty = TableJoin(ipc([], TABLE), TABLE, "left", ((A, "a"),), None, ("t_a", "t_name"))
    assert joined(empty, [(1, "x")]) == [(1, "x", None, None, 0)]
    assert joined(msgspec.structs.replace(empty, kind="inner"), [(1, "x")]) == []


def test_hidden_columns_pass_and_stand_last() -> None:
    rows = page([(1, "x")]).rows
    (out,) = spec("inner").build().on_page(0, Page(rows.with_columns(pl.lit(7, dtype=pl.Int64).alias(SEQ))))
    assert isinstance(out, Page)
    assert out.rows.columns == ["a", "s", "t_a", "t_name", TS, SEQ]
    assert out.rows.row(0) == (1, "x", 1, "one", 0, 7)


def test_the_spec_is_stateless_and_survives_json() -> None:
    one = spec("left")
    assert one.is_stateless
    assert msgspec.json.decode(msgspec.json.encode(one), type=TableJoin) == one


@pytest.mark.parametrize("collide", [False, True])
def test_any_table_and_page_give_what_nested_loops_give(collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if collide:
        monkeypatch.setattr(table_search, "hash_columns", lambda columns: hash_columns(columns) % 2)
    keys = st.none() | st.integers(-2, 2)
    texts = st.none() | st.sampled_from(["", "é"])

    @settings(deadline=None, max_examples=40)
    @given(
        st.lists(st.tuples(keys, texts), max_size=8),
        st.lists(st.tuples(keys, texts), max_size=8),
        st.sampled_from(["inner", "left"]),
    )
    def check(table: list[tuple[Any, Any]], stream: list[tuple[Any, Any]], kind: Kind) -> None:
        join = TableJoin(ipc(table, TABLE), TABLE, kind, ((A, "a"), (S, "name")), None, ("t_a", "t_name"))
        want = []
        for ts, row in enumerate(stream):
            partners = [other for other in table if None not in row and row == other]
            want += [(*row, *other, ts) for other in partners] or ([(*row, None, None, ts)] if kind == "left" else [])
        assert joined(join, stream) == want

    check()


def test_parts_of_the_residual_that_read_one_side_are_computed_of_it() -> None:
    def times(column: Expr, by: int) -> Expr:
        return Call("*", (Cast(column, Type.BIGINT), Literal(by, Type.BIGINT)), Type.BIGINT)

    both = Call("+", (times(A, 2), times(Column("t_a", Type.BIGINT), 3)), Type.BIGINT)
    residual = Call(">", (both, Literal(9, Type.BIGINT)), Type.BOOLEAN)
    found = joined(spec("inner", residual, on=()), [(1, "x"), (None, "y"), (3, "z")])
    assert found == [(1, "x", 4, None, 0), (3, "z", 2, "two", 2), (3, "z", 2, "zwei", 2), (3, "z", 4, None, 2)]
    of_the_table = Call("=", (NAME, Literal("two", Type.STRING)), Type.BOOLEAN)
    assert joined(spec("inner", of_the_table), [(2, "x"), (1, "y")]) == [(2, "x", 2, "two", 0)]
