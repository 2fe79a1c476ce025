"""Suppressors: a repeated tuple comes out after so many repetitions, or after so much time."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_expr
from headrace.model.time import format_duration


class Repeats(Struct, frozen=True, tag="repeats"):
    """RSUPPRESS(limit): a tuple comes out when its group has more than `limit` tuples within `span`.

    The count of the group then starts again.
    """

    limit: int
    span: int | None


class Standing(Struct, frozen=True, tag="standing"):
    """TSUPPRESS(time, action): an alarm comes out when it has stood for `time`.

    The time counts from when the alarm came, was updated or came out last. The first tuple of a group is an alarm, and
    so is the first one after a 'clean'. The action 'update' replaces the alarm and restarts its time, 'clean' ends it,
    and any other action changes nothing. Tuples at the instant itself are processed first. An alarm that was neither
    updated nor cleaned for `span` is forgotten.
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
