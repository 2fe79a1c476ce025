"""What a detection need not take in."""

from __future__ import annotations

from headrace.model.events.event import (
    And,
    AnyOf,
    Event,
    Mode,
    Or,
    Primitive,
    Sequence,
    Within,
    operands,
    primitives,
    reach,
)
from headrace.model.events.output import key_columns
from headrace.model.patterns.pattern import STAMP, Pattern
from headrace.model.schema import TS
from headrace.operators.events.detect import Detect
from headrace.operators.feedback.preimage import through
from headrace.operators.feedback.spans import shortened


def detect_inputs(spec: Detect, pattern: Pattern) -> tuple[Pattern | None, ...]:
    """Return whole histories; up to a time only where no tuple has an effect on what comes later.

    Anything else that is left out might have prevented, replaced or used up something.
    """
    early: Pattern | None = pattern
    if pattern.get(TS) is not None:
        span = _memory(spec)
        early = None if span is None else shortened(pattern, span)
    if early is None:
        return (None,) * len(spec.schemas)
    places = key_columns(spec.event, spec.keys, spec.outputs)
    return tuple(
        through(early.terms, {**{name: own[place] for name, place in places.items()}, TS: STAMP}) for own in spec.keys
    )


def _memory(spec: Detect) -> int | None:
    """Return how long a tuple can change what is detected; None if that is not known.

    Where nothing is used up or prevented, what WITHIN allows. In RECENT this needs that of occurrences which follow
    one another the later did not begin before the earlier: then one that is too old has replaced only such as are.
    """
    if spec.context.retentions:
        return None
    match spec.context.mode:
        case Mode.UNRESTRICTED:
            return reach(spec.event) if _is_made_of(spec.event, (Primitive, Sequence, And, Or, AnyOf, Within)) else None
        case Mode.RECENT:
            instants = all(part.start is None for part in primitives(spec.event))
            return (
                reach(spec.event) if instants and _is_made_of(spec.event, (Primitive, Sequence, And, Within)) else None
            )
        case Mode.CHRONICLE | Mode.CONTINUOUS | Mode.CUMULATIVE | Mode.PROXIMAL:
            return None


def _is_made_of(event: Event, kinds: tuple[type[Event], ...]) -> bool:
    return isinstance(event, kinds) and all(_is_made_of(operand, kinds) for operand in operands(event))
