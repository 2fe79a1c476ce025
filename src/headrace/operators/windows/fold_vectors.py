"""Steps of aggregates that are written in SQL as functions on columns: many groups take a step together.

A table that always has one row is an array for each column, with a value for each group; any other is `FoldRows`. That
needs values that are numbers and never NULL. A TERMINATE that needs more is left to the code for single groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, columns
from headrace.model.expressions.expression import Literal as Constant
from headrace.model.fold import (
    Fold,
    FoldDelete,
    FoldExists,
    FoldInsert,
    FoldReturn,
    FoldStep,
    FoldTable,
    FoldUpdate,
)
from headrace.model.schema import Field
from headrace.model.types import DataType, Type
from headrace.operators.arrays import Array
from headrace.operators.windows.fold_code import FoldWriter
from headrace.operators.windows.fold_functions import MOST
from headrace.operators.windows.fold_rows import FoldRows

_Kind = Literal["whole", "real", "flag", "time"]
_SIGNS = {"=": "==", "<>": "!="}


@dataclass(frozen=True, slots=True)
class FoldVectors:
    """INITIALIZE and ITERATE on columns: tables and arguments of some groups; each returns the tables after it.

    What the aggregate returns goes to a list of `Returned`.
    """

    first: Callable[..., list[Any]]
    each: Callable[..., list[Any]]
    #: TERMINATE on columns, if that is possible.
    last: Callable[..., list[Any]] | None
    #: Of each table with any number of rows: its place among the tables, and how many rows a step may add.
    grows: Mapping[int, int]
    #: The number of the argument if the one column of the one table is the product of its values so far.
    product_of: int | None = None


class Returned(NamedTuple):
    """Values that groups return: their numbers, the values, and the limit beyond which a value is NULL."""

    groups: Array
    values: Array
    limit: int | None

    def without_first(self, groups: int) -> Returned:
        """Return what others than the first groups return."""
        others = self.groups >= groups
        return Returned(self.groups[others], self.values[others], self.limit)

    def plain(self) -> list[Any]:
        """Return the values."""
        values, limit = self.values.tolist(), self.limit
        if limit is None:
            return values  # type: ignore[no-any-return]
        return [value if -limit <= value < limit else None for value in values]


class _NotPossible(Exception):
    """The steps need single groups."""


@lru_cache(maxsize=64)
def vectors_of(fold: Fold, nulls: tuple[bool, ...]) -> FoldVectors | None:
    """Make the functions of a body; None if it needs single groups."""
    try:
        writer = _VectorWriter(fold, nulls)
        source = writer.source()
    except _NotPossible:
        return None
    names: dict[str, Any] = {**_HELPERS, **writer.constants}
    exec(compile(source, "<aggregate>", "exec"), names)  # our own text: users' names and constants are numbered
    return FoldVectors(names["first"], names["each"], names.get("last"), writer.grows(), _product_of(fold))


def _product_of(fold: Fold) -> int | None:
    """Return which argument a fold multiplies, if that is all it does: p = x at first, then p = p * x."""
    match fold.tables, fold.initialize, fold.iterate:
        case (
            (FoldTable(name=table, fields=(Field(name=column, type=Type.DOUBLE),)),),
            (FoldInsert(values=(Column(name=first, type=Type.DOUBLE),), source=""),),
            (FoldUpdate(sets=((_, Call(function="*", args=(Column(name=left), Column(name=right)))),), where=None),),
        ) if fold.has_one_row(table) and not fold.iterate[0].exists and first.startswith("."):
            return int(first[1:]) if {left, right} == {f"{table}.{column}", first} else None
    return None


class _VectorWriter(FoldWriter):
    """Writes the source of functions on columns; `n` is the number of groups, `t0` a table or a column of one."""

    def __init__(self, fold: Fold, nulls: tuple[bool, ...]) -> None:
        super().__init__(fold, nulls)
        self._many = [table.name for table in fold.tables if table.name not in self._single]
        self._of_rows = ""  # the table whose rows a condition or value is computed for
        self._names |= {
            f"{table}.{column.name}": f"{self._places[table]}.column({j}, n)"
            for table in self._many
            for j, column in enumerate(self._fields(table))
        }

    def source(self) -> str:
        """Return it; raises _NotPossible."""
        fold = self._fold
        if not fold.tables:
            raise _NotPossible
        args = "".join(f", a{i}" for i in range(len(self._nulls)))
        first, each = (list(self._lines(phase)) for phase in (fold.initialize, fold.iterate))
        last = self._last_lines()
        given = "".join(f", {name}={name}" for name in self.constants)
        empty = [
            f"{self._places[table]} = FoldRows(n, {_inserts(fold.initialize, table)}, {self._keeps[table]}, "
            f"[{', '.join(map(_dtype, self._types(table)))}])"
            for table in self._many
        ]
        unpack = f"{''.join(f'{slot}, ' for slot in self._slots)} = tables"
        lines = [
            f"def first(n, out{args}{given}):",
            *(f" {line}" for line in [*empty, *first]),
            f" return [{', '.join(self._slots)}]",
            f"def each(n, out, tables{args}{given}):",
            f" {unpack}",
            *(f" {line}" for line in each),
            f" return [{', '.join(self._slots)}]",
        ]
        if last is not None:
            lines += [f"def last(n, out, tables{given}):", f" {unpack}", *(f" {line}" for line in last)]
        return "\n".join(lines) + "\n"

    def _last_lines(self) -> list[str] | None:
        try:
            return list(self._lines(self._fold.terminate))
        except _NotPossible:
            self._of_rows = ""
            return None

    def grows(self) -> dict[int, int]:
        """Return how many rows a step may add to tables, by their place."""
        return {self._slots.index(self._places[table]): _inserts(self._fold.iterate, table) for table in self._many}

    def _lines(self, steps: Iterable[FoldStep]) -> Iterator[str]:
        for step in steps:
            match step:
                case FoldInsert(table=table, values=values) if table in self._single:
                    names = [f"{self._places[table]}_{j}" for j in range(len(values))]
                    yield f"{', '.join(names)}, = {', '.join(map(self._stored, self._types(table), values))},"
                case FoldInsert(table=table, values=values, source=source) if source not in self._many:
                    codes = [self._number(value, _kind(t)) for t, value in zip(self._types(table), values, strict=True)]
                    yield f"{self._places[table]}.add(n, {self._condition(step)}, {', '.join(codes)})"
                case FoldUpdate(table=table, sets=sets) if table in self._single:
                    types = self._types_by_name(table)
                    names = [self._names[f"{table}.{name}"] for name, _ in sets]
                    codes = [self._stored(types[name], value) for name, value in sets]
                    if step.where is not None or step.exists:
                        yield f"chosen = {self._condition(step)}"
                        codes = [f"where(chosen, {code}, {old})" for code, old in zip(codes, names, strict=True)]
                    yield f"{', '.join(names)}, = {', '.join(codes)},"
                case FoldUpdate(table=table, sets=sets):
                    types, self._of_rows = self._types_by_name(table), table
                    codes = [self._number(value, _kind(types[name])) for name, value in sets]
                    codes = [
                        code if isinstance(value, Call) else f"array({code})"
                        for code, (_, value) in zip(codes, sets, strict=True)
                    ]
                    yield f"chosen = {self._condition(step)}"
                    yield f"new = {', '.join(codes)},"
                    for i, (name, _) in enumerate(sets):
                        yield f"copyto({self._names[f'{table}.{name}']}, new[{i}], where=chosen)"
                    self._of_rows = ""
                case FoldDelete(table=table):
                    self._of_rows = table
                    yield f"{self._places[table]}.remove(n, {self._condition(step)})"
                    self._of_rows = ""
                case FoldReturn(value=value, source=source):
                    self._of_rows = source if source in self._many else ""
                    limit = None
                    if isinstance(value, Cast) and value.type is Type.INT and value.arg.type.is_integer:
                        value, limit = value.arg, 2**31
                    code = self._number(value, _kind(value.type))
                    yield f"give(out, n, {self._condition(step)}, {code}, {limit})"
                    self._of_rows = ""
                case _:
                    raise _NotPossible

    def _condition(self, step: FoldStep) -> str:
        """Return the code of the groups or rows that a step is for."""
        rows = self._of_rows
        terms = [f"{self._places[rows]}.held(n)"] if rows else []
        if step.where is not None:
            terms.append(self._flags(step.where))
        for exists in step.exists:
            self._of_rows = ""
            terms.append(self._exists(exists))
            self._of_rows = rows
        return " & ".join(terms) or "True"

    def _exists(self, exists: FoldExists) -> str:
        wanted = "~" if exists.negated else ""
        if exists.table in self._single:
            return f"spread({wanted}{'true' if exists.where is None else self._flags(exists.where)}, n, flag)"
        self._of_rows = exists.table
        terms = [f"{self._places[exists.table]}.held(n)"]
        if exists.where is not None:
            terms.append(self._flags(exists.where))
        self._of_rows = ""
        return f"({wanted}any_row({' & '.join(terms)}))"

    def _fields(self, table: str) -> Sequence[Field]:
        return next(each.fields for each in self._fold.tables if each.name == table)

    def _types(self, table: str) -> list[DataType]:
        return [column.type for column in self._fields(table)]

    def _types_by_name(self, table: str) -> dict[str, DataType]:
        return {column.name: column.type for column in self._fields(table)}

    def _stored(self, type_: DataType, value: Expr) -> str:
        """Return the code of a value for each group: an array of its own, which later steps do not change."""
        code = self._number(value, _kind(type_))
        is_new = isinstance(value, Call | Case) and bool(columns(value))
        return code if is_new else f"spread({code}, n, {_dtype(type_)})"

    def _flags(self, condition: Expr) -> str:
        return self._number(condition, "flag")

    def _number(self, expr: Expr, kind: _Kind, *, rounds: bool = False) -> str:
        """Return the code of an expression of a kind that is never NULL."""
        if self._may_be_null(expr):
            raise _NotPossible
        if kind == "real" and _kind(expr.type) == "whole" and (rounds or _is_small(expr)):
            return f"to_real({self._vector(expr, 'whole')})"
        if _kind(expr.type) != kind:
            raise _NotPossible
        return self._vector(expr, kind)

    def _vector(self, expr: Expr, kind: _Kind) -> str:
        match expr:
            case Column(name=name) if name.partition(".")[0] in self._many:
                if name.partition(".")[0] != self._of_rows:
                    raise _NotPossible
                return self._names[name]
            case Column(name=name):
                return f"a{name[1:]}" if name.startswith(".") else self._names[name]
            case Constant(value=value):
                return self._constant(value, kind)
            case Cast(arg=arg, type=type_) if type_ in (Type.DOUBLE, Type.FLOAT):
                return f"to_real({self._number(arg, _kind(arg.type))})"
            case Cast(arg=arg, type=Type.BIGINT) if arg.type.is_integer:
                return self._number(arg, kind)
            case Case(branches=branches, default=default) if default is not None:
                code = self._number(default, kind)
                for when, then in reversed(branches):
                    code = f"where({self._flags(when)}, {self._number(then, kind)}, {code})"
                return code
            case Call(function=function, args=args):
                return self._function(function, args, kind)
            case _:
                raise _NotPossible

    def _constant(self, value: object, kind: _Kind) -> str:
        if isinstance(value, bool) != (kind == "flag") or not isinstance(value, int | float):
            raise _NotPossible
        if kind != "real" and not (isinstance(value, int) and -MOST <= value < MOST):
            raise _NotPossible
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(value, _NUMBERS[kind])[()]
        return name

    def _function(self, function: str, args: Sequence[Expr], kind: _Kind) -> str:
        if function in ("+", "-", "*") and kind in ("whole", "real") and len(args) == 2:
            return f"({f' {function} '.join(self._number(arg, kind, rounds=True) for arg in args)})"
        if function in ("neg", "abs") and kind in ("whole", "real"):
            return f"{'-' if function == 'neg' else 'abs'}({self._number(args[0], kind)})"
        if function in ("greatest", "least") and kind in ("whole", "real") and len(args) > 1:
            name = f"{function}_{kind}"
            code = self._number(args[0], kind)
            for arg in args[1:]:
                code = f"{name}({code}, {self._number(arg, kind)})"
            return code
        if function in ("and", "or"):
            return f"({(' & ' if function == 'and' else ' | ').join(map(self._flags, args))})"
        if function == "not":
            return f"~({self._flags(args[0])})"
        if function in ("=", "<>", "<", "<=", ">", ">="):
            kinds = [_kind(arg.type) for arg in args]
            compared: _Kind = "real" if "real" in kinds else kinds[0]
            left, right = (self._number(arg, compared) for arg in args)
            if compared == "real":
                return _COMPARED[function].format(left, right)
            return f"({left} {_SIGNS.get(function, function)} {right})"
        raise _NotPossible


def _kind(type_: DataType) -> _Kind:
    if type_ in (Type.DOUBLE, Type.FLOAT):
        return "real"
    if type_ is Type.BOOLEAN:
        return "flag"
    if type_ is Type.TIMESTAMP:
        return "time"
    if type_.is_integer:
        return "whole"
    raise _NotPossible


def _is_small(expr: Expr) -> bool:
    """Return whether a whole number is the same as a real one."""
    return isinstance(expr, Column | Constant) and expr.type is not Type.BIGINT


def _inserts(steps: Iterable[FoldStep], table: str) -> int:
    return sum(isinstance(step, FoldInsert) and step.table == table for step in steps)


def _dtype(type_: DataType) -> str:
    kind = _kind(type_)
    return kind if kind in ("real", "flag") else "whole"


def _less(x: Array, y: Array) -> Array:
    """Compare numbers; NaN equals NaN and is greater than all others."""
    return np.asarray(~(x >= y) & (x == x))


def _spread(values: Any, count: int, dtype: Any) -> Array:
    """Return a value for each group, as an array of its own."""
    return np.broadcast_to(np.asarray(values, dtype), (count,)).copy()


def _give(out: list[Returned], groups: int, condition: Any, values: Any, limit: int | None) -> None:
    """Return values of the groups or rows for which a condition is true."""
    chosen = condition if np.ndim(condition) == 2 else np.broadcast_to(condition, (groups,))
    places = np.nonzero(chosen)
    if len(places[0]):
        out.append(Returned(places[-1], np.broadcast_to(values, chosen.shape)[places], limit))


_NUMBERS: dict[_Kind, Any] = {"whole": np.int64, "time": np.int64, "real": np.float64, "flag": np.bool_}
#: Comparisons of real numbers.
_COMPARED = {
    "<": "less({0}, {1})", ">": "less({1}, {0})", "<=": "(~less({1}, {0}))", ">=": "(~less({0}, {1}))",
    "=": "same({0}, {1})", "<>": "(~same({0}, {1}))",
}  # fmt: skip
_HELPERS: dict[str, Any] = {
    "__builtins__": {"abs": abs},
    "where": np.where,
    "array": np.array,
    "copyto": np.copyto,
    "give": _give,
    "FoldRows": FoldRows,
    "any_row": lambda held: held.any(axis=0),
    "true": np.True_,
    "to_real": lambda values: np.asarray(values).astype(np.float64),
    "spread": _spread,
    "real": np.float64,
    "whole": np.int64,
    "flag": np.bool_,
    "less": _less,
    "same": lambda x, y: (x == y) | ((x != x) & (y != y)),
    "greatest_whole": lambda x, y: np.where(y > x, y, x),
    "least_whole": lambda x, y: np.where(y < x, y, x),
    "greatest_real": lambda x, y: np.where(_less(x, y), y, x),
    "least_real": lambda x, y: np.where(_less(y, x), y, x),
}
