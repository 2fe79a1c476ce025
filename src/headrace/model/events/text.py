"""Event expressions as they are written."""

from __future__ import annotations

from headrace.model.events.event import (
    Absent,
    And,
    AnyOf,
    Aperiodic,
    AperiodicStar,
    Context,
    Event,
    Not,
    Or,
    Periodic,
    PeriodicStar,
    Plus,
    Primitive,
    Retention,
    Sequence,
    Times,
    Within,
)
from headrace.model.expressions.text import format_expr, format_name
from headrace.model.time import format_duration


def format_event(event: Event) -> str:
    """Write an event expression; a primitive event is followed by its start column and its mask in braces."""
    match event:
        case Primitive(name=name, mask=mask, start=start):
            notes = [
                *([] if start is None else [f"since {format_name(start)}"]),
                *([] if mask is None else [format_expr(mask)]),
            ]
            return f"{format_name(name)} {{{', '.join(notes)}}}" if notes else format_name(name)
        case And():
            return f"{_inner(event.left)} AND {_inner(event.right)}"
        case Or():
            return f"{_inner(event.left)} OR {_inner(event.right)}"
        case Sequence():
            return f"{_inner(event.left)} SEQUENCE {_inner(event.right)}"
        case Not():
            return f"NOT ({format_event(event.middle)}) [{format_event(event.start)}, {format_event(event.end)}]"
        case Absent():
            return f"NOT ({format_event(event.middle)}) [{format_event(event.start)}, '{format_duration(event.span)}']"
        case AnyOf(count=count, events=events):
            return f"ANY ({count}, {', '.join(map(format_event, events))})"
        case Times(count=count, event=inner):
            return f"TIMES ({count}, {format_event(inner)})"
        case Aperiodic() | AperiodicStar():
            star = "*" if isinstance(event, AperiodicStar) else ""
            parts = ", ".join(map(format_event, (event.start, event.middle, event.end)))
            return f"APERIODIC{star} ({parts})"
        case Periodic() | PeriodicStar():
            star = "*" if isinstance(event, PeriodicStar) else ""
            start, end = format_event(event.start), format_event(event.end)
            return f"PERIODIC{star} ({start}, '{format_duration(event.span)}', {end})"
        case Plus(event=inner, span=span):
            return f"{_inner(inner)} PLUS '{format_duration(span)}'"
        case Within(event=inner, span=span):
            return f"{format_event(inner)} WITHIN '{format_duration(span)}'"


def format_context(context: Context) -> str:
    """Write a context as behind CONTEXT."""
    kept = ", ".join(map(_retention, context.retentions))
    return context.mode.value + (" POINT" if context.point else "") + (f" ({kept})" if kept else "")


def _retention(retention: Retention) -> str:
    by = f" BY ({', '.join(map(format_name, retention.by))})" if retention.by else ""
    keep = "" if retention.keep is None else f" KEEP {retention.keep}"
    age = "" if retention.age is None else f" AGE '{format_duration(retention.age)}'"
    return f"{format_name(retention.part)}{by}{keep}{age}"


def _inner(event: Event) -> str:
    simple = isinstance(
        event, Primitive | Not | Absent | AnyOf | Times | Aperiodic | AperiodicStar | Periodic | PeriodicStar
    )
    return format_event(event) if simple else f"({format_event(event)})"
