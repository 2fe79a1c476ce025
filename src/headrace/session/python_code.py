"""Python code that statements name: it is loaded when they are checked, so that no tuple is the first to miss it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from headrace.catalog.definitions import Stream
from headrace.commands.command import AddQuery
from headrace.errors import NameFault, OperatorFault, Span
from headrace.graph.graph import Graph
from headrace.model.expressions.expression import Call
from headrace.model.python_function import is_python_function, parse_function
from headrace.model.python_target import PythonTarget, is_python_target, search_hint
from headrace.operators.specs import Impute, Spec
from headrace.operators.tuples.archives import PythonFunction
from headrace.operators.windows.user_aggregates import load as load_aggregate


def check_code(graph: Graph) -> None:
    """Raise if a function or class that a query uses cannot be loaded."""
    for vertex in graph:
        match vertex.spec:
            case Impute(archive=PythonFunction(target=target)):
                _load(PythonTarget.parse(target), "the archive")
            case spec:
                for name in _aggregates(spec):
                    check_aggregate(name)
        for function in sorted(_functions(vertex.spec)):
            check_function(function)


def check_query(query: AddQuery) -> None:
    """Raise if a function or class that a running query uses, or a format of its streams, cannot be loaded."""
    for graph in (query.graph, *query.activation.watched):
        check_code(graph)
    for stream in query.streams:
        check_format(stream)


def check_aggregate(name: str, span: Span | None = None) -> None:
    """Raise if a user's aggregate, 'python:module:Class', cannot be loaded."""
    try:
        load_aggregate(name)
    except OperatorFault as error:
        fault = NameFault(error.message, span=span, hint=f"{error.hint}; {search_hint()}")
        fault.lacks_code = error.lacks_code
        raise fault from error


def check_function(name: str, span: Span | None = None, *, arguments: int | None = None) -> None:
    """Raise if a user's scalar function cannot be loaded, or cannot be called with so many arguments."""
    target = parse_function(name)[1]
    code = _load(target, "the function", span)
    if inspect.iscoroutinefunction(code) or inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise NameFault(
            f"the function '{target}' is async or a generator", span=span, hint="return the value from a plain function"
        )
    if arguments is None:
        return
    try:
        inspect.signature(code).bind(*[None] * arguments)
    except ValueError:
        return  # some functions of C do not say what they take
    except TypeError as error:
        raise NameFault(
            f"the function '{target}' cannot be called with {arguments} argument{'' if arguments == 1 else 's'}: "
            f"{error}",
            span=span,
            hint="name the type of each argument: CREATE FUNCTION name(INT, STRING) RETURNS ...",
        ) from error


def check_format(stream: Stream, span: Span | None = None) -> None:
    """Raise if the function that reads the messages of a stream cannot be loaded."""
    try:
        target = PythonTarget.parse_prefixed(str(stream.connector.options.get("format", "")))
    except ValueError:
        return  # it names no function; its connector says what is wrong, if anything is
    _load(target, "the format", span)


def _load(target: PythonTarget, what: str, span: Span | None = None) -> Callable[..., Any]:
    try:
        return target.load(what, error=NameFault, hint=search_hint())
    except NameFault as error:
        error.span = span
        raise


def _aggregates(spec: Spec) -> list[str]:
    """Return the users' aggregates that an operator computes."""
    calls = getattr(spec, "calls", ())
    return [call.function for call in calls if is_python_target(call.function)]


def _functions(part: object) -> set[str]:
    """Return the users' functions that are called somewhere in a spec."""
    if isinstance(part, Call) and is_python_function(part.function):
        return {part.function}.union(*map(_functions, part.args))
    if isinstance(part, Struct):
        return set[str]().union(*(_functions(getattr(part, name)) for name in part.__struct_fields__))
    return set[str]().union(*map(_functions, part)) if isinstance(part, tuple) else set()
