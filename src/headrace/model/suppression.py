"""When a repeated tuple is let through: by how often it came, or by how long it has stood."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_expr
from headrace.model.time import format_duration


class Repeats(Struct, frozen=True, tag="repeats"):
    """RSUPPRESS(limit): with each tuple of a group that makes them more than `limit`, none of them older than `span`; after it none counts."""

    limit: int
    span: int | None


class Standing(Struct, frozen=True, tag="standing"):
    """TSUPPRESS(time, action): whenever an alarm has stood for `time` since it came, was updated or was let through last.

    The first tuple of a group is an alarm, and so is each after it was cleaned. Action 'update' puts a tuple in the place of the alarm and starts its
    time anew, 'clean' ends it; all else says that it still stands, which changes nothing. What happens at the instant itself comes before.
    An alarm that was neither updated nor cleaned for `span` is forgotten.
    """

    time: int
    span: int
    action: Expr


Suppression: TypeAlias = Repeats | Standing


def format_suppression(rule: Suppression) -> str:
    """Write a suppressor as in the text of a query."""
    match rule:
        case Repeats(limit=limit, span=span):
            return f"RSUPPRESS({limit}){'' if span is None else f' [RANGE {format_duration(span)}]'}"
        case Standing(time=time, span=span, action=action):
            return f"TSUPPRESS({format_duration(time)}, {format_expr(action)}) [RANGE {format_duration(span)}]"
