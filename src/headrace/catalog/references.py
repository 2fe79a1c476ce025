"""Which names a SELECT mentions, found in its text alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from sqlglot import exp

from headrace.language.parser import parse
from headrace.language.syntax import CreateQuery, Select, WhileClause, unions_of, window_of


@lru_cache(maxsize=4096)
def references(text: str) -> frozenset[str]:
    """The lower-case names of the relations and functions that a SELECT mentions; names of its own WITH clause do not count."""
    return frozenset(name for statement in parse(text) if isinstance(statement, Select | CreateQuery) for name in _mentioned(statement.select))


def _mentioned(tree: exp.Expr) -> Iterator[str]:
    own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for node in tree.walk():
        if isinstance(node, exp.Anonymous):
            yield node.name.lower()
        if isinstance(node, exp.Table):
            name = ".".join(part.name for part in node.parts).lower()
            if name not in own:
                yield name
        for further in unions_of(node) if isinstance(node, exp.Table | exp.Subquery) else ():
            yield from _mentioned(further)
        window = window_of(node) if isinstance(node, exp.Table | exp.Subquery) else None
        if isinstance(window, WhileClause):
            yield from _mentioned(window.predicate)
