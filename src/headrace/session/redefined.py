"""What a definition in place of an earlier one means for queries that run: they contain what they were created with."""

from __future__ import annotations

from collections.abc import Collection

from headrace.catalog.catalog import Catalog
from headrace.catalog.definitions import Aggregate, Definition, Function, Query, Stream, Table
from headrace.commands.running import Running
from headrace.errors import NameFault, Span


def check_stream(stream: Stream, deployed: Running, span: Span | None) -> None:
    """Refuse to change how a stream is read while queries read it.

    All of them read the same source: the next query over the stream would bring the new one for the others, too, and
    take it away when it is dropped.
    """
    readers = [
        query for query in deployed.added if any(read.name == stream.name and read != stream for read in query.streams)
    ]
    if not readers:
        return
    kind = "QUERY" if readers[0].reaction is None else "RULE"
    names = ", ".join(query.query for query in readers)
    raise NameFault(
        f"stream {stream.name!r} cannot change while {names} {_verb(readers, 'read')} it",
        span=span,
        hint=f"create a stream under another name for new queries, or first DROP {kind} {readers[0].query}",
    )


def earlier_note(definition: Definition, catalog: Catalog, deployed: Running) -> str:
    """Return what to say of running queries and rules if a table, view, event or function is replaced."""
    match definition:
        case Aggregate() | Function():
            direct = catalog.callers(definition.name)
        case Table() | Query():
            direct = catalog.readers(definition.name)
        case _:
            return ""
    reached = dict.fromkeys(direct)
    pending = list(reached)
    while pending:
        found = [name for name in catalog.readers(pending.pop()) if name not in reached]
        reached |= dict.fromkeys(found)
        pending += found
    running = {query.query for query in deployed.known}
    names = [name for name in reached if name in running]
    if not names:
        return ""
    again = "it" if len(names) == 1 else "them"
    return f"; {', '.join(names)} still {_verb(names, 'use')} the earlier one: drop and create {again} to change that"


def _verb(names: Collection[object], verb: str) -> str:
    return verb if len(names) > 1 else f"{verb}s"
