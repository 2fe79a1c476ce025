"""Which queries an error is due to: those that the operator works for in which it happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.catalog.definitions import Stream
from headrace.commands.command import AddQuery
from headrace.commands.running import Running
from headrace.errors import HeadraceError
from headrace.graph.graph import VertexId
from headrace.graph.place import origin_of
from headrace.model.streams import exchange_of, origin_of_scan


def queries_of(running: Running, vertex: VertexId) -> tuple[AddQuery, ...]:
    """Return the queries that a vertex works for; with a shared one, these are several."""
    exact = _with_any(running, {vertex})
    return exact or _with_any(running, {origin_of(vertex), exchange_of(vertex) or vertex, origin_of_scan(vertex)})


def _with_any(running: Running, names: set[VertexId]) -> tuple[AddQuery, ...]:
    working = [query for query in running.working if any(vertex.id in names for vertex in query.graph)]
    watching = [
        query
        for query in running.known
        if any(vertex.id in names for graph in query.activation.watched for vertex in graph)
    ]
    return (*working, *watching)


@contextmanager
def attributed(*states: Callable[[], Running]) -> Iterator[None]:
    """Let an error name the queries that its operator works for, in the first of these states that has the operator."""
    try:
        yield
    except HeadraceError as error:
        if error.vertex is not None and not error.culprits:
            blamed = (queries_of(state(), error.vertex) for state in states)
            error.culprits = _identified(next((queries for queries in blamed if queries), ()))
        raise


@contextmanager
def attributed_to_readers(stream: str, running: Running) -> Iterator[None]:
    """Let a lack of Python code name the queries that read a stream; any other error of a source may pass."""
    try:
        yield
    except HeadraceError as error:
        if error.lacks_code and error.vertex is None and not error.culprits:
            readers = (query for query in (*running.known, *running.ending) if stream in map(_name, query.streams))
            error.culprits = _identified(tuple(readers))
        raise


def attribute(error: HeadraceError, *queries: AddQuery) -> None:
    """Let an error name queries."""
    error.culprits = _identified(queries)


def _identified(queries: tuple[AddQuery, ...]) -> tuple[tuple[str, int], ...]:
    return tuple(dict.fromkeys((query.query, query.incarnation) for query in queries))


def _name(stream: Stream) -> str:
    return stream.name
