"""CREATE STREAM, TABLE, AGGREGATE, FUNCTION, VIEW and EVENT: statements that define something and run nothing."""

from __future__ import annotations

from collections.abc import Callable

from headrace.catalog.define import (
    define_aggregate,
    define_connector,
    define_event,
    define_fed_table,
    define_function,
    define_stream,
    define_table,
    define_view,
)
from headrace.catalog.definitions import Query, Stream, Table
from headrace.connectors import check_source, infer_schema
from headrace.connectors.files.tables import TABLE_KINDS
from headrace.connectors.kinds import SOURCES
from headrace.connectors.options import near
from headrace.errors import NameFault, pointing_at
from headrace.language.syntax import statements
from headrace.model.expressions.expression import Column
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.model.python_function import function_name
from headrace.model.python_target import PREFIX
from headrace.model.schema import Schema
from headrace.plan.binding.computed import bind_computed
from headrace.plan.binding.expressions.function import ALIASES
from headrace.plan.binding.expressions.nested import check_keys
from headrace.plan.binding.fold import bind_fold
from headrace.session.compile import plan_event, plan_select, warnings_of
from headrace.session.outcome import format_warnings
from headrace.session.python_code import check_aggregate, check_format, check_function
from headrace.session.secrets import check_secrets, secret_warnings
from headrace.session.transaction import Transaction


def create_stream(statement: statements.CreateStream, transaction: Transaction) -> None:
    """Define a stream; its columns come from the source if the statement names none."""
    with pointing_at(statement.connector.span):
        check_secrets(statement.connector)
        recorded = statement.columns or _columns(
            statement, transaction, lambda known: define_stream(statement, known.schema)
        )
    schema, computed = bind_computed(statement.name.text, recorded, statement.computed, transaction.catalog)
    with pointing_at(statement.connector.span):
        stream = define_stream(statement, schema, computed)
        check_format(stream, statement.connector.span)
        if not transaction.has(stream):  # its files may have gone meanwhile
            check_source(stream)
    note = format_warnings(secret_warnings(statement.connector))
    transaction.define(stream, statement, f"stream {stream.name}", note)


def create_table(statement: statements.CreateTable, transaction: Transaction) -> None:
    """Define a table; its columns come from the source if the statement names none."""
    if statement.key:
        _create_fed_table(statement, transaction)
        return
    with pointing_at(statement.connector.span):
        _check_kind(statement, transaction)
        check_secrets(statement.connector)
        schema = statement.columns or _columns(
            statement, transaction, lambda known: define_table(statement, known.schema)
        )
    note = format_warnings(secret_warnings(statement.connector))
    transaction.define(define_table(statement, schema), statement, f"table {statement.name.text}", note)


def _columns(
    statement: statements.CreateStream | statements.CreateTable,
    transaction: Transaction,
    define: Callable[[Stream | Table], Stream | Table],
) -> Schema:
    """Return the columns that the files have, or had when the same statement was given first."""
    known = transaction.catalog.get(statement.name.text)
    if isinstance(known, Stream | Table) and transaction.has(define(known)):
        return known.schema
    return infer_schema(define_connector(statement.connector))


def _check_kind(statement: statements.CreateTable, transaction: Transaction) -> None:
    """Refuse a table from something that is no kind of source, such as a stream without PRIMARY KEY."""
    kind = statement.connector.kind
    if kind in SOURCES:
        return  # whether a table can be read from it is told when it is read
    hint = near(kind, TABLE_KINDS)
    origin = transaction.catalog.get(kind.lower())
    if isinstance(origin, Stream | Query):
        form = f"CREATE TABLE {statement.name.text} (..., PRIMARY KEY (id)) FROM {origin.name}"
        hint = f"a table that a stream feeds has a key: {form}"
    raise NameFault(f"a table cannot come from {kind}", span=statement.connector.span, hint=hint)


def _create_fed_table(statement: statements.CreateTable, transaction: Transaction) -> None:
    """Define a table that the tuples of a stream or query change."""
    name = str(statement.connector.options["stream"])
    origin = transaction.catalog.find(name, span=statement.connector.span)
    if isinstance(origin, Table):
        raise NameFault(
            f"{name!r} is a table: a table with a PRIMARY KEY is fed by a stream or query",
            span=statement.connector.span,
            hint="name a stream; a table of FILES has no PRIMARY KEY",
        )
    table = define_fed_table(statement, origin)
    check_keys(
        [Column(field.name, field.type) for field in table.schema if field.name in table.key],
        "a column of a PRIMARY KEY",
        statement.key[0].span,
    )
    transaction.define(table, statement, f"table {table.name}")


def create_aggregate(statement: statements.CreateAggregate, transaction: Transaction) -> None:
    """Define an aggregate function, whose class must be there and whose statements must make sense."""
    aggregate = define_aggregate(statement)
    if statement.body is None:
        check_aggregate(PREFIX + aggregate.target, statement.name.span)
    else:
        bind_fold(aggregate, statement.body)
    transaction.define(aggregate, statement, f"aggregate {statement.name.text}")


def create_function(statement: statements.CreateFunction, transaction: Transaction) -> None:
    """Define a scalar function, whose code must be there and whose name must be free."""
    name = statement.name.text.lower()
    if name in FUNCTIONS or name in AGGREGATES or name in ALIASES:
        raise NameFault(
            f"{statement.name.text!r} is a function of Headrace", span=statement.name.span, hint="choose another name"
        )
    function = define_function(statement)
    called = function_name(function.style, function.target)
    check_function(called, statement.name.span, arguments=len(function.args))
    transaction.define(function, statement, f"function {statement.name.text}")


def create_view(statement: statements.CreateView, text: str, transaction: Transaction) -> None:
    """Name a SELECT that is written in `text`; it runs when a query reads it."""
    plan = plan_select(statement.select, text, transaction.catalog)
    transaction.define(define_view(statement, plan.schema), statement, f"view {statement.name.text}")


def create_event(statement: statements.CreateEvent, transaction: Transaction) -> None:
    """Name an event expression or a SELECT; it is detected when a query or a rule reads it."""
    body = statement.body
    plan = (
        plan_event(body, transaction.catalog)
        if isinstance(body, statements.Detection)
        else plan_select(body.select, statement.text, transaction.catalog)
    )
    event = define_event(statement, plan.schema)
    transaction.define(event, statement, f"event {event.name}", format_warnings(warnings_of(plan)))
