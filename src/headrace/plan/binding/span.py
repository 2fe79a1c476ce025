"""Where a part of a parsed SELECT stands in its text."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import Span


def place(node: exp.Expr | None) -> Span | None:
    """Return the span of a node and its parts; sqlglot keeps positions of names and literals only."""
    if node is None:
        return None
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    ends = [part.meta["end"] for part in node.walk() if "end" in part.meta]
    return Span(min(starts), max(ends) + 1) if starts else None
