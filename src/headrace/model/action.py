"""The actions of a rule besides the sinks that its detections go to."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from headrace.model.expressions.expression import Expr
from headrace.model.time import SECOND


class CallFunction(Struct, frozen=True, tag_field="action", tag="function"):
    """Call a Python function: 'module:function', or one that the session knows by name.

    Without `args` it takes the whole detection.
    """

    target: str
    args: tuple[Expr, ...] | None = None


class CallWebhook(Struct, frozen=True, tag_field="action", tag="webhook"):
    """Send the detection to an address as JSON by POST."""

    url: str


class SwitchQuery(Struct, frozen=True, tag_field="action", tag="switch"):
    """Start a query, or stop it."""

    query: str
    on: bool


class RaiseEvent(Struct, frozen=True, tag_field="action", tag="raise"):
    """Let an event happen, with these values in its columns; `cascade` says how many rules lie before it."""

    event: str
    columns: tuple[tuple[str, Expr], ...]
    cascade: Expr


Action: TypeAlias = CallFunction | CallWebhook | SwitchQuery | RaiseEvent

#: The column of a raised event that says how many rules in a row led to it.
CASCADE = "cascade"


class Effort(Struct, frozen=True):
    """The effort for an action: time limit of a call, number of tries, length of chains of rules."""

    timeout: int = 5 * SECOND
    tries: int = 3
    cascade: int = 16


class Reaction(Struct, frozen=True):
    """The reaction of a rule: its actions, and when they run among those of other rules.

    Priority 1 runs first, deferred ones last. `texts` are the actions as written. With `confirm`, detections are
    proposals.
    """

    actions: tuple[Action, ...] = ()
    texts: tuple[str, ...] = ()
    priority: int = 1
    deferred: bool = False
    enabled: bool = True
    effort: Effort = Effort()
    confirm: int | None = None  # how long a person may agree to the actions (microseconds); None: nobody is asked

    @property
    def rank(self) -> tuple[bool, int]:
        """Return the order in which actions run in a micro-batch."""
        return self.deferred, self.priority
