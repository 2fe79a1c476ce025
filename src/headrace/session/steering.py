"""ALTER STREAM ... SET rate, PAUSE and RESUME: how fast a generator feeds its stream."""

from __future__ import annotations

from headrace.catalog.definitions import Stream
from headrace.commands.command import Steer
from headrace.errors import HostFault, NameFault, NotSupported
from headrace.language.syntax.statements import SteerStream
from headrace.session.outcome import Message
from headrace.session.transaction import Transaction


def steer_stream(statement: SteerStream, transaction: Transaction) -> None:
    """Change the rate of a generator from the next micro-batch on, or pause it; what was made before stays."""
    name = statement.stream
    stream = transaction.catalog.find(name.text, span=name.span)
    if not isinstance(stream, Stream):
        raise NameFault(f"{name.text!r} is not a stream", span=name.span, hint="name a stream with FROM GENERATOR")
    if stream.connector.kind != "GENERATOR":
        raise NotSupported(
            f"{stream.name} is fed by {stream.connector.kind}, not by GENERATOR",
            span=name.span,
            hint="only what makes tuples can be paused; STOP QUERY stops who reads them",
        )
    if transaction.deployed.draining:
        hint = "use a new --checkpoint for a new run"
        raise HostFault("this checkpoint has been drained: its streams are closed", hint=hint)
    before = transaction.deployed.steering(stream)
    rate = statement.rate if statement.rate is not None else None if before is None else before.rate
    paused = statement.paused if statement.paused is not None else before is not None and before.paused
    transaction.send(Steer(stream.name, stream.source, rate, paused))
    shown = "that of its definition" if rate is None else f"{rate:g} tuples per second"
    said = f"stream {stream.name}{' is paused;' if paused else ':'} its rate is {shown}"
    transaction.outcomes.append(lambda: Message(said))
