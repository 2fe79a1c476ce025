"""The columns by which all calls with OVER of a SELECT divide its tuples, kept for the windows that it reads."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp


def with_partition(select: exp.Select, windows: Iterable[exp.Window]) -> exp.Select:
    """Return the SELECT with a note of the columns that all of these calls name in PARTITION BY."""
    named = [
        {key.name.lower() for key in window.args.get("partition_by") or [] if isinstance(key, exp.Column)}
        for window in windows
    ]
    select.meta["partition"] = frozenset.intersection(*map(frozenset, named)) if named else frozenset()
    return select


def partition_of(select: exp.Select) -> frozenset[str] | None:
    """Return the columns that were noted; None if the SELECT has no call with OVER."""
    noted: frozenset[str] | None = select.meta.get("partition")
    return noted
