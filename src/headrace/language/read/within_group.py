"""Reads aggregates with WITHIN GROUP (ORDER BY x) or IGNORE NULLS as those that take an argument more."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from headrace.errors import NotSupported, Span

_ENDS = ("first", "last", "first_value", "last_value", "any_value")
_HINT = "write percentile_cont(0.9) WITHIN GROUP (ORDER BY x), percentile(x, 0.9) or mode(x)"
_TEXTS_HINT = (
    "leave it out for the order of time; write array_join(array_sort(collect_list(x)), ',') for the order of the texts"
)


def without_within_group(tree: exp.Expr) -> None:
    """Write percentile_cont(p) WITHIN GROUP (ORDER BY x) as percentile_cont(x, p), and mode() likewise."""
    for node in list(tree.find_all(exp.WithinGroup)):
        call, terms = node.this, node.expression.expressions
        name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
        fractions = call.expressions if name else []
        if (name, len(fractions)) not in (("percentile_cont", 1), ("percentile_disc", 1), ("mode", 0)) or len(
            terms
        ) != 1:
            raise NotSupported(
                f"{name or 'this function'} cannot have WITHIN GROUP in this form",
                span=_place(node),
                hint=_TEXTS_HINT if name in ("listagg", "string_agg") else _HINT,
            )
        (term,) = terms
        if term.args.get("desc"):
            if name != "percentile_cont":
                raise NotSupported(
                    f"{name} cannot have ORDER BY ... DESC", span=_place(term), hint="write ORDER BY without DESC"
                )
            fractions = [_complement(fractions[0])]
        call.set("expressions", [term.this, *fractions])
        node.replace(call)


def without_ignore_nulls(tree: exp.Expr) -> None:
    """Write first(x) IGNORE NULLS, and first(x IGNORE NULLS), as first(x, true)."""
    for node in list(tree.find_all(exp.IgnoreNulls, exp.RespectNulls)):
        inside = isinstance(node.parent, exp.Anonymous)
        call = node.parent if inside else node.this
        if not isinstance(call, exp.Anonymous) or len(call.expressions) != 1 or call.name.lower() not in _ENDS:
            continue  # the binder says what is wrong
        if isinstance(node, exp.IgnoreNulls):
            call.append("expressions", exp.true())
        node.replace(node.this)


def _complement(fraction: exp.Expr) -> exp.Expr:
    """Return 1 - p, which is p counted from the other end."""
    if not isinstance(fraction, exp.Literal) or fraction.is_string:
        return fraction  # the binder asks for a number
    other = exp.Literal.number(str(1 - Decimal(fraction.name)))
    other.meta.update(fraction.meta)
    return other


def _place(node: exp.Expr) -> Span | None:
    places = [(part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta]
    return Span(min(start for start, _ in places), max(end for _, end in places)) if places else None
