"""Reads aggregates with WITHIN GROUP (ORDER BY x) or IGNORE NULLS as those that take an argument more."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from headrace.errors import NotSupported, Span

_ENDS = ("first", "last", "first_value", "last_value", "any_value")
#: Aggregates that leave NULL out anyway.
_WITHOUT_NULL = ("listagg", "string_agg", "group_concat", "array_agg", "collect_list", "collect_set", "list")
_HINT = "write percentile_cont(0.9) WITHIN GROUP (ORDER BY x), percentile(x, 0.9) or mode(x)"
#: Aggregates whose values may have an order.
_LISTS = ("listagg", "string_agg", "group_concat", "array_agg", "collect_list", "collect_set", "list", *_ENDS)


def without_within_group(tree: exp.Expr) -> None:
    """Write percentile_cont(p) WITHIN GROUP (ORDER BY x) as percentile_cont(x, p), and mode() likewise."""
    for node in list(tree.find_all(exp.WithinGroup)):
        call, terms = node.this, node.expression.expressions
        name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
        if name in _LISTS and call.expressions:
            call.expressions[-1].replace(exp.Order(this=call.expressions[-1].copy(), expressions=terms))
            node.replace(call)
            continue
        fractions = call.expressions if name else []
        if (name, len(fractions)) not in (("percentile_cont", 1), ("percentile_disc", 1), ("mode", 0)) or len(
            terms
        ) != 1:
            raise NotSupported(
                f"{name or 'this function'} cannot have WITHIN GROUP in this form",
                span=_place(node),
                hint=_HINT,
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
        outer = node.parent
        while isinstance(outer, exp.Order | exp.Limit):  # first(x IGNORE NULLS ORDER BY y)
            outer = outer.parent
        call = outer if isinstance(outer, exp.Anonymous) else node.this
        if isinstance(call, exp.Anonymous) and call.name.lower() in _WITHOUT_NULL and isinstance(node, exp.IgnoreNulls):
            node.replace(node.this)
            continue
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
