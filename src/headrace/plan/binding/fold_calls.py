"""How a call runs an aggregate that is written in SQL.

Functions that steps do not know are applied to the arguments on columns before the steps run. Where every column of
the state is a sum, a count, a minimum or a maximum, nothing runs tuple by tuple: the call becomes an expression over
the built-in aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.model.expressions.expression import (
    Call,
    Case,
    Cast,
    Column,
    Expr,
    Literal,
    conjunction,
    rebuilt,
    substitute,
    walk,
)
from headrace.model.fold import (
    Fold,
    FoldDelete,
    FoldExists,
    FoldInsert,
    FoldReturn,
    FoldStep,
    FoldUpdate,
)
from headrace.model.types import DataType, Type
from headrace.plan.binding.expressions.coerce import coerce
from headrace.plan.binding.fold import in_steps, reads_state

#: Makes a column of a built-in aggregate.
Builtin = Callable[[str, Expr, DataType], Expr]


def hoisted(fold: Fold, args: Mapping[str, Expr]) -> tuple[Fold, tuple[Expr, ...]]:
    """Return the body over numbered arguments, and what these are: all that can be computed before the steps."""
    exprs: dict[Expr, int] = {}

    def lift(expr: Expr) -> Expr:
        if isinstance(expr, Literal):
            return expr
        if not isinstance(expr, Column) and all(map(in_steps, walk(expr))):
            return rebuilt(expr, lift)
        if reads_state(expr):
            return rebuilt(expr, lift)
        return Column(f".{exprs.setdefault(substitute(expr, args), len(exprs))}", expr.type)

    def maybe(expr: Expr | None) -> Expr | None:
        return None if expr is None else lift(expr)

    def step(old: FoldStep) -> FoldStep:
        exists = tuple(FoldExists(term.table, maybe(term.where), term.negated) for term in old.exists)
        match old:
            case FoldInsert(table=table, values=values, source=source, where=where):
                return FoldInsert(table, tuple(map(lift, values)), source, maybe(where), exists)
            case FoldUpdate(table=table, sets=sets, where=where):
                return FoldUpdate(table, tuple((name, lift(value)) for name, value in sets), maybe(where), exists)
            case FoldDelete(table=table, where=where):
                return FoldDelete(table, maybe(where), exists)
            case FoldReturn(value=value, source=source, where=where):
                return FoldReturn(lift(value), source, maybe(where), exists)

    phases = (fold.initialize, fold.iterate, fold.terminate)
    first, each, last = (tuple(map(step, phase)) for phase in phases)
    return Fold(fold.name, fold.tables, first, each, last), tuple(exprs)


def compiled(fold: Fold, args: Mapping[str, Expr], condition: Expr | None, builtin: Builtin) -> Expr | None:
    """Return the value as an expression over built-in aggregates; None if the steps need the order of tuples."""
    steps = tuple(phase[0] for phase in (fold.initialize, fold.iterate, fold.terminate) if len(phase) == 1)
    if len(steps) != 3 or len(fold.tables) != 1 or any(step.where is not None or step.exists for step in steps):
        return None
    first, each, last = steps
    if not (isinstance(first, FoldInsert) and isinstance(each, FoldUpdate) and isinstance(last, FoldReturn)):
        return None
    if first.source or not last.source:
        return None
    table, sets = fold.tables[0], dict(each.sets)
    columns: dict[str, Expr] = {}
    for field, start in zip(table.fields, first.values, strict=True):
        name = f"{table.name}.{field.name}"
        kind = None if field.name not in sets else _kind(sets[field.name], Column(name, field.type), start)
        if kind is None:
            return None
        function, value = kind
        columns[name] = builtin(function, _if_present(substitute(value, args), args, condition), field.type)
    nothing = _is_null(next(iter(columns.values())))  # no tuple without NULL among arguments
    return Case(((nothing, Literal(None, last.value.type)),), substitute(last.value, columns), last.value.type)


def present(args: Mapping[str, Expr], condition: Expr | None = None) -> Expr | None:
    """Return the condition that no argument is NULL, and another one; None if that is always so."""
    terms = [Call("not", (_is_null(arg),), Type.BOOLEAN) for arg in args.values() if not isinstance(arg, Literal)]
    return conjunction((*terms, *(() if condition is None else (condition,))))


def _if_present(value: Expr, args: Mapping[str, Expr], condition: Expr | None) -> Expr:
    """Return a value that is NULL for tuples that do not count; a built-in aggregate leaves these out."""
    read = {part for part in walk(value) if isinstance(part, Column)}
    silent = {name: arg for name, arg in args.items() if not (isinstance(arg, Column) and arg in read)}
    counts = present(silent, condition)
    return value if counts is None else Case(((counts, value),), None, value.type)


def _is_null(expr: Expr) -> Expr:
    return Call("is_null", (expr,), Type.BOOLEAN)


def _kind(value: Expr, column: Column, start: Expr) -> tuple[str, Expr] | None:
    """Return the built-in aggregate that a column is, and of what; each tuple must be taken as the first is."""
    if not isinstance(value, Call) or len(value.args) != 2 or column not in value.args:
        return None
    other = value.args[1] if value.args[0] == column else value.args[0]
    if reads_state(other) or not _is_known(start) or coerce(other, column.type) != start:
        return None
    match value.function:
        case "+" if column.type in (Type.BIGINT, Type.DOUBLE):
            return ("sum", start)
        case "greatest":
            return ("max", start)
        case "least":
            return ("min", start)
        case _:
            return None


def _is_known(expr: Expr) -> bool:
    """Return whether an expression over arguments that are not NULL is not NULL."""
    match expr:
        case Column():
            return True
        case Literal(value=value):
            return value is not None
        case Call(function="+" | "-" | "*" | "neg" | "abs" | "=" | "<" | ">" | "<=" | ">=" | "<>", args=args):
            return all(map(_is_known, args))
        case Cast(arg=arg, type=type_):
            return (
                type_ in (Type.BIGINT, Type.DOUBLE)
                and arg.type.is_numeric
                and _is_known(arg)
                and (type_ is Type.DOUBLE or arg.type.is_integer)
            )
        case Case(branches=branches, default=default):
            return default is not None and all(_is_known(then) for _, then in branches) and _is_known(default)
        case _:
            return False
