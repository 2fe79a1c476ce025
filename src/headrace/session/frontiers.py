"""ALTER STREAM ... RESET FRONTIER: a stream goes on from a time, after it came too far."""

from __future__ import annotations

import msgspec

from headrace.catalog.definitions import RAISED, Stream, Timing
from headrace.commands.command import AddQuery, ResetFrontier, StartQuery, StopQuery
from headrace.commands.running import Running
from headrace.commands.running_graph import sharing_in_transit
from headrace.driver.rules.raising import feeders
from headrace.errors import HostFault, NameFault, NotSupported, QueryError, Span
from headrace.language.syntax import statements
from headrace.model.stint import Stint
from headrace.model.time import BEGIN, EARLIEST, END, LATEST, format_instant
from headrace.session.outcome import Message
from headrace.session.transaction import Transaction


def reset_frontier(statement: statements.ResetFrontier, transaction: Transaction, now: int) -> None:
    """Let a stream go on from a time, or from the clock less its skew; the queries that read it begin anew."""
    stream = _stream(statement, transaction)
    to = now - stream.skew if statement.to is None else statement.to
    if not EARLIEST <= to <= LATEST:
        raise QueryError(f"{format_instant(to)} is not between the years 1 and 9000", span=statement.to_span)
    if transaction.deployed.draining:
        hint = "use a new --checkpoint for a new run"
        raise HostFault("this checkpoint has been drained: its streams are closed", hint=hint)
    events = sorted(event for event, streams in feeders(transaction.deployed).items() if stream.name in streams)
    readers = [query for query in transaction.deployed.queries if _reads(query, {stream.name, *events})]
    others = tuple(query for query in transaction.deployed.queries if query not in readers)
    for query in readers:
        _check_apart(query, msgspec.structs.replace(transaction.deployed, queries=others), statement.stream.span)
    transaction.send(ResetFrontier(stream.name, to, stream.skew))
    for event in events:  # what rules raise because of its tuples goes on with it
        transaction.send(ResetFrontier(event, to, 0))
    for query in readers:
        stints = [query, *transaction.deployed.early_of(query.query)]
        for stint in stints:
            transaction.send(StopQuery(query.query, stint.number))
        transaction.send(StartQuery(_next_stint(query, stints[-1].number, to)))
    transaction.running = {query.query: query for query in transaction.deployed.queries}
    said = f"stream {stream.name} goes on from {format_instant(to)}"
    names = ", ".join(query.query for query in readers)
    transaction.outcomes.append(lambda: Message(f"{said}; {names} began anew" if names else said))


def _stream(statement: statements.ResetFrontier, transaction: Transaction) -> Stream:
    """Return the stream of a statement; raise a fault if it has no frontier of its own."""
    name = statement.stream
    stream = transaction.catalog.find(name.text, span=name.span)
    if not isinstance(stream, Stream):
        raise NameFault(
            f"{name.text!r} is not a stream", span=name.span, hint="name the stream whose timestamps were wrong"
        )
    if stream.timing is not Timing.EXTERNAL or stream.connector.kind == RAISED:
        raise QueryError(
            f"the frontier of {stream.name!r} cannot be reset: no column holds its timestamps",
            span=name.span,
            hint="only a stream with TIMESTAMP BY can have wrong ones",
        )
    return stream


def _reads(query: AddQuery, streams: set[str]) -> bool:
    return any(stream.name in streams for stream in query.streams)


def _check_apart(query: AddQuery, others: Running, span: Span) -> None:
    """Raise a fault if a query cannot begin anew without one that does not read the stream."""
    other = sharing_in_transit(query, others)
    if other is not None:
        raise NotSupported(
            f"{query.query!r} shares operators with {other!r} whose tuples are still between buckets",
            span=span,
            hint=f"drop {query.query} and create it again after the reset",
        )


def _next_stint(query: AddQuery, last: int, to: int) -> Stint:
    """Return the stint with which a query goes on: by its schedule, the one that has not ended at that time."""
    stint, schedule = query.stint, query.activation.schedule
    begin, end = (BEGIN, END) if stint is None else (stint.begin, stint.end)
    if schedule is not None and begin > BEGIN:
        begin, end = schedule.following(BEGIN, come=to) or (begin, end)
    return Stint(query.query, last + (2 if stint is None else 1), begin, end, to)
