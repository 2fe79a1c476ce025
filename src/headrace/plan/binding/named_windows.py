"""OVER w, OVER (w ORDER BY x) and WINDOW w2 AS (w ...), written out as the WINDOW clause of their SELECT says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from headrace.errors import SyntaxFault
from headrace.plan.binding.span import place

_PARTS = {"partition_by": "PARTITION BY", "order": "ORDER BY", "spec": "frame"}


def name_windows(select: exp.Select) -> exp.Select:
    """Return the SELECT with each window that has a name written out; those of its sub-queries stay as they are."""
    if not select.args.get("windows") and not any(window.args.get("alias") for window in _windows(select)):
        return select
    named = select.copy()
    clauses: dict[str, exp.Window] = {}
    for clause in named.args.get("windows") or []:
        if clause.this.name.isdecimal():
            raise SyntaxFault(
                "WINDOW gives names to windows of OVER",
                span=place(clause.this),
                hint="write how long a window is after the stream: FROM s [RANGE 10 SECONDS]",
            )
        _write_out(clause, clauses)
        clauses[clause.this.name.lower()] = clause
    named.set("windows", None)
    for window in list(_windows(named)):
        _write_out(window, clauses)
    return named


def _windows(select: exp.Select) -> Iterator[exp.Window]:
    """Find the windows of a SELECT, not those of its sub-queries."""
    nodes = select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select)
    return (node for node in nodes if isinstance(node, exp.Window))


def _write_out(window: exp.Window, clauses: Mapping[str, exp.Window]) -> None:
    """Give a window that begins with a name the parts of that window."""
    alias = window.args.get("alias")
    if alias is None:
        return
    clause = clauses.get(alias.name.lower())
    if clause is None:
        hint = "write WINDOW w AS (PARTITION BY id ORDER BY rowtime) after FROM, WHERE and GROUP BY"
        raise SyntaxFault(f"no window is called {alias.name!r}", span=place(alias), hint=hint)
    window.set("alias", None)
    for part, words in _PARTS.items():
        value = clause.args.get(part)
        if window.args.get(part) and (value or part == "partition_by"):
            raise SyntaxFault(
                f"the window {alias.name!r} cannot get another {words}",
                span=place(alias),
                hint=f"leave {words} out, or write the whole window without {alias.name}",
            )
        if value:
            window.set(part, [v.copy() for v in value] if isinstance(value, list) else value.copy())
