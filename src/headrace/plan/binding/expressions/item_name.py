"""What an item of a SELECT list is called."""

from __future__ import annotations

from sqlglot import exp

from headrace.language.syntax.clauses import impute_of


def item_name(node: exp.Expr) -> str:
    """Return the name of a column of which none is written."""
    match node:
        case exp.Column():
            return node.name
        case exp.Dot(expression=exp.Identifier() as name):
            return name.name
        case exp.Paren() | exp.Cast() | exp.Bracket():
            return item_name(node.this)
        case exp.Filter() | exp.Window():
            return item_name(node.this)
        case exp.Anonymous() if (clause := impute_of(node)) is not None:
            return item_name(clause.value)
        case exp.Anonymous():
            return node.name.lower()
        case exp.Extract():
            return node.name.lower()
        case exp.StrPosition():
            return "position"
        case exp.Func():
            return node.sql_name().lower()
        case _:
            return "expr"
