"""Aggregates that are written as an expression of others."""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import TypeFault
from headrace.language.dialect import parse_expressions, tokenize
from headrace.plan.binding.span import place

#: By name: an expression over the pairs (y, x) of which neither is NULL.
COMPOSED = {
    "regr_count": "count({x})",
    "regr_avgx": "avg({x})",
    "regr_avgy": "avg({y})",
    "regr_sxx": "var_pop({x}) * count({x})",
    "regr_syy": "var_pop({y}) * count({y})",
    "regr_sxy": "covar_pop({y}, {x}) * count({x})",
    "regr_slope": "covar_pop({y}, {x}) / var_pop({x})",
    "regr_intercept": "avg({y}) - covar_pop({y}, {x}) / var_pop({x}) * avg({x})",
    "regr_r2": "CASE WHEN var_pop({x}) <> 0 AND var_pop({y}) = 0 THEN 1.0 ELSE pow(corr({y}, {x}), 2) END",
}


def call_of(node: exp.Expr) -> exp.Expr:
    """Return the call of an aggregate, without its FILTER."""
    call: exp.Expr = node.this if isinstance(node, exp.Filter) else node
    return call


def is_listed(call: exp.Expr) -> bool:
    """Return whether a percentile is asked for several fractions at once."""
    fractions = call.expressions[1]
    return isinstance(fractions, exp.Array) or (
        isinstance(fractions, exp.Anonymous) and fractions.name.lower() == "array"
    )


def composed(name: str, node: exp.Expr) -> exp.Expr:
    """Return what an aggregate stands for, with places in the text that the user wrote."""
    call = call_of(node)
    if name not in COMPOSED:
        parts = [_alone(call, fraction, node) for fraction in call.expressions[1].expressions]
        return exp.Array(expressions=parts)
    if len(call.expressions) != 2:
        raise TypeFault(
            f"{name} takes two arguments", span=place(call), hint=f"write {name}(y, x): y depends on x, as in a + b * x"
        )
    text = COMPOSED[name].format(y="$y", x="$x").replace("$", "arg_")
    (tree,) = parse_expressions(tokenize(text), text)
    both = _known_pairs(call, node)
    tree = exp.Paren(this=tree)
    for column in list(tree.find_all(exp.Column)):
        column.replace(both[column.name].copy())
    for part in tree.walk():
        part.meta.update(call.meta)
    return tree


def _alone(call: exp.Expr, fraction: exp.Expr, node: exp.Expr) -> exp.Expr:
    one = call.copy()
    one.expressions[1].replace(fraction.copy())
    return exp.Filter(this=one, expression=node.expression.copy()) if isinstance(node, exp.Filter) else one


def _known_pairs(call: exp.Expr, node: exp.Expr) -> dict[str, exp.Expr]:
    """Return y and x where both are known, and FILTER lets the row through."""
    y, x = call.expressions
    conditions = [exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())) for value in (y, x)]
    if isinstance(node, exp.Filter):
        conditions.append(node.expression.this.copy())
    condition = exp.and_(*conditions, copy=False)
    return {
        name: exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
        for name, value in (("arg_y", y), ("arg_x", x))
    }
