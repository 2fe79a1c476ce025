from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_stream
from headrace.language.parser import parse
from headrace.language.syntax.statements import CreateStream, Select
from headrace.model.expressions.expression import walk
from headrace.model.schema import Schema
from headrace.model.time import SECOND
from headrace.model.types import Type
from headrace.plan.binding.binder import bind
from headrace.plan.nodes import Aggregate, Filter, Node, Scan
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.oracle import answer, split_late
from headrace.testing.strategies.queries import (
    STREAMS,
    TABLE_ROWS,
    TABLES,
    queries,
    stream_histories,
    stream_statements,
)
from headrace.testing.strategies.values import aggregate_calls, expressions, histories, predicates, schemas, windows

CATALOG = Catalog()
for stream in STREAMS:
    CATALOG.add(stream)
for table in TABLES:
    CATALOG.add(table)


def plan_of(text: str) -> Node:
    (statement,) = parse(text)
    assert isinstance(statement, Select)
    return bind(statement.select, statement.text, CATALOG)


@settings(max_examples=30)
@given(queries(tables=True), stream_histories(most=8))
def test_generated_queries_parse_bind_and_have_an_answer(text, streams):
    plan = plan_of(text)
    for row in answer(plan, streams, TABLE_ROWS):
        assert tuple(row.values) == plan.schema.names


def test_statements_create_the_streams():
    found = [
        define_stream(statement, statement.columns or Schema(()))
        for statement in parse(stream_statements())
        if isinstance(statement, CreateStream)
    ]
    assert tuple(found) == STREAMS


@given(st.data())
def test_histories_are_never_late(data):
    skew = data.draw(st.integers(0, 6)) * SECOND
    rows = data.draw(histories(Schema.of(a=Type.BIGINT), skew=skew))
    assert split_late(rows, skew) == (rows, [])


@pytest.mark.slow
@settings(max_examples=25)
@given(st.data())
def test_expressions_have_the_type_asked_for_and_a_value(data):
    schema = data.draw(schemas())
    type_ = data.draw(st.sampled_from([Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN]))
    expr = data.draw(expressions(schema, type_))
    python = {Type.BIGINT: int, Type.DOUBLE: float, Type.STRING: str, Type.BOOLEAN: bool}[type_]
    assert expr.type is type_
    assert sum(1 for _ in walk(expr)) < 200
    for row in data.draw(histories(schema, most=4)):
        value = value_of(expr, row.scope)
        assert value is None or type(value) is python


@settings(max_examples=25)
@given(st.data())
def test_windows_and_calls_have_an_answer(data):
    schema = data.draw(schemas(types=(Type.BIGINT, Type.STRING, Type.DOUBLE)))
    source = Filter(Scan("s", schema), data.draw(predicates(schema)))
    plan = Aggregate(source, data.draw(windows(schema)), (), data.draw(aggregate_calls(schema)))
    for row in answer(plan, {"s": data.draw(histories(schema, skew=SECOND))}):
        assert tuple(row.values) == plan.schema.names
