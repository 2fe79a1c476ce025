"""LEFT SEMI and LEFT ANTI joins, written as EXISTS and NOT EXISTS."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import SyntaxFault
from headrace.plan.binding.span import place


def is_semi_join(join: exp.Expr) -> bool:
    """Return whether a join is LEFT SEMI or LEFT ANTI."""
    return isinstance(join, exp.Join) and _kind(join) in ("SEMI", "ANTI")


def exists_of(join: exp.Join, first: exp.Expr) -> exp.Expr:
    """Return the condition that a semi join is; `first` is the item before it."""
    condition = join.args.get("on") or _equal(first, join)
    if condition is None:
        raise SyntaxFault(
            f"LEFT {_kind(join)} JOIN needs ON",
            span=place(join.this.this),
            hint=f"write LEFT {_kind(join)} JOIN b ON a.id = b.id",
        )
    inner = exp.Select(expressions=[exp.Star()], from_=exp.From(this=join.this), where=exp.Where(this=condition))
    exists = exp.Exists(this=inner)
    return exists if _kind(join) == "SEMI" else exp.Not(this=exists)


def _kind(join: exp.Join) -> str:
    return str(join.args.get("kind") or "").upper()


def _equal(first: exp.Expr, join: exp.Join) -> exp.Expr | None:
    """Return the condition that USING (id, ...) stands for; None without it, or if an item has no name."""
    sides = [item.args["alias"].this if item.args.get("alias") else item.this for item in (first, join.this)]
    names = join.args.get("using") or []
    if not names or not all(isinstance(side, exp.Identifier) for side in sides):
        return None
    pairs = [[exp.Column(this=name.copy(), table=side.copy()) for side in sides] for name in names]
    return exp.and_(*(exp.EQ(this=left, expression=right) for left, right in pairs), copy=False)
