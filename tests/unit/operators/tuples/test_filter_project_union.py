from __future__ import annotations

import msgspec
import polars as pl
import pytest

from headrace.model.expressions.expression import Call, Case, Column, Expr, Literal
from headrace.model.page import Page, Punctuation, page_of
from headrace.model.schema import SEQ, TS, Schema
from headrace.model.types import DataType, Type
from headrace.operators.expressions.evaluate import SHARING, compile_expr, evaluate, reads_texts_twice
from headrace.operators.spec import Spec
from headrace.operators.tuples.filter import Filter
from headrace.operators.tuples.project import Project
from headrace.operators.tuples.union import Union

SCHEMA = Schema.of(a=Type.BIGINT, s=Type.STRING)
A, S = Column("a", Type.BIGINT), Column("s", Type.STRING)
PAGE = page_of(SCHEMA, [{"a": 1, "s": "x"}, {"a": None, "s": "y"}, {"a": 3, "s": None}], [10, 11, 12])
SPECS: list[Spec] = [
    Filter(Call("is_null", (A,), Type.BOOLEAN)),
    Project((("a", A), ("one", Literal(1, Type.INT)))),
    Union(2),
]


def with_seq(page: Page) -> Page:
    return Page(page.rows.select(pl.col(TS).alias(SEQ), "a", "s", TS))


def test_filter_keeps_true_only_and_hidden_columns_with_it() -> None:
    operator = Filter(Call(">", (A, Literal(1, Type.BIGINT)), Type.BOOLEAN)).build()
    (out,) = operator.on_page(0, with_seq(PAGE))
    assert isinstance(out, Page)
    assert out.rows.rows(named=True) == [{SEQ: 12, "a": 3, "s": None, TS: 12}]


@pytest.mark.parametrize("type_", [Type.BOOLEAN, Type.NULL])
def test_filter_emits_no_empty_page_and_passes_punctuation(type_: DataType) -> None:
    operator = Filter(Literal(None, type_)).build()
    assert list(operator.on_page(0, PAGE)) == []
    assert list(operator.on_punctuation(0, Punctuation(5))) == [Punctuation(5)]


def test_project_computes_in_order_and_keeps_hidden_columns() -> None:
    operator = Project((("b", Call("+", (A, Literal(1, Type.BIGINT)), Type.BIGINT)), ("a", S))).build()
    (out,) = operator.on_page(0, with_seq(PAGE))
    assert isinstance(out, Page)
    assert out.rows.columns == ["b", "a", TS, SEQ]
    assert out.visible().rows() == [(2, "x"), (None, "y"), (4, None)]


def test_project_of_constants_keeps_every_row() -> None:
    (out,) = Project((("one", Literal(1, Type.INT)),)).build().on_page(0, PAGE)
    assert isinstance(out, Page)
    assert out.rows["one"].to_list() == [1, 1, 1]
    assert out.rows.columns == ["one", TS]


def test_union_passes_pages_with_the_timestamp_as_only_hidden_column() -> None:
    operator = Union(2).build()
    (first,) = operator.on_page(1, with_seq(PAGE))
    (second,) = operator.on_page(0, PAGE)
    assert isinstance(first, Page)
    assert first.rows.columns == ["a", "s", TS]
    assert second is PAGE


def test_union_promises_the_minimum_over_ports() -> None:
    operator = Union(3).build()
    assert list(operator.on_punctuation(0, Punctuation(5))) == []
    assert list(operator.on_punctuation(1, Punctuation(9))) == []
    assert list(operator.on_punctuation(2, Punctuation(7))) == [Punctuation(5)]
    assert list(operator.on_punctuation(0, Punctuation(8))) == [Punctuation(7)]
    assert list(operator.on_punctuation(1, Punctuation(12))) == []


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_specs_are_stateless_hashable_and_survive_json(spec: Spec) -> None:
    assert spec.is_stateless
    assert msgspec.json.decode(msgspec.json.encode(spec), type=type(spec)) == spec
    assert hash(spec) == hash(msgspec.json.decode(msgspec.json.encode(spec), type=type(spec)))
    assert spec.build().state() == {}


def parts(of: Expr) -> tuple[tuple[str, Expr], ...]:
    """Return parts of a text, another text that is made of one of them, and whether a part is equal to another text."""
    split = [Call("split_part", (of, Literal("/", Type.STRING), Literal(n, Type.INT)), Type.STRING) for n in (1, 2, 9)]
    return (
        *((f"p{i}", part) for i, part in enumerate(split)),
        ("upper", Call("upper", (split[1],), Type.STRING)),
        ("is_b", Case(((Call("=", (split[1], Literal("b", Type.STRING)), Type.BOOLEAN), split[0]),), of, Type.STRING)),
        ("found", Call("regexp_extract", (of, Literal("(b|c)", Type.STRING), Literal(1, Type.INT)), Type.STRING)),
    )


@pytest.mark.parametrize("of", [S, Call("lower", (S,), Type.STRING), Call("||", (S, S), Type.STRING)])
def test_columns_that_have_work_in_common_are_the_same_as_each_alone(of: Expr) -> None:
    texts = ["a/b/c", "", None, "A/B", "/", "a/b"]
    page = page_of(SCHEMA, [{"a": i, "s": text} for i, text in enumerate(texts)], range(len(texts)))
    columns = parts(of)
    (together,) = Project(columns).build().on_page(0, page)
    assert isinstance(together, Page)
    for name, expr in columns:
        assert together.rows[name].equals(evaluate(page.rows, [expr])[0], null_equal=True)
    assert together.rows.columns == [*(name for name, _ in columns), TS]


def test_work_in_common_is_looked_for_where_calls_read_the_same_text() -> None:
    lower, upper = Call("lower", (S,), Type.STRING), Call("upper", (S,), Type.STRING)
    number = Call("+", (A, Literal(1, Type.BIGINT)), Type.BIGINT)
    assert reads_texts_twice([lower, upper])
    assert reads_texts_twice([Call("||", (lower, upper), Type.STRING)])
    assert not reads_texts_twice([lower, S, A])
    assert not reads_texts_twice([number, number])
    frame = PAGE.rows.select("s")
    plan = frame.lazy().select(compile_expr(expr).alias(str(i)) for i, (_, expr) in enumerate(parts(S)))
    assert "CSE" in plan.explain(optimizations=SHARING)
