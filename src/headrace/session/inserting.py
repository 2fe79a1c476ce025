"""INSERT INTO sink SELECT: the query that it stands for."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count

import msgspec

from headrace.catalog.catalog import Catalog
from headrace.catalog.define import define_query
from headrace.catalog.definitions import Connector, Sink
from headrace.errors import NameFault, NotSupported, QueryError, SyntaxFault, TypeFault
from headrace.language.names import did_you_mean
from headrace.language.parser import parse
from headrace.language.syntax.names import ConnectorClause
from headrace.language.syntax.statements import CreateQuery, Insert
from headrace.model.changelog import CHANGE
from headrace.model.expressions.text import format_name
from headrace.model.schema import Field, Schema
from headrace.model.types import DecimalType, Type, common_type
from headrace.session.compile import plan_select
from headrace.session.tables_alone import is_on_tables


def query_of(statement: Insert, catalog: Catalog) -> CreateQuery:
    """Return the query whose results go into the sink, with columns as the sink has them.

    It is called into_<sink>, a further one into the same sink into_<sink>_2. The same statement is the same query.
    """
    sink = _sink(statement, catalog)
    if is_on_tables(statement.select, catalog):
        raise NotSupported(
            "a SELECT on tables alone is answered at once, and nothing of it runs on",
            span=statement.select_span,
            hint="join a stream, or write the SELECT alone",
        )
    schema = plan_select(statement.select, statement.text, catalog).schema
    targets = _targets(statement, sink, schema)
    select = _fitted(statement, sink, schema, targets)
    columns = sink.schema or Schema(targets)
    first = f"into_{sink.name}"
    for query in catalog.queries():
        made = _named(query.name, select, sink, statement) if query.name.startswith(first) else None
        if made is not None and define_query(made, columns) == msgspec.structs.replace(query, basis=()):
            return made
    _check_alone(statement, sink, catalog)
    names = (first if number == 1 else f"{first}_{number}" for number in count(1))
    free = next(name for name in names if catalog.get(name) is None and not catalog.has_rule(name))
    new = _named(free, select, sink, statement)
    _check_columns(new, statement, targets, catalog)
    return new


def goes_on_note(sink: Sink | None, catalog: Catalog) -> str:
    """Return what to say of the queries of INSERT if their sink is dropped or replaced: they go on into the old one."""
    if sink is None:
        return ""
    numbered = re.compile(rf"into_{re.escape(sink.name)}(_\d+)?", re.IGNORECASE)
    names = [
        query.name
        for query in catalog.queries()
        if numbered.fullmatch(query.name)
        and any(part in (sink.connector, own_part(sink.connector, "query", query.name)) for part in query.sinks)
    ]
    return "".join(f"; {name} goes on as before (DROP QUERY {name} ends it)" for name in names)


def _sink(statement: Insert, catalog: Catalog) -> Sink:
    name = statement.sink
    sink = catalog.sink(name.text)
    if sink is not None:
        return sink
    known = catalog.get(name.text)
    if known is not None:
        raise NotSupported(
            f"{known.name!r} is read, and not written",
            span=name.span,
            hint=f"write CREATE SINK {known.name}_out INTO KIND (options) and INSERT INTO {known.name}_out SELECT ...; "
            "CREATE QUERY name AS SELECT ... gives the results to other queries",
        )
    raise NameFault(
        f"sink {name.text!r} does not exist",
        span=name.span,
        hint=did_you_mean(
            name.text,
            [other.name for other in catalog if isinstance(other, Sink)],
            otherwise=f"write CREATE SINK {name.text} INTO KIND (options) first, or SELECT ... INTO KIND (options), "
            "such as INTO KAFKA (bootstrap 'host:9092', topic 'out')",
        ),
    )


def _targets(statement: Insert, sink: Sink, schema: Schema) -> tuple[Field, ...]:
    """Return the columns that SELECT gives to the sink, by place, as they are called there."""
    targets = _declared(statement, sink, schema)
    if len(targets) != len(schema):
        is_changelog = schema.names[-1:] == (CHANGE,) and len(schema) == len(targets) + 1
        changes = f"; declare {CHANGE} STRING as its last column: it says what happens to a row" if is_changelog else ""
        raise SyntaxFault(
            f"{sink.name} takes {len(targets)} columns, but SELECT gives {len(schema)}: {', '.join(schema.names)}",
            span=statement.select_span,
            hint=f"the columns are {', '.join(field.name for field in targets)}{changes}",
        )
    for field, target in zip(schema, targets, strict=True):
        is_rounded = field.type.is_numeric and isinstance(target.type, DecimalType)
        if field.type is not Type.NULL and not is_rounded and common_type(field.type, target.type) != target.type:
            raise TypeFault(
                f"column {target.name!r} of {sink.name} is {target.type.value}, but SELECT gives "
                f"{field.name} {field.type.value}",
                span=statement.select_span,
                hint=f"write CAST({field.name} AS {target.type.value}), or declare the column as {field.type.value}",
            )
    return targets


def _declared(statement: Insert, sink: Sink, schema: Schema) -> tuple[Field, ...]:
    """Return the columns that INSERT names; all of the sink if it names none, and those of SELECT if neither does."""
    if not statement.columns:
        return (sink.schema or schema).fields
    if sink.schema is None:
        types = (*(field.type for field in schema), *(Type.NULL for _ in statement.columns))
        return tuple(Field(name.text, type_) for name, type_ in zip(statement.columns, types, strict=False))
    known = {field.name.lower(): field for field in sink.schema}
    targets: list[Field] = []
    for name in statement.columns:
        field = known.get(name.text.lower())
        if field is None:
            raise NameFault(
                f"column {name.text!r} does not exist in {sink.name}",
                span=name.span,
                hint=did_you_mean(name.text, sink.schema.names, otherwise=f"there are {', '.join(sink.schema.names)}"),
            )
        if field in targets:
            raise NameFault(f"column {name.text!r} is named twice", span=name.span, hint="name each column once")
        targets.append(field)
    return tuple(targets)


def _fitted(statement: Insert, sink: Sink, schema: Schema, targets: tuple[Field, ...]) -> str:
    """Return a SELECT that gives all columns of the sink, with their names and types; what is not given is NULL."""
    whole = sink.schema or Schema(targets)
    if whole == schema:
        return statement.select_text
    given = {target.name: field for field, target in zip(schema, targets, strict=True)}
    items = []
    for column in whole:
        field = given.get(column.name)
        value = "NULL" if field is None else format_name(field.name)
        is_same = field is not None and field.type == column.type
        written = value if is_same else f"CAST({value} AS {column.type.value})"
        items.append(f"{written} AS {format_name(column.name)}")
    return f"SELECT {', '.join(items)} FROM ({statement.select_text})"


def _named(name: str, select: str, sink: Sink, statement: Insert) -> CreateQuery:
    (query,) = parse(f"CREATE QUERY {format_name(name)} AS {select}")
    assert isinstance(query, CreateQuery)
    part = own_part(sink.connector, "query", name) if sink.schema is None else sink.connector
    return replace(query, sinks=(ConnectorClause(part.kind, part.options, statement.sink.span),))


def own_part(connector: Connector, kind: str, name: str) -> Connector:
    """Return a named sink as one rule or query uses it.

    Several would write the same files in a micro-batch, so each has its own folder, which readers see as a column
    `rule` or `query`.
    """
    if connector.kind != "FILES":
        return connector
    path = f"{connector.options.get('path')}/{kind}={name}"
    return msgspec.structs.replace(connector, options={**connector.options, "path": path})


def _check_alone(statement: Insert, sink: Sink, catalog: Catalog) -> None:
    """Refuse a second query into the same folder: both would give their files the same names."""
    if sink.schema is None or sink.connector.kind != "FILES":
        return
    path = sink.connector.options.get("path")
    for query in catalog.queries():
        if any(part.kind == "FILES" and part.options.get("path") == path for part in query.sinks):
            raise NotSupported(
                f"query {query.name} writes into the files of {sink.name} already",
                span=statement.sink.span,
                hint=f"write one query, INSERT INTO {sink.name} SELECT ... UNION ALL SELECT ...; "
                f"DROP QUERY {query.name} ends the other one",
            )


def _check_columns(query: CreateQuery, statement: Insert, targets: tuple[Field, ...], catalog: Catalog) -> None:
    """Refuse a SELECT that no other can read, such as a changelog, if its columns have to be converted."""
    try:
        plan_select(query.select, query.text, catalog)
    except QueryError as error:
        raise NotSupported(
            f"the columns of this SELECT cannot be given the names and types of the sink: {error.message}",
            span=statement.select_span,
            hint=f"name and CAST them: SELECT {', '.join(f'... AS {format_name(field.name)}' for field in targets)}",
        ) from error
