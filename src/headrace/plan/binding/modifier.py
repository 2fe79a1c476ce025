"""Stream modifiers as expressions over two tuples, an old and a new one.

With old and new values o and n and a pseudo value p:

    DIFF   n - o
    RDIFF  (n - o + p) / (n + p)
    SLOPE  (n1 - o1 + p) / (n2 - o2 + p)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import NotSupported, TypeFault
from headrace.language.syntax.modifiers import ModifierClause, Profile, modifier_of, suppress_of
from headrace.model.expressions.expression import Expr, Literal
from headrace.model.types import DataType, Type
from headrace.plan.binding.expressions.function import apply
from headrace.plan.binding.span import place

_WHERE_HINT = "use it in SELECT or HAVING; to go on with it, put that into a sub-query"


@dataclass(frozen=True, slots=True)
class Modifiers:
    """The common part of the modifiers of a SELECT: kind, partition, and the tuple that other columns come from."""

    of_window: bool
    partition: tuple[exp.Expr, ...]
    profile: Profile


def modifiers_of(select: exp.Select) -> Modifiers | None:
    """Return the modifiers in SELECT and HAVING; None if there are none."""
    calls = list(_calls(select))
    if not calls:
        return None
    first, partition = calls[0]
    profile: Profile | None = None
    for clause, by in calls:
        if clause.is_of_window != first.is_of_window:
            raise NotSupported(
                "DIFF, RDIFF and SLOPE cannot be mixed with WDIFF, WRDIFF and WSLOPE",
                span=clause.span,
                hint="write two queries",
            )
        if [expression.sql() for expression in by] != [expression.sql() for expression in partition]:
            raise NotSupported(
                "all modifiers of a SELECT need the same PARTITION BY", span=clause.span, hint="write two queries"
            )
        if profile is not None and clause.profile not in (None, profile):
            raise NotSupported(
                "the modifiers of a SELECT must all be OLD or all be NEW",
                span=clause.span,
                hint="choose one, and write OLD(x) or NEW(x) for columns of the other tuple",
            )
        profile = clause.profile or profile
    return Modifiers(first.is_of_window, partition, profile or "new")


def change(clause: ModifierClause, pairs: Sequence[tuple[Expr, Expr]]) -> Expr:
    """Return the formula over (old, new) of each argument."""

    def calm(expr: Expr) -> Expr:
        if clause.pseudo is None:
            return expr
        pseudo = Literal(clause.pseudo, Type.DOUBLE if isinstance(clause.pseudo, float) else Type.BIGINT)
        return apply("+", (expr, pseudo), clause.span)

    _check_types(clause, [new.type for _, new in pairs])
    differences = [apply("-", (new, old), clause.span) for old, new in pairs]
    match clause.kind:
        case "diff" | "wdiff":
            return differences[0]
        case "rdiff" | "wrdiff":
            return apply("/", (calm(differences[0]), calm(pairs[0][1])), clause.span)
        case "slope" | "wslope":
            return apply("/", (calm(differences[0]), calm(differences[1])), clause.span)


def _check_types(clause: ModifierClause, types: Sequence[DataType]) -> None:
    times = (Type.TIMESTAMP, Type.DATE) if clause.kind in ("diff", "wdiff") else ()
    for type_ in types:
        if not (type_.is_numeric or type_ is Type.NULL or type_ in times):
            hint = (
                "convert it to a number, such as unix_seconds(at)"
                if type_ in (Type.TIMESTAMP, Type.DATE)
                else "write a column of numbers"
            )
            raise TypeFault(f"{clause.kind.upper()} cannot take {type_.value}", span=clause.span, hint=hint)


def profile_of(node: exp.Expr) -> Profile | None:
    """Return which tuple OLD(x) or NEW(x) takes its argument from; None if the node is neither."""
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1:
        return None
    match node.name.upper():
        case "OLD":
            return "old"
        case "NEW":
            return "new"
        case _:
            return None


def refuse_modifier(node: exp.Expr, where: str) -> None:
    """Say that a modifier cannot stand here, if the node is one."""
    inner = node.this if isinstance(node, exp.Window) else node
    clause = modifier_of(inner) or suppress_of(inner)
    if isinstance(clause, ModifierClause):
        raise NotSupported(f"{clause.kind.upper()} is not allowed {where}", span=clause.span, hint=_WHERE_HINT)
    if clause is not None:
        raise NotSupported(
            f"{clause.name} is allowed only in HAVING",
            span=clause.span,
            hint=f"write HAVING {clause.name}(...), or AND it there",
        )
    if profile_of(node) is not None:
        raise NotSupported(
            f"{node.name.upper()} needs a modifier such as DIFF(x) in the same SELECT",
            span=place(node),
            hint="a single tuple has no older one to compare with",
        )


def _calls(select: exp.Select) -> Iterator[tuple[ModifierClause, tuple[exp.Expr, ...]]]:
    """Return each modifier with the expressions of its PARTITION BY."""
    having = select.args.get("having")
    for item in (*select.expressions, *([] if having is None else [having.this])):
        for node in item.walk(prune=lambda inner: isinstance(inner, exp.Query)):
            clause = modifier_of(node)
            if clause is None:
                continue
            over = node.parent if isinstance(node.parent, exp.Window) else None
            yield clause, () if over is None else _partition(over, clause)


def _partition(over: exp.Window, clause: ModifierClause) -> tuple[exp.Expr, ...]:
    if clause.is_of_window:
        hint = f"write a window and GROUP BY: {clause.kind.upper()}(x) FROM s [RANGE 1 MINUTE] GROUP BY id"
        raise NotSupported(f"{clause.kind.upper()} cannot have OVER", span=clause.span, hint=hint)
    if any(value for name, value in over.args.items() if name not in ("this", "partition_by", "over")):
        raise NotSupported(
            "OVER of a modifier can have only PARTITION BY; tuples are ordered by time",
            span=clause.span,
            hint="write OVER (PARTITION BY id)",
        )
    return tuple(over.args.get("partition_by") or ())
