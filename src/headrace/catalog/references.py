"""The names that a SELECT mentions, found in its text alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.language.parser import parse
from headrace.language.syntax.clauses import RowsClause, WhileClause, pace_of, unions_of, window_of
from headrace.language.syntax.statements import CreateQuery, Detection, Insert, Select, Statement


@dataclass(frozen=True, slots=True)
class References:
    """The relations and functions that a SELECT names, in lower case, without those of its own WITH clause.

    `is_paced`: a UNION in it has WITH PACE.
    """

    relations: frozenset[str]
    functions: frozenset[str]
    is_paced: bool = False


#: By text, the oldest first.
_known: dict[str, References] = {}
_MOST_KNOWN = 4096


def references(text: str) -> References:
    """Find the streams, tables, queries and functions that a SELECT mentions."""
    return _known[text] if text in _known else _keep(text, references_in(parse(text)))


def learn_references(text: str, select: exp.Expr) -> None:
    """Find what a SELECT mentions that is parsed already: a list of thousands of values takes a second to parse."""
    if text not in _known:
        _keep(text, _mentioned(list(_trees(select)), frozenset()))


def _keep(text: str, mentioned: References) -> References:
    if len(_known) >= _MOST_KNOWN:
        _known.pop(next(iter(_known)), None)
    _known[text] = mentioned
    return mentioned


def references_of(select: exp.Expr) -> References:
    """Find what a SELECT that is parsed mentions."""
    return _mentioned(list(_trees(select)), frozenset())


def references_in(statements: Sequence[Statement]) -> References:
    """Find what statements mention."""
    trees = [
        part
        for statement in statements
        if isinstance(statement, Select | CreateQuery | Insert)
        for part in _trees(statement.select)
    ]
    parts = [part for statement in statements if isinstance(statement, Detection) for part in statement.parts]
    trees += [tree for part in parts if part.select is not None for tree in _trees(part.select)]
    detected = {part.source.text.lower() for part in parts if part.select is None}
    return _mentioned(trees, frozenset(detected))


def _mentioned(trees: Sequence[exp.Expr], detected: frozenset[str]) -> References:
    own = {cte.alias.lower() for tree in trees for cte in tree.find_all(exp.CTE)}
    nodes = [node for tree in trees for node in tree.walk()]
    named = {".".join(part.name for part in node.parts).lower() for node in nodes if isinstance(node, exp.Table)}
    called = {node.name.lower() for node in nodes if isinstance(node, exp.Anonymous)}
    return References(
        frozenset((named - own) | detected), frozenset(called), any(pace_of(node) is not None for node in nodes)
    )


def _trees(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Return the tree and those that hang on its FROM items: further items of a union, expressions of windows."""
    yield tree
    for item in tree.find_all(exp.Table, exp.Subquery):
        for further in unions_of(item):
            yield from _trees(further)
        match window_of(item):
            case WhileClause(predicate=predicate, by=by):
                yield from (predicate, *by)
            case RowsClause(by=by):
                yield from by
            case _:
                pass
