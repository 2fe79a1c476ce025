"""Warnings about the state of a detection that grows without a limit."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.model.events.event import Context, Event, Mode, constituents, spans, waiting


def growing(event: Event, context: Context) -> tuple[str, ...]:
    """Describe what is kept without a limit, in the order of the expression; WITHIN, KEEP and AGE are limits."""
    return tuple(dict.fromkeys((*_open_starts(event, context), *_values(event, context))))


def _open_starts(event: Event, context: Context) -> Iterator[str]:
    """Describe starts that may wait forever: no end has to come, and in UNRESTRICTED an end does not use them up."""
    match context.mode:
        case Mode.RECENT | Mode.PROXIMAL:
            return
        case Mode.UNRESTRICTED:
            how_long = "forever"
        case Mode.CHRONICLE | Mode.CONTINUOUS | Mode.CUMULATIVE:
            how_long = "until it is used"
    for operand in waiting(event):
        retention = context.kept_of(operand)
        if retention is None or (retention.keep is None and retention.age is None):
            names = " and ".join(part.name for part in constituents(operand))
            yield f"CONTEXT {context.mode.value} keeps every occurrence of {names} {how_long}; add WITHIN, KEEP or AGE"


def _values(event: Event, context: Context) -> Iterator[str]:
    """Describe parts with BY, which keep a tuple for each value; the number of values has no limit."""
    bounded = {part.name for part, span in spans(event) if span is not None}
    for retention in context.retentions:
        if retention.by and retention.age is None and retention.part not in bounded:
            values = ", ".join(retention.by)
            yield f"{retention.part} is kept for every value of {values}, however old; add WITHIN or AGE"
