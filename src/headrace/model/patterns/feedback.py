"""Feedback: what those who read a stream tell those who produce it, against the flow of tuples."""

from __future__ import annotations

import enum

from msgspec import Struct

from headrace.model.patterns.pattern import Pattern


class Intent(enum.Enum):
    """The intent of a feedback: what the sender wants of the tuples it describes."""

    ASSUMED = "assumed"  # they are not needed: avoid them if you can, it is final
    DESIRED = "desired"  # they are wanted first: order and time change, never content
    DEMANDED = "demanded"  # they are wanted now, even if they are not final yet


class Feedback(Struct, frozen=True, omit_defaults=True):
    """A subset of a stream, and what is wanted of it. A hint: to ignore it is always right.

    Of several that are desired, those of a higher priority come first.
    """

    intent: Intent
    pattern: Pattern
    priority: int = 0

    def __str__(self) -> str:
        return f"{self.intent.value} [{self.pattern}]"
