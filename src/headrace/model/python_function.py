"""Scalar functions that users write in Python, as the name of a function in an expression."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from headrace.model.expressions.expression import Call, Expr, walk
from headrace.model.python_target import PythonTarget

#: What a function takes and returns: the values of one tuple, or columns of many tuples as Polars or Arrow has them.
Style: TypeAlias = Literal["rows", "polars", "arrow"]
STYLES: tuple[Style, ...] = get_args(Style)
_PREFIX = "python-"


def function_name(style: Style, target: str) -> str:
    """Return the name under which an expression calls 'module:name'."""
    return f"{_PREFIX}{style}:{target}"


def is_python_function(name: str) -> bool:
    """Return whether a function of an expression is a user's."""
    return name.startswith(_PREFIX)


def calls_python(expr: Expr) -> bool:
    """Return whether an expression calls a user's function, which may take long."""
    return any(isinstance(part, Call) and is_python_function(part.function) for part in walk(expr))


def parse_function(name: str) -> tuple[Style, PythonTarget]:
    """Return what an expression calls."""
    style, _, target = name.removeprefix(_PREFIX).partition(":")
    return next(known for known in STYLES if known == style), PythonTarget.parse(target)
