"""Where a call with OVER may stand."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import NotSupported
from headrace.language.syntax.clauses import RangeClause, window_of
from headrace.plan.binding.span import place


def function_of(window: exp.Expr) -> str:
    """Return the name of the function of a call with OVER."""
    inner = window.this
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return str(inner.name)


def check_place(window: exp.Window) -> None:
    """Refuse a call inside another one, or in a lambda."""
    outer = window.find_ancestor(exp.Window, exp.Lambda)
    if outer is not None:
        inside = f"inside {function_of(outer).upper()} OVER" if isinstance(outer, exp.Window) else "in a lambda"
        raise NotSupported(
            f"{function_of(window).upper()} OVER is not allowed {inside}",
            span=place(window),
            hint="compute it in a sub-query: FROM (SELECT *, sum(x) OVER (...) AS s FROM ...)",
        )


def check_tumbles(window: exp.Window, select: exp.Select) -> None:
    """Refuse a call over the tuples of a window that does not tumble: a tuple has several of these, or none."""
    from_ = select.args.get("from_")
    if from_ is None or select.args.get("joins") or select.args.get("group"):
        return
    clause = window_of(from_.this)
    if clause is not None and not (isinstance(clause, RangeClause) and clause.is_tumbling):
        raise NotSupported(
            f"{function_of(window).upper()} OVER needs a tumbling window",
            span=clause.span,
            hint=f"write [RANGE 1 MINUTE]; for windows that overlap FROM TABLE(HOP(TABLE {from_.this.name or 's'}, "
            "DESCRIPTOR(at), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)) and PARTITION BY window_start, window_end",
        )
