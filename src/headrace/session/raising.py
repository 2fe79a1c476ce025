"""RAISE EVENT by hand: a program or a person raises an event that is declared with its columns."""

from __future__ import annotations

import polars as pl

from headrace.catalog.definitions import Stream, Timing
from headrace.commands.command import RaiseTuples
from headrace.errors import HostFault, NotSupported, QueryError
from headrace.language.syntax.rules import RaiseByHand
from headrace.model.action import CASCADE
from headrace.model.page import Page
from headrace.model.schema import TS
from headrace.model.time import EARLIEST, LATEST, format_instant
from headrace.model.types import Type
from headrace.operators.expressions.evaluate import compile_expr
from headrace.plan.binding.expressions.scope import Relation, Scope
from headrace.plan.binding.rule import BoundRule
from headrace.plan.nodes import Scan
from headrace.session.outcome import Message
from headrace.session.rules import raise_action
from headrace.session.transaction import Transaction


def raise_by_hand(statement: RaiseByHand, transaction: Transaction, now: int) -> None:
    """Raise an event in the next micro-batch, once, also after a crash; tell if nothing reads it."""
    clause, catalog = statement.clause, transaction.catalog
    time = now if statement.at is None else statement.at
    if not EARLIEST <= time <= LATEST:
        raise QueryError(f"{format_instant(time)} is not between the years 1 and 9000", span=statement.at_span)
    schema = catalog.find(clause.event.text, span=clause.event.span).schema
    scope = Scope((Relation(("the values of an event",), ()),))
    action = raise_action(clause, BoundRule(Scan("", schema), scope, None, (), ()), catalog)
    event = catalog.find(action.event)
    assert isinstance(event, Stream)
    if event.timing is not Timing.CAUSED:
        raise NotSupported(
            f"{event.name} was declared by an earlier version",
            span=clause.event.span,
            hint="drop the event and declare it again",
        )
    if transaction.deployed.draining:
        hint = "use a new --checkpoint for a new run"
        raise HostFault("this checkpoint has been drained: its streams are closed", hint=hint)
    one = pl.DataFrame({TS: [time]}, schema={TS: pl.Int64})
    values = one.with_columns(*(compile_expr(expr).alias(name) for name, expr in action.columns))
    types = {field.name: field.type.polars for field in event.schema}
    rows = values.select(
        *(pl.col(name).cast(types[name]) for name, _ in action.columns),
        pl.lit(0, Type.INT.polars).alias(CASCADE),
        TS,
    )
    is_read = any(stream.name == event.name for query in transaction.deployed.queries for stream in query.streams)
    if is_read:
        transaction.send(RaiseTuples(event.name, time, Page(rows).encode()))
    said = f"event {event.name} raised at {format_instant(time)}"
    lost = "" if is_read else "; no query, event or rule reads it, so it is lost"
    transaction.outcomes.append(lambda: Message(said + lost))
