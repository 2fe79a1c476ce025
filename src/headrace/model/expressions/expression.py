"""Typed scalar expressions over the columns of one tuple.

Columns are meant by name; names are unique within an input. The functions that a `Call` may name, with their
exact meaning, are in `functions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from headrace.model.types import DataType, Type


class Column(Struct, frozen=True, tag_field="expr", tag="column"):
    """The value of a column; `__ts` too may be named (as BIGINT)."""

    name: str
    type: DataType


class Literal(Struct, frozen=True, tag_field="expr", tag="literal"):
    """A constant. TIMESTAMP and INTERVAL are ints of microseconds, DATE an int of days since 1970, DECIMAL a text."""

    value: bool | int | float | str | None
    type: DataType


class Call(Struct, frozen=True, tag_field="expr", tag="call"):
    """A function or operator of `functions.FUNCTIONS` applied to arguments."""

    function: str
    args: tuple[Expr, ...]
    type: DataType


class Case(Struct, frozen=True, tag_field="expr", tag="case"):
    """The value of the first branch whose condition is true, else `default` (NULL if absent)."""

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr | None
    type: DataType


class Cast(Struct, frozen=True, tag_field="expr", tag="cast"):
    """Conversion to a type; what cannot be converted becomes NULL (`strict` false) or an error at run time."""

    arg: Expr
    type: DataType


class Lambda(Struct, frozen=True, tag_field="expr", tag="lambda"):
    """A function that a call takes: `body` over its parameters and over columns. `type` is that of the body."""

    params: tuple[Column, ...]
    body: Expr
    type: DataType


Expr: TypeAlias = Column | Literal | Call | Case | Cast | Lambda

TRUE = Literal(True, Type.BOOLEAN)
FALSE = Literal(False, Type.BOOLEAN)

#: How many terms of AND or OR may stand in a left-deep tree.
LONG_CHAIN = 32


def parameter(name: str, type_: DataType) -> Column:
    """Return a parameter of a lambda: a column that no stream can have."""
    return Column(f"->{name}", type_)


def is_parameter(column: Column) -> bool:
    """Return whether a column is a parameter of a lambda."""
    return column.name.startswith("->")


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct parts of an expression."""
    match expr:
        case Column() | Literal():
            return ()
        case Call(args=args):
            return args
        case Cast(arg=arg):
            return (arg,)
        case Lambda(body=body):
            return (body,)
        case Case(branches=branches, default=default):
            flat = tuple(part for branch in branches for part in branch)
            return flat if default is None else (*flat, default)


def walk(expr: Expr) -> Iterator[Expr]:
    """Return the expression and all its parts, but for the parameters of lambdas."""
    yield expr
    if isinstance(expr, Lambda):
        yield from (part for part in walk(expr.body) if part not in expr.params)
        return
    for child in children(expr):
        yield from walk(child)


def rebuilt(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Return the same expression with its direct parts changed."""
    match expr:
        case Column() | Literal():
            return expr
        case Call(function=function, args=args, type=type_):
            return Call(function, tuple(map(change, args)), type_)
        case Cast(arg=arg, type=type_):
            return Cast(change(arg), type_)
        case Lambda(params=params, body=body, type=type_):
            return Lambda(params, change(body), type_)
        case Case(branches=branches, default=default, type=type_):
            return Case(
                tuple((change(when), change(then)) for when, then in branches),
                None if default is None else change(default),
                type_,
            )


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up, passing every rebuilt part through `change`."""
    return change(rebuilt(expr, lambda part: transform(part, change)))


def columns(expr: Expr) -> frozenset[str]:
    """Return the names of all columns that the expression reads."""
    return frozenset(part.name for part in walk(expr) if isinstance(part, Column))


def substitute(expr: Expr, by: Mapping[str, Expr]) -> Expr:
    """Replace columns by the expressions that compute them."""
    return transform(expr, lambda part: by.get(part.name, part) if isinstance(part, Column) else part)


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Return the terms of a conjunction: a AND (b AND c) gives a, b, c."""
    if isinstance(expr, Call) and expr.function == "and":
        return tuple(term for arg in expr.args for term in conjuncts(arg))
    return (expr,)


def conjunction(terms: tuple[Expr, ...]) -> Expr | None:
    """Return all terms as one expression; None if there are none."""
    return chain("and", terms) if terms else None


def chain(operator: str, terms: Sequence[Expr]) -> Expr:
    """Combine terms by AND or OR: as a left-deep tree, or a balanced one if that would be too deep to walk."""
    if len(terms) > LONG_CHAIN:
        middle = len(terms) // 2
        return Call(operator, (chain(operator, terms[:middle]), chain(operator, terms[middle:])), Type.BOOLEAN)
    result = terms[0]
    for term in terms[1:]:
        result = Call(operator, (result, term), Type.BOOLEAN)
    return result


def depth(expr: Expr) -> int:
    """Return the levels of an expression: 0 for a column or constant. Works on expressions too deep to walk."""
    levels, level = 0, [expr]
    while level := [child for part in level for child in children(part)]:
        levels += 1
    return levels


def size(expr: Expr) -> int:
    """Return the number of parts of an expression, itself included. Works on expressions too deep to walk."""
    parts, level = 0, [expr]
    while level:
        parts += len(level)
        level = [child for part in level for child in children(part)]
    return parts
