"""The order in which a table by key must get the rows of a key: that of time, however micro-batches are cut."""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.expressions.expression import Column
from headrace.model.window import Cumulative, Landmark, Range, Session
from headrace.plan import nodes
from headrace.plan.nodes import Node


def in_key_order(plan: Node, key: frozenset[str], is_in_order: Callable[[str], bool]) -> Node:
    """Return a plan whose results come in the order of time among those that agree in `key`.

    `is_in_order` says so of the tuples of a stream.
    """
    if _comes_in_order(plan, key, is_in_order):
        return plan
    by = tuple(Column(field.name, field.type) for field in plan.schema if field.name in key)
    return nodes.Order(plan, by=by)


def _comes_in_order(node: Node, key: frozenset[str], is_in_order: Callable[[str], bool]) -> bool:
    match node:
        case nodes.Scan(name=name):
            return is_in_order(name)
        case nodes.Order() | nodes.Limit():
            return True
        case nodes.Changes(keys=groups, columns=columns):  # those of a group come in order
            told = {expr.name for name, expr in columns if name in key and isinstance(expr, Column)}
            return {name for name, _ in groups} <= told
        case nodes.Join(change=change, keys=pairs) if change:
            renamed = dict(zip(node.right.schema.names, node.right_names, strict=True))
            return bool(pairs) and all(
                (isinstance(left, Column) and left.name in key)
                or (isinstance(right, Column) and renamed.get(right.name) in key)
                for left, right in pairs
            )
        case nodes.Project(input=below, columns=columns):
            shown = frozenset(expr.name for name, expr in columns if name in key and isinstance(expr, Column))
            return _comes_in_order(below, shown, is_in_order)
        case nodes.Filter(input=below) | nodes.TableJoin(input=below) | nodes.Membership(input=below):
            return _comes_in_order(below, key, is_in_order)
        case nodes.Aggregate(keys=groups, window=Range() | Landmark() | Cumulative() | Session()):
            return {name for name, _ in groups} <= key  # the results of a group come when its windows close
        case _:
            return False
