"""What the controller decided, what feedback saved and what shedding dropped."""

from __future__ import annotations

from typing import Literal

from headrace.server.views.view import View


class DecisionView(View, frozen=True):
    """A decision of the controller, with its reason."""

    number: int
    at: int
    query: str | None
    kind: str
    action: str
    reason: str


class DecisionsView(View, frozen=True):
    """Decisions, oldest first; `newest` is the number to ask `after` next time."""

    decisions: tuple[DecisionView, ...]
    newest: int


class GuardView(View, frozen=True):
    """What feedback drops at one place, and what it saved."""

    place: str
    vertex: str | None
    unneeded: str
    until: int | None
    active: bool
    tuples: int
    bytes: int | None


class FeedbackView(View, frozen=True):
    """What feedback saved."""

    guards: tuple[GuardView, ...]
    purged: int


class ShedView(View, frozen=True):
    """What is dropped on one arc."""

    vertex: str
    place: str
    port: int
    queries: tuple[str, ...]
    kind: str
    share: float
    seen: int
    dropped: int
    active: bool


class ShedQueryView(View, frozen=True):
    """What one query lost by shedding, and what it may lose."""

    query: str
    mode: str
    arrived: int
    dropped: int
    error: float | None  # the share lost
    allowed: float | None


class SheddingView(View, frozen=True):
    """What is shed, by place and by query."""

    places: tuple[ShedView, ...]
    queries: tuple[ShedQueryView, ...]


class MigrationView(View, frozen=True):
    """A change of plan: from and to which tree, how, for how long, and whether it is through."""

    query: str
    vertex: str
    number: int
    at: int
    before: str
    after: str
    how: str
    auto: bool
    batches: int
    longest_ms: float
    built: int  # rows of state that it made
    ended: int | None
    state: Literal["running", "done", "given up"]
