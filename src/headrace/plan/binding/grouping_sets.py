"""GROUPING SETS, ROLLUP and CUBE: each tuple is taken once for each set, and the keys that a set leaves out are NULL.

    SELECT a, sum(x) ... GROUP BY ROLLUP(a)   is   SELECT CASE WHEN id & 1 = 0 THEN a END AS a, sum(x)
                                                   ... LATERAL VIEW explode(array(0, 1)) sets AS id
                                                   GROUP BY id, CASE WHEN id & 1 = 0 THEN a END

The id has a bit for each key, the first key's the highest, which is set where the key is left out, as in Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import TypeAlias

from sqlglot import exp

from headrace.errors import NotSupported, SyntaxFault, TypeFault
from headrace.plan.binding.span import place

_Keys: TypeAlias = tuple[exp.Expr, ...]
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_RELATION, _ID = "grouping sets", "grouping id"
#: How many sets a GROUP BY may have: each tuple is taken as often.
_MOST = 64


def expand_grouping_sets(
    select: exp.Select,
    is_aggregate: Callable[[exp.Expr], bool],
    name_of: Callable[[exp.Expr], str],
    is_column: Callable[[str], bool],
) -> exp.Select:
    """Return a SELECT whose GROUP BY names plain keys; a name that is a column of FROM is that column."""
    group = select.args.get("group")
    if group is None or not (
        any(isinstance(item, _SETS) for item in group.expressions) or group.args.get("rollup") or group.args.get("cube")
    ):
        return select
    sets = _sets(group, select, is_column)
    keys = list(dict.fromkeys(key for chosen in sets for key in chosen))
    bits = {key: 1 << (len(keys) - 1 - place_) for place_, key in enumerate(keys)}
    ids = [sum(bit for key, bit in bits.items() if key not in chosen) for chosen in sets]
    if len(set(ids)) < len(ids):
        raise NotSupported("a set is named twice in GROUP BY", span=place(group), hint="name each set once")
    if len(ids) > _MOST:
        raise NotSupported(f"GROUP BY has {len(ids)} sets; at most {_MOST} are allowed", span=place(group))
    shown = {key: key if all(key in chosen for chosen in sets) else _unless(bits[key], key) for key in keys}
    expanded = select.copy()
    change = _Change(shown, bits, is_aggregate)
    items = []
    for item in expanded.expressions:
        if isinstance(item, exp.Alias):
            items.append(exp.alias_(change(item.this), item.args["alias"].copy()))
        else:
            items.append(item if item.is_star else exp.alias_(change(item), name_of(item), quoted=True))
    expanded.set("expressions", items)
    having = expanded.args.get("having")
    if having is not None:
        having.set("this", change(having.this))
    expanded.set("group", exp.Group(expressions=[_id(), *(key.copy() for key in shown.values())]))
    alias = exp.TableAlias(this=_quoted(_RELATION), columns=[_quoted(_ID)])
    numbers = exp.Array(expressions=[exp.Literal.number(number) for number in ids])
    lateral = exp.Lateral(this=exp.Anonymous(this="explode", expressions=[numbers]), view=True, alias=alias)
    expanded.set("laterals", [*(expanded.args.get("laterals") or []), lateral])
    return expanded


class _Change:
    """Replaces keys outside aggregates by what is shown of them, and grouping(key) by whether it is left out."""

    def __init__(
        self, shown: dict[exp.Expr, exp.Expr], bits: dict[exp.Expr, int], is_aggregate: Callable[[exp.Expr], bool]
    ) -> None:
        self._shown, self._bits, self._is_aggregate = shown, bits, is_aggregate

    def __call__(self, node: exp.Expr) -> exp.Expr:
        if node in self._shown:
            return self._shown[node].copy()
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if name == "grouping":
            bit = self._bits.get(node.expressions[0]) if len(node.expressions) == 1 else None
            if bit is None:
                raise TypeFault("grouping takes a key of GROUP BY", span=place(node))
            return _is_left_out(bit)
        if name == "grouping_id":
            if not node.expressions or node.expressions == list(self._bits):
                return _id()
            unknown = [key for key in node.expressions if key not in self._bits]
            if unknown:
                raise TypeFault("grouping_id takes keys of GROUP BY", span=place(unknown[0]) or place(node))
            result: exp.Expr = exp.Literal.number(0)
            for key in node.expressions:
                doubled = exp.Mul(this=exp.Paren(this=result), expression=exp.Literal.number(2))
                result = exp.Add(this=doubled, expression=_is_left_out(self._bits[key]))
            return exp.Paren(this=result)
        if self._is_aggregate(node.this if isinstance(node, exp.Filter) else node):
            return node.copy()  # it sees the keys as they are, its FILTER too
        made = node.copy()
        for child in list(made.iter_expressions()):
            child.replace(self(child))
        return made


def _is_left_out(bit: int) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=_has(bit), true=exp.Literal.number(0))], default=exp.Literal.number(1))


def _sets(group: exp.Group, select: exp.Select, is_column: Callable[[str], bool]) -> list[_Keys]:
    if group.args.get("rollup") or group.args.get("cube"):
        kind = exp.Rollup if group.args.get("rollup") else exp.Cube
        parts = [_of(kind(expressions=group.expressions), select, is_column)]
    else:
        parts = [_of(item, select, is_column) for item in group.expressions]
    return [tuple(dict.fromkeys(key for part in chosen for key in part)) for chosen in product(*parts)]


def _of(item: exp.Expr, select: exp.Select, is_column: Callable[[str], bool]) -> list[_Keys]:
    """Return the sets of one item of GROUP BY."""
    is_short = isinstance(item, exp.Rollup | exp.Cube)
    keys = [_keys(part, select, is_column) for part in item.expressions] if is_short else []
    match item:
        case exp.Rollup():
            return [_flat(keys[:count]) for count in range(len(keys), -1, -1)]
        case exp.Cube():
            return [_flat(some) for count in range(len(keys), -1, -1) for some in combinations(keys, count)]
        case exp.GroupingSets():
            return [
                chosen
                for part in item.expressions
                for chosen in (
                    _of(part, select, is_column) if isinstance(part, _SETS) else [_keys(part, select, is_column)]
                )
            ]
        case _:
            return [_keys(item, select, is_column)]


def _keys(item: exp.Expr, select: exp.Select, is_column: Callable[[str], bool]) -> _Keys:
    parts = item.expressions if isinstance(item, exp.Tuple) else [item.this if isinstance(item, exp.Paren) else item]
    return tuple(_written(part, select, is_column) for part in parts)


def _written(key: exp.Expr, select: exp.Select, is_column: Callable[[str], bool]) -> exp.Expr:
    """Return the expression that a place in SELECT, or a name that SELECT gives, stands for."""
    if isinstance(key, exp.Literal) and not key.is_string:
        at = int(key.name) if key.name.isdigit() else 0
        if not 1 <= at <= len(select.expressions):
            raise SyntaxFault(f"GROUP BY {key.name}: SELECT has no column {key.name}", span=place(key))
        chosen: exp.Expr = select.expressions[at - 1].unalias()
        return chosen
    aliases: dict[str, exp.Expr] = {
        item.alias.lower(): item.this for item in select.expressions if isinstance(item, exp.Alias)
    }
    given = aliases.get(key.name.lower()) if isinstance(key, exp.Column) and not key.table else None
    return key if given is None or given == key or is_column(key.name) else given


def _flat(parts: Iterable[Sequence[exp.Expr]]) -> _Keys:
    return tuple(key for part in parts for key in part)


def _unless(bit: int, key: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=_has(bit), true=key.copy())])


def _has(bit: int) -> exp.Expr:
    """Return the condition that a set has the key of this bit."""
    return exp.EQ(
        this=exp.Paren(this=exp.BitwiseAnd(this=_id(), expression=exp.Literal.number(bit))),
        expression=exp.Literal.number(0),
    )


def _id() -> exp.Expr:
    return exp.Column(this=_quoted(_ID), table=_quoted(_RELATION))


def _quoted(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)
