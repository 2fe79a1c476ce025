"""What goes out when something is wrong."""

from __future__ import annotations

from typing import Literal

from headrace.server.views.view import View


class SpanView(View, frozen=True):
    """A place in a text: half-open, in UTF-16 units, as browsers count; line and column begin at 1."""

    start: int
    end: int
    line: int
    column: int
    unit: Literal["utf-16"] = "utf-16"


class Fix(View, frozen=True):
    """A replacement that repairs a text: what to write between two positions (UTF-16 units)."""

    start: int
    end: int
    text: str


class Problem(View, frozen=True, omit_defaults=True):
    """An error, as application/problem+json (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str | None = None
    span: SpanView | None = None
    excerpt: str | None = None
    fix: Fix | None = None
    id: str | None = None  # of a fault of Headrace, as in the log
    stage: str | None = None  # what a start is doing
    first: int | None = None  # the first micro-batch that is left on a shelf
