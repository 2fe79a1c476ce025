"""LIMIT n and FETCH FIRST n ROWS ONLY: the first results of a query, in the order of time."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import NotSupported, SyntaxFault
from headrace.plan import nodes
from headrace.plan.binding.span import place
from headrace.plan.nodes import Node

_MOST = 2**63 - 1
_HINT = "write a whole number, such as LIMIT 10"


def limited(node: Node, tree: exp.Expr) -> Node:
    """Return the first results of a query, as many as its LIMIT says; all of them if it has none."""
    return nodes.Limit(node, count_of(tree)) if has_limit(tree) else node


def has_limit(tree: exp.Expr) -> bool:
    """Return whether a query ends with LIMIT or FETCH."""
    return tree.args.get("limit") is not None


def offset_of(tree: exp.Expr) -> int:
    """Return the number of rows that OFFSET of a query skips."""
    clause = tree.args.get("offset")
    if clause is None:
        return 0
    number = clause.expression
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        raise SyntaxFault("OFFSET takes a whole number, zero or more", span=place(clause), hint="write OFFSET 10")
    if int(number.name) > _MOST:
        raise SyntaxFault(f"OFFSET can be {_MOST} at most", span=place(clause), hint="leave OFFSET out")
    return int(number.name)


def count_of(tree: exp.Expr) -> int:
    """Return the number of rows that LIMIT or FETCH of a query names."""
    clause = tree.args["limit"]
    options = clause.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        what = "PERCENT" if options.args.get("percent") else "WITH TIES"
        raise NotSupported(
            f"{what} is not supported", span=place(clause), hint="write a number of rows, such as LIMIT 10"
        )
    if clause.expressions:
        raise NotSupported(
            "LIMIT ... BY is not supported",
            span=place(clause),
            hint="leave BY out; a window such as [PARTITION BY item ROWS 10] holds the newest tuples of each group",
        )
    number = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.expression
    if isinstance(clause, exp.Fetch):
        if options is None or not options.args.get("rows"):
            raise SyntaxFault(
                "FETCH lacks ROWS ONLY", span=place(clause), hint="write FETCH FIRST 10 ROWS ONLY, or LIMIT 10"
            )
        if number is None:
            return 1  # FETCH FIRST ROW ONLY
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        raise SyntaxFault("LIMIT takes a whole number, zero or more", span=place(clause), hint=_HINT)
    if int(number.name) > _MOST:
        raise SyntaxFault(f"LIMIT can be {_MOST} at most", span=place(clause), hint="leave LIMIT out")
    return int(number.name)
