"""Statements to definitions."""

from __future__ import annotations

from headrace.catalog.definitions import (
    ON_DEMAND,
    SCHEDULE,
    START_ON,
    STOP_ON,
    Aggregate,
    Connector,
    Function,
    Query,
    Stream,
    Table,
    Timing,
)
from headrace.catalog.references import learn_references
from headrace.errors import NameFault, NotSupported, SyntaxFault, TypeFault
from headrace.language.names import did_you_mean
from headrace.language.syntax.names import FED, ConnectorClause, Name
from headrace.language.syntax.statements import (
    CreateAggregate,
    CreateEvent,
    CreateFunction,
    CreateQuery,
    CreateStream,
    CreateTable,
    CreateView,
    Detection,
)
from headrace.language.syntax.stints import StintClause
from headrace.model.expressions.expression import Expr
from headrace.model.keep import KEEP, Keep, keep_of
from headrace.model.limits import COLUMNS
from headrace.model.option import Option
from headrace.model.schema import Field, Schema
from headrace.model.types import Type
from headrace.secrets import has_reference
from headrace.storage.location import absolute, location


def define_stream(statement: CreateStream, schema: Schema, computed: tuple[tuple[str, Expr], ...] = ()) -> Stream:
    """Define the stream of a statement; `schema` is the declared one, or that of the source if none is declared.

    It includes the columns that are `computed`.
    """
    _check_columns(statement, schema)
    column = None
    if statement.time_column is not None:
        name = statement.time_column
        field = _field(statement, name, schema, f"declare it among the columns: {name.text} TIMESTAMP")
        if field.type is not Type.TIMESTAMP:
            raise TypeFault(
                f"column {field.name!r} is {field.type.value}, not TIMESTAMP",
                span=name.span,
                hint="declare the column as TIMESTAMP",
            )
        column = field.name
    return Stream(
        statement.name.text,
        schema,
        define_connector(statement.connector),
        Timing(statement.timing),
        column,
        statement.skew_us,
        statement.ahead_us,
        mark=None if statement.mark is None else _mark(statement, statement.mark, schema),
        delimited=_delimited(statement, schema),
        behind=statement.behind,
        computed=computed,
    )


def _mark(statement: CreateStream, name: Name, schema: Schema) -> str:
    """Return the column that marks an end."""
    field = _field(statement, name, schema, f"declare it among the columns: {name.text} BOOLEAN, TRUE in a mark")
    if field.type not in (Type.BOOLEAN, Type.TIMESTAMP):
        raise TypeFault(
            f"column {field.name!r} is {field.type.value}: a mark is BOOLEAN or TIMESTAMP",
            span=name.span,
            hint="TRUE ends what is before the time of the record, a TIMESTAMP what is before that time",
        )
    if statement.time_column is not None and field.name.lower() == statement.time_column.text.lower():
        raise NotSupported(
            f"column {field.name!r} has the time of each record, so it cannot mark an end",
            span=name.span,
            hint="declare a column of its own for marks: done BOOLEAN",
        )
    return field.name


def _delimited(statement: CreateStream, schema: Schema) -> tuple[str, ...]:
    """Return the columns that a mark is about."""
    names: list[str] = []
    for name in statement.delimited:
        field = _field(statement, name, schema, f"{statement.name.text} has {', '.join(schema.names)}")
        if not isinstance(field.type, Type) or field.type in (Type.DOUBLE, Type.FLOAT):
            raise TypeFault(
                f"column {field.name!r} is {field.type.value}, which cannot delimit a stream",
                span=name.span,
                hint="name columns by which tuples are grouped or joined: numbers without fraction, texts, times",
            )
        if field.name in (*names, None if statement.mark is None else statement.mark.text):
            raise NameFault(
                f"column {field.name!r} is named twice in PUNCTUATED BY",
                span=name.span,
                hint="name each column once: PUNCTUATED BY done ON (segment, direction)",
            )
        names.append(field.name)
    return tuple(names)


def _field(statement: CreateStream, name: Name, schema: Schema, otherwise: str) -> Field:
    field = next((field for field in schema if field.name.lower() == name.text.lower()), None)
    if field is None:
        raise NameFault(
            f"column {name.text!r} does not exist in {statement.name.text}",
            span=name.span,
            hint=did_you_mean(name.text, schema.names, otherwise=otherwise),
        )
    return field


def _check_columns(statement: CreateStream | CreateTable, schema: Schema) -> None:
    if len(schema) > COLUMNS:
        raise NotSupported(
            f"{statement.name.text!r} has {len(schema):,} columns; at most {COLUMNS:,} are allowed",
            span=statement.name.span,
            hint="declare the columns that queries need",
        )


def define_table(statement: CreateTable, schema: Schema) -> Table:
    """Define the table of a statement."""
    _check_columns(statement, schema)
    return Table(statement.name.text, schema, define_connector(statement.connector), statement.refresh_us)


def define_fed_table(statement: CreateTable, origin: Stream | Query) -> Table:
    """Define a table of the newest tuple of each key of a stream or query; its columns are some of theirs."""
    known = {field.name.lower(): field for field in origin.schema}
    declared = statement.columns or origin.schema
    for field in declared:
        other = known.get(field.name.lower())
        if other is None:
            raise NameFault(
                f"column {field.name!r} does not exist in {origin.name}",
                span=statement.name.span,
                hint=did_you_mean(
                    field.name, origin.schema.names, otherwise=f"columns are {', '.join(origin.schema.names[:12])}"
                ),
            )
        if other.type != field.type:
            raise TypeFault(
                f"column {field.name!r} of {origin.name} is {other.type.value}, not {field.type.value}",
                span=statement.name.span,
                hint=f"declare it as {other.type.value}",
            )
    schema = Schema(tuple(known[field.name.lower()] for field in declared))
    for name in statement.key:
        if all(field.name.lower() != name.text.lower() for field in schema):
            raise NameFault(
                f"column {name.text!r} of the key does not exist in {statement.name.text}",
                span=name.span,
                hint=did_you_mean(name.text, schema.names),
            )
    _check_columns(statement, schema)
    key = tuple(known[name.text.lower()].name for name in statement.key)
    return Table(statement.name.text, schema, Connector(FED, {"stream": origin.name}), key=key)


def define_aggregate(statement: CreateAggregate) -> Aggregate:
    """Define the aggregate of a statement."""
    arg, body = statement.params[0][1], statement.body
    if body is None:
        return Aggregate(statement.name.text, arg, statement.result, statement.target)
    params = tuple(Field(name.text, type_) for name, type_ in statement.params if name is not None)
    text = statement.text[body.span.start : body.span.end]
    return Aggregate(statement.name.text, arg, statement.result, params=params, body=text)


def define_function(statement: CreateFunction) -> Function:
    """Define the scalar function of a statement."""
    return Function(statement.name.text, statement.args, statement.result, statement.target, statement.style)


def define_query(statement: CreateQuery, schema: Schema) -> Query:
    """Define the query of a statement; without INTO its results go to the console."""
    sinks = tuple(define_connector(clause) for clause in statement.sinks) or (Connector("CONSOLE", {}),)
    keep = _keep(statement, schema)
    if keep.durable:
        sinks += (Connector("SHELF", {KEEP: statement.options[KEEP]}),)
    learn_references(statement.select_text, statement.select)
    return Query(
        statement.name.text,
        statement.select_text,
        schema,
        sinks,
        {**statement.options, **_stint_options(statement.stint), **_demand_options(statement.on_demand)},
    )


def _keep(statement: CreateQuery, schema: Schema) -> Keep:
    """Return what is kept of the newest results."""
    span = statement.option_spans.get(KEEP)
    try:
        keep = keep_of(statement.options)
    except ValueError as error:
        raise SyntaxFault(f"{KEEP}: {error}", span=span) from error
    for name in keep.by or ():
        if schema.find(name) is None:
            raise NameFault(
                f"column {name!r} is not in the results of {statement.name.text}",
                span=span,
                hint=did_you_mean(name, schema.names),
            )
    return keep


def _stint_options(clause: StintClause | None) -> dict[str, Option]:
    """Return what starts and stops a query, as options that are stored with it."""
    if clause is None:
        return {}
    options = {
        SCHEDULE: clause.schedule,
        START_ON: clause.start_on and clause.start_on.text,
        STOP_ON: clause.stop_on and clause.stop_on.text,
    }
    return {name: str(value) for name, value in options.items() if value is not None}


def _demand_options(most: int | None) -> dict[str, Option]:
    return {} if most is None else {ON_DEMAND: most}


def define_view(statement: CreateView, schema: Schema) -> Query:
    """Define the view of a statement: a query without sinks, which runs only where others read it."""
    learn_references(statement.select_text, statement.select)
    return Query(statement.name.text, statement.select_text, schema, ())


def define_event(statement: CreateEvent, schema: Schema) -> Query:
    """Define the event of a statement: a view that is marked as an event."""
    text = statement.body.event_text if isinstance(statement.body, Detection) else statement.body.select_text
    return Query(statement.name.text, text, schema, (), {"event": True})


def define_connector(clause: ConnectorClause) -> Connector:
    """Define the connector of a FROM or INTO clause; a path of FILES becomes absolute for later sessions."""
    options = dict(clause.options)
    path = options.get("path")
    if clause.kind == "FILES" and isinstance(path, str) and not has_reference(path):
        options["path"] = str(absolute(location(path, span=clause.span)))
    return Connector(clause.kind, options)
