"""Complex events: what happened, composed of tuples of several inputs by event operators.

An occurrence is an interval: it starts with its first constituent and ends with its last, at which it is detected.
Every operator looks at one instant at a time: what ends a detection is taken before what starts one, so a sequence is
strict whatever the order of arrival. The meaning of each operator in each mode is in docs/events.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from headrace.model.expressions.expression import Expr, columns


class Primitive(Struct, frozen=True, tag_field="op", tag="primitive"):
    """The tuples of a port for which the mask holds; expressions call its columns `name.column`.

    `name` is unique and has no dot. A primitive event is the instant of the tuple's timestamp. If `start` names a
    column, it is the interval from that time on: a named complex event keeps its interval so.
    """

    name: str
    port: int
    mask: Expr | None = None
    start: str | None = None


class And(Struct, frozen=True, tag_field="op", tag="and"):
    """Both, in any order; at the later."""

    left: Event
    right: Event


class Or(Struct, frozen=True, tag_field="op", tag="or"):
    """Either."""

    left: Event
    right: Event


class Sequence(Struct, frozen=True, tag_field="op", tag="sequence"):
    """The right one, after the left one has ended."""

    left: Event
    right: Event


class Not(Struct, frozen=True, tag_field="op", tag="not"):
    """`end` after `start` with no `middle` in the closed interval between them."""

    middle: Event
    start: Event
    end: Event


class Absent(Struct, frozen=True, tag_field="op", tag="absent"):
    """`span` after `start`, if there was no `middle` in the meantime, both ends included."""

    middle: Event
    start: Event
    span: int


class AnyOf(Struct, frozen=True, tag_field="op", tag="any"):
    """`count` different ones of the events, in any order; at the last."""

    count: int
    events: tuple[Event, ...]


class Times(Struct, frozen=True, tag_field="op", tag="times"):
    """The same event `count` times; at the last."""

    count: int
    event: Event


class Aperiodic(Struct, frozen=True, tag_field="op", tag="aperiodic"):
    """Each `middle` after `start` and before `end`."""

    start: Event
    middle: Event
    end: Event


class AperiodicStar(Struct, frozen=True, tag_field="op", tag="aperiodic_star"):
    """At `end`, all `middle` since `start`, if there is one."""

    start: Event
    middle: Event
    end: Event


class Repetition(Struct, frozen=True, tag_field="op", tag="repetition", omit_defaults=True):
    """At `end`, all occurrences of `middles` since `start`, in the order of the middles and as many as `counts` allow.

    Without a start: all since the end before. A count is the least and the greatest number, None for no limit. `links`
    are for each middle, which is primitive then, the conditions between one of its tuples and the one before: over its
    own columns, and those of the one before with the prefix PREVIOUS. With a start they must hold for all of them;
    without, the tuples from the last break on count.
    """

    start: Event | None
    middles: tuple[Event, ...]
    counts: tuple[tuple[int, int | None], ...]
    end: Event
    links: tuple[tuple[Expr, ...], ...] = ()


class Periodic(Struct, frozen=True, tag_field="op", tag="periodic"):
    """At each multiple of `span` after `start`, before `end`."""

    start: Event
    span: int
    end: Event


class PeriodicStar(Struct, frozen=True, tag_field="op", tag="periodic_star"):
    """At `end`, if at least one multiple of `span` after `start` has passed."""

    start: Event
    span: int
    end: Event


class Plus(Struct, frozen=True, tag_field="op", tag="plus"):
    """A point in time, `span` after the event."""

    event: Event
    span: int


class Within(Struct, frozen=True, tag_field="op", tag="within"):
    """The event, if at most `span` lies between the start of its first constituent and its end.

    The limit holds for all its parts too.
    """

    event: Event
    span: int


class Alias(Struct, frozen=True, tag_field="op", tag="alias"):
    """A composite event under a name, by which a context says what of it is kept."""

    event: Event
    name: str


Event: TypeAlias = (
    Primitive
    | And
    | Or
    | Sequence
    | Not
    | Absent
    | AnyOf
    | Times
    | Aperiodic
    | AperiodicStar
    | Repetition
    | Periodic
    | PeriodicStar
    | Plus
    | Within
    | Alias
)


class Mode(Enum):
    """The consumption mode: which occurrences are combined, and which of them can be used again."""

    UNRESTRICTED = "UNRESTRICTED"  # all, and forever
    RECENT = "RECENT"  # the latest start, until a newer one replaces it
    CHRONICLE = "CHRONICLE"  # the oldest that fits, once
    CONTINUOUS = "CONTINUOUS"  # every start on its own; an end closes all
    CUMULATIVE = "CUMULATIVE"  # all together, in one occurrence
    PROXIMAL = "PROXIMAL"  # the latest start, once


class Retention(Struct, frozen=True):
    """The waiting occurrences of one primitive event, or of one with an alias, that are kept.

    The newest `keep` that agree in the columns `by`, none older than `age`. Columns of a primitive event have their own
    names; those of one with an alias are qualified with the constituent.
    """

    part: str
    by: tuple[str, ...] = ()
    keep: int | None = None
    age: int | None = None


class Context(Struct, frozen=True):
    """A consumption mode; `point` sees a composite occurrence as the instant of its end instead of an interval."""

    mode: Mode
    retentions: tuple[Retention, ...] = ()
    point: bool = False

    def retention(self, part: str) -> Retention | None:
        return next((retention for retention in self.retentions if retention.part == part), None)

    def kept_of(self, operand: Event) -> Retention | None:
        """Return what is kept of an operand; None if nothing is said."""
        return self.retention(operand.name) if isinstance(operand, Primitive | Alias) else None


#: How the name of a column of the tuple before begins.
PREVIOUS = "__prev_"


def linked_columns(event: Event) -> Iterator[str]:
    """Return the qualified columns that conditions between tuples of a repetition read."""
    if isinstance(event, Repetition):
        for middle, links in zip(event.middles, event.links, strict=False):
            if isinstance(middle, Primitive):
                for name in (name for link in links for name in columns(link)):
                    yield f"{middle.name}.{name.removeprefix(PREVIOUS)}"
    for operand in operands(event):
        yield from linked_columns(operand)


def operands(event: Event) -> tuple[Event, ...]:
    """Return the direct parts of an event; those of three as start, middle, end."""
    match event:
        case Repetition(start=first, middles=middles, end=last):
            return (*(() if first is None else (first,)), *middles, last)
        case Primitive():
            return ()
        case And(left=left, right=right) | Or(left=left, right=right) | Sequence(left=left, right=right):
            return (left, right)
        case Not() | Aperiodic() | AperiodicStar():
            return (event.start, event.middle, event.end)
        case Absent(middle=middle, start=start):
            return (start, middle)
        case AnyOf(events=events):
            return events
        case Periodic(start=start, end=end) | PeriodicStar(start=start, end=end):
            return (start, end)
        case Times(event=inner) | Plus(event=inner) | Within(event=inner) | Alias(event=inner):
            return (inner,)


def primitives(event: Event) -> Iterator[Primitive]:
    """Return all primitive events of an expression, from left to right."""
    if isinstance(event, Primitive):
        yield event
    for operand in operands(event):
        yield from primitives(operand)


def aliases(event: Event) -> Iterator[Alias]:
    """Return all events with an alias in an expression, from left to right."""
    if isinstance(event, Alias):
        yield event
    for operand in operands(event):
        yield from aliases(operand)


def divided_by(event: Event, context: Context) -> Iterator[str]:
    """Return the qualified columns by which a context divides what is kept."""
    parts = {part.name for part in primitives(event)}
    for retention in context.retentions:
        for column in retention.by:
            yield f"{retention.part}.{column}" if retention.part in parts else column


def constituents(event: Event) -> Iterator[Primitive]:
    """Return the primitive events whose tuples an occurrence consists of, not those that only prevent or end it."""
    match event:
        case Primitive():
            yield event
        case Not(start=start, end=end) | PeriodicStar(start=start, end=end):
            yield from constituents(start)
            yield from constituents(end)
        case Absent(start=start) | Periodic(start=start):
            yield from constituents(start)
        case Aperiodic(start=start, middle=middle):
            yield from constituents(start)
            yield from constituents(middle)
        case (
            And() | Or() | Sequence() | AnyOf() | Times() | AperiodicStar() | Repetition() | Plus() | Within() | Alias()
        ):
            for operand in operands(event):
                yield from constituents(operand)


def always(event: Event) -> Iterator[Primitive]:
    """Return the primitive events of which every occurrence has a tuple."""
    match event:
        case Or():
            return
        case AnyOf(count=count, events=events) if count < len(events):
            return
        case Primitive():
            yield event
        case Not(start=start, end=end) | PeriodicStar(start=start, end=end):
            yield from always(start)
            yield from always(end)
        case Absent(start=start) | Periodic(start=start):
            yield from always(start)
        case Aperiodic(start=start, middle=middle):
            yield from always(start)
            yield from always(middle)
        case Repetition(start=first, middles=middles, counts=counts, end=last):
            needed = [middle for middle, (least, _) in zip(middles, counts, strict=True) if least > 0]
            for operand in (*(() if first is None else (first,)), *needed, last):
                yield from always(operand)
        case And() | Sequence() | AnyOf() | Times() | AperiodicStar() | Plus() | Within() | Alias():
            for operand in operands(event):
                yield from always(operand)


def reaches(event: Event, span: int | None) -> tuple[int | None, ...]:
    """Return how long each operand may last if the event may last `span`; None means without limit.

    What an occurrence consists of lies inside it. What only prevents or ends it does not, and PLUS forgets what it
    follows.
    """
    match event:
        case Within(span=own):
            return (own if span is None else min(own, span),)
        case Plus():
            return (None,)
        case Not():
            return (span, None, span)
        case Aperiodic():
            return (span, span, None)
        case Absent() | Periodic():
            return (span, None)
        case _:
            return (span,) * len(operands(event))


def reach(event: Event) -> int | None:
    """Return how long an occurrence may last by the outermost WITHIN; None means without limit."""
    return event.span if isinstance(event, Within) else None


def spans(event: Event, span: int | None = None) -> Iterator[tuple[Primitive | Alias, int | None]]:
    """Return all primitive events and those with an alias from left to right, each with how long it may last."""
    if isinstance(event, Primitive | Alias):
        yield event, span
    for operand, reach in zip(operands(event), reaches(event, span), strict=True):
        yield from spans(operand, reach)


def waiting(event: Event, span: int | None = None) -> Iterator[Event]:
    """Return the operands that wait for others without a limit on how long."""
    if span is None:
        yield from _kept(event)
    for operand, reach in zip(operands(event), reaches(event, span), strict=True):
        yield from waiting(operand, reach)


def _kept(event: Event) -> tuple[Event, ...]:
    """Return the operands of which occurrences wait for those of other operands."""
    match event:
        case Primitive() | Within() | Alias() | Or() | Plus() | Times() | Absent():
            return ()
        case And() | AnyOf():
            return operands(event)
        case Sequence(left=left):
            return (left,)
        case Not(start=start) | Aperiodic(start=start) | Periodic(start=start) | PeriodicStar(start=start):
            return (start,)
        case AperiodicStar(start=start, middle=middle):
            return (start, middle)
        case Repetition():
            return operands(event)[:-1]
