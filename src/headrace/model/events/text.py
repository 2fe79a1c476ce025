"""Event expressions as they are written."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.model.events import event as events
from headrace.model.events.event import Context, Event, Retention
from headrace.model.expressions.expression import Expr
from headrace.model.expressions.text import format_expr, format_name
from headrace.model.time import format_duration


def format_event(event: Event) -> str:
    """Write an event expression; a primitive event is followed by its start column and its mask in braces."""
    match event:
        case events.Primitive(name=name, mask=mask, start=start):
            notes = [
                *([] if start is None else [f"since {format_name(start)}"]),
                *([] if mask is None else [format_expr(mask)]),
            ]
            return f"{format_name(name)} {{{', '.join(notes)}}}" if notes else format_name(name)
        case events.And():
            return f"{_inner(event.left)} AND {_inner(event.right)}"
        case events.Or():
            return f"{_inner(event.left)} OR {_inner(event.right)}"
        case events.Sequence():
            return f"{_inner(event.left)} SEQUENCE {_inner(event.right)}"
        case events.Not():
            return f"NOT ({format_event(event.middle)}) [{format_event(event.start)}, {format_event(event.end)}]"
        case events.Absent():
            return f"NOT ({format_event(event.middle)}) [{format_event(event.start)}, '{format_duration(event.span)}']"
        case events.AnyOf(count=count, events=choices):
            return f"ANY ({count}, {', '.join(map(format_event, choices))})"
        case events.Times(count=count, event=inner):
            return f"TIMES ({count}, {format_event(inner)})"
        case events.Aperiodic() | events.AperiodicStar():
            star = "*" if isinstance(event, events.AperiodicStar) else ""
            parts = ", ".join(map(format_event, (event.start, event.middle, event.end)))
            return f"APERIODIC{star} ({parts})"
        case events.Repetition(start=first, middles=middles, counts=counts, end=last):
            links = event.links or ((),) * len(middles)
            between = [
                f"{_inner(middle)}{_count(*count)}{_linked(link)}"
                for middle, count, link in zip(middles, counts, links, strict=True)
            ]
            return " SEQUENCE ".join([*([] if first is None else [_inner(first)]), *between, _inner(last)])
        case events.Periodic() | events.PeriodicStar():
            star = "*" if isinstance(event, events.PeriodicStar) else ""
            start, end = format_event(event.start), format_event(event.end)
            return f"PERIODIC{star} ({start}, '{format_duration(event.span)}', {end})"
        case events.Plus(event=inner, span=span):
            return f"{_inner(inner)} PLUS '{format_duration(span)}'"
        case events.Within(event=inner, span=span):
            return f"{format_event(inner)} WITHIN '{format_duration(span)}'"
        case events.Alias(event=inner, name=name):
            return f"({format_event(inner)}) AS {format_name(name)}"


def format_context(context: Context) -> str:
    """Write a context as behind CONTEXT."""
    kept = ", ".join(map(_retention, context.retentions))
    return context.mode.value + (" POINT" if context.point else "") + (f" ({kept})" if kept else "")


def _retention(retention: Retention) -> str:
    by = f" BY ({', '.join(map(format_name, retention.by))})" if retention.by else ""
    keep = "" if retention.keep is None else f" KEEP {retention.keep}"
    age = "" if retention.age is None else f" AGE '{format_duration(retention.age)}'"
    return f"{format_name(retention.part)}{by}{keep}{age}"


def _linked(links: Sequence[Expr]) -> str:
    return f" linked by {' AND '.join(map(format_expr, links))}" if links else ""


def _count(least: int, most: int | None) -> str:
    """Write how often an event is repeated."""
    short = {(1, None): "+", (0, None): "*", (0, 1): "?"}
    return short.get((least, most)) or (
        f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
    )


def _inner(event: Event) -> str:
    infix = events.And | events.Or | events.Sequence | events.Repetition | events.Plus | events.Within
    is_infix = isinstance(event, infix)
    return f"({format_event(event)})" if is_infix else format_event(event)
