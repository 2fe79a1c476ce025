"""Columns that are an end of the tumbling window that a tuple is in, as TABLE(TUMBLE(...)) gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.expressions.expression import Call, Column, Expr, Literal, walk
from headrace.model.schema import TS
from headrace.model.types import Type
from headrace.model.window import Range
from headrace.plan.binding.environment import Environment
from headrace.plan.binding.stand_in import plan_of
from headrace.plan.nodes import Filter, Membership, Node, Over, Project, Rank, Scan, TableJoin, WindowOver


@dataclass(frozen=True, slots=True)
class Bound:
    """An end of the tumbling window that a tuple is in."""

    which: str
    size: int
    offset: int

    @property
    def window(self) -> Range:
        """The window itself."""
        return Range(self.size, self.size, self.offset)


def tumbling_columns(node: Node, env: Environment) -> Mapping[str, Bound]:
    """Return the columns that are `ends_of` a window: each an end of the tumbling window that a tuple is in."""
    match node:
        case Scan(name=name) if env.catalog.get(name) is None:
            whole = plan_of(node, env)
            return {} if whole is None else tumbling_columns(whole, env)
        case Filter() | TableJoin() | Membership() | Over() | Rank() | WindowOver():
            return tumbling_columns(node.input, env)
        case Project(input=below, columns=columns):
            known = tumbling_columns(below, env)
            found = (
                (name, known.get(expr.name) if isinstance(expr, Column) else _bound(expr)) for name, expr in columns
            )
            return {name: bound for name, bound in found if bound is not None}
        case _:
            return {}


def ends_of(size: int, offset: int) -> dict[str, Expr]:
    """Return the ends of the tumbling window that a tuple is in, as expressions."""
    ts: Expr = Column(TS, Type.BIGINT)
    length = Literal(size, Type.BIGINT)
    since = _bigint("-", ts, Literal(offset, Type.BIGINT)) if offset else ts
    within = _bigint("%", _bigint("+", _bigint("%", since, length), length), length)
    start = _bigint("-", ts, within)
    ends = {"window_start": start, "window_end": _bigint("+", start, length)}
    return {name: Call("timestamp_micros", (end,), Type.TIMESTAMP) for name, end in ends.items()}


def _bound(expr: Expr) -> Bound | None:
    """Return what end of which window an expression is; None if it is none."""
    for part in walk(expr):
        match part:
            case Call(function="%", args=(Column(), Literal(value=int(size)))):
                made = ends_of(size, 0), size, 0
            case Call(
                function="%",
                args=(Call(function="-", args=(Column(), Literal(value=int(offset)))), Literal(value=int(size))),
            ):
                made = ends_of(size, offset), size, offset
            case _:
                continue
        ends, size, offset = made
        return next((Bound(which, size, offset) for which, end in ends.items() if end == expr), None)
    return None


def _bigint(function: str, left: Expr, right: Expr) -> Expr:
    return Call(function, (left, right), Type.BIGINT)
