"""Which columns of a plan's results say what happened to a row, and whether each delete fits what was inserted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.model.changelog import CHANGE, INSERT
from headrace.model.expressions.expression import Column, Expr, Literal, columns
from headrace.model.types import Type
from headrace.plan import nodes
from headrace.plan.nodes import Node, inputs
from headrace.plan.traversal import walk

#: What the column is called beside another column `change`.
_RENAMED = re.compile(rf"{CHANGE}_\d+")


def hidden_change(plan: Node) -> str | None:
    """Return the column that says what happened to a row if another column has the name by which sinks know it."""
    changes = _changes(plan)
    others = [name for name in plan.schema.names if name.lower() == CHANGE and name not in changes]
    return min(changes) if changes and CHANGE not in changes and others else None


def separation(plan: Node) -> str | None:
    """Return what leaves out or repeats changes of a changelog, so that the rest gives another table; None if nothing.

    The first changes of a changelog are one, too: LIMIT separates nothing.
    """
    if not _changes(plan):
        return None
    match plan:
        case nodes.Changes():
            return None
        case nodes.Join(change=change) if change:
            return None
        case nodes.Join() | nodes.MultiJoin() | nodes.SequenceJoin():
            return "a JOIN with a stream"
        case nodes.Distinct(span=span) if span:
            return "DISTINCT over a window"
        case nodes.Deduplicate():
            return "ROW_NUMBER() ... = 1"
        case nodes.Filter(input=below) if _is_ranked(below):
            return "a condition on OVER (...)"
        case nodes.Suppress():
            return "RSUPPRESS or TSUPPRESS"
        case _:
            return next((found for child in inputs(plan) if (found := separation(child)) is not None), None)


def _is_ranked(node: Node) -> bool:
    """Return whether changes have columns that depend on other changes."""
    match node:
        case nodes.Rank() | nodes.Over() | nodes.WindowOver():
            return bool(_changes(node))
        case nodes.Project(input=below) | nodes.Filter(input=below):
            return _is_ranked(below)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Unsteady:
    """What a changelog takes from a table whose rows change between an insert and its delete.

    `lost` is the table for want of whose rows a delete may be missing. `columns` maps columns that may have another
    value in a delete than in its insert to the table.
    """

    lost: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def of(self, read: Iterable[str]) -> str | None:
        """Return the table that one of some columns depends on."""
        return min((self.columns[name] for name in read if name in self.columns), default=None)


def unsteady(plan: Node, is_read_again: Callable[[str], bool]) -> Unsteady:
    """Return what the changes of a plan take from tables that are read again, or that a stream feeds.

    A plan whose results do not say what happened to a row gives no changelog: nothing of it counts.
    """
    return _unsteady(plan, is_read_again) if _changes(plan) else Unsteady()


def _unsteady(node: Node, is_read_again: Callable[[str], bool]) -> Unsteady:
    below = tuple(unsteady(child, is_read_again) for child in inputs(node))
    lost = next((child.lost for child in below if child.lost is not None), None)
    taken = {name: table for child in below for name, table in child.columns.items()}
    found = Unsteady(lost, taken)
    match node:
        case nodes.Changes():
            return Unsteady()  # a tuple is joined once, and counted in a group
        case nodes.Join(change=change) if change:
            return Unsteady()
        case nodes.TableJoin(table=table) if _changes(node.input) and is_read_again(table):
            if node.kind == "inner":
                return Unsteady(lost or table, taken)
            return Unsteady(lost, taken | dict.fromkeys(node.table_names, table))
        case nodes.Membership(table=table, name=name) if _changes(node.input) and is_read_again(table):
            return Unsteady(lost, taken | {name: table})
        case nodes.Impute(archive=nodes.StoredArchive(table=table), name=name) if _changes(node.input):
            return Unsteady(lost, taken | ({name: table} if is_read_again(table) else {}))
        case nodes.SequenceJoin(left=fed, right=probe, mode="recent", inclusive=True, span=None) if _changes(probe):
            table = f"the table that {next(part.name for part in walk(fed) if isinstance(part, nodes.Scan))} feeds"
            if not node.padded:
                return Unsteady(lost or table, taken)
            return Unsteady(lost, taken | dict.fromkeys(fed.schema.names, table))
        case nodes.Filter(predicate=predicate):
            return Unsteady(lost or found.of(columns(predicate)), taken)
        case nodes.Project(columns=shown):
            read = ((name, found.of(columns(expr))) for name, expr in shown)
            return Unsteady(lost, {name: table for name, table in read if table is not None})
        case nodes.Unnest(of=of, names=names):
            cause = found.of(columns(of))
            return Unsteady(lost or cause, taken | (dict.fromkeys(names, cause) if cause is not None else {}))
        case _:
            return found


def _changes(node: Node) -> frozenset[str]:
    match node:
        case nodes.Changes(change=change):
            return frozenset({change})
        case nodes.Project(input=below, columns=columns):
            told = _changes(below)
            return frozenset(name for name, expr in columns if _tells(name, expr, told))
        case nodes.Join(change=change) if change:
            return frozenset({change})
        case nodes.Aggregate() | nodes.MatchRows() | nodes.Detect():  # rows of their own
            return frozenset()
        case _:
            return frozenset().union(*map(_changes, inputs(node))) & frozenset(node.schema.names)


def _tells(name: str, expr: Expr, told: frozenset[str]) -> bool:
    match expr:
        case Column(name=read):
            return read in told
        case Literal():  # of an inner join, which only inserts
            return expr == Literal(INSERT, Type.STRING) and _RENAMED.fullmatch(name) is not None
        case _:
            return False
