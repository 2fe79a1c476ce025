"""Which operator an error comes from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError, OperatorFault
from headrace.graph.graph import Graph, VertexId
from headrace.graph.naming import Names

#: What Polars adds to an error of a function that it calls: its own form of the expression.
_CONTEXT = "\n\nThis error occurred"


def operator_fault(error: BaseException, vertex: VertexId, graph: Graph) -> HeadraceError | None:
    """Return the error of an operator as a fault that names it.

    None if the operator cannot help it: memory is used up, or the process is interrupted.
    """
    if isinstance(error, HeadraceError):
        error.message = error.message.partition(_CONTEXT)[0]
        error.vertex = error.vertex or vertex
        return error
    if isinstance(error, MemoryError) or not (isinstance(error, Exception) or _is_panic(error)):
        return None
    fault = OperatorFault(
        f"operator '{Names(graph)[vertex]}' failed: {type(error).__name__}: {str(error).partition(_CONTEXT)[0]}"
    )
    fault.vertex = vertex
    return fault


@contextmanager
def blaming(vertex: VertexId, graph: Graph) -> Iterator[None]:
    """Let an error name the operator."""
    try:
        yield
    except BaseException as error:
        fault = operator_fault(error, vertex, graph)
        if fault is None or fault is error:
            raise
        raise fault from error


def _is_panic(error: BaseException) -> bool:
    """Return whether native code of a library gave up; that is no Exception."""
    return type(error).__name__ == "PanicException"
