"""Steps of aggregates that are written in SQL as functions on columns: a table has a row for each of many groups.

That needs tables that always have one row, and values that are numbers and never NULL. TERMINATE is left to the code
for single groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr
from headrace.model.expressions.expression import Literal as Constant
from headrace.model.fold import Fold, FoldInsert, FoldStep, FoldUpdate
from headrace.model.types import DataType, Type
from headrace.operators.arrays import Array
from headrace.operators.windows.fold_code import FoldWriter
from headrace.operators.windows.fold_functions import MOST

_Kind = Literal["whole", "real", "flag", "time"]
_SIGNS = {"=": "==", "<>": "!="}


@dataclass(frozen=True, slots=True)
class FoldVectors:
    """INITIALIZE and ITERATE on columns: tables and arguments of some groups; each returns the tables after it."""

    first: Callable[..., list[Array]]
    each: Callable[..., list[Array]]


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
    return FoldVectors(names["first"], names["each"])


class _VectorWriter(FoldWriter):
    """Writes the source of functions on columns."""

    def source(self) -> str:
        """Return it; raises _NotPossible."""
        fold = self._fold
        if len(self._single) < len(fold.tables) or not fold.tables:
            raise _NotPossible
        args = "".join(f", a{i}" for i in range(len(self._nulls)))
        first, each = (list(self._lines(phase)) for phase in (fold.initialize, fold.iterate))
        given = "".join(f", {name}={name}" for name in self.constants)
        types = [column.type for table in fold.tables for column in table.fields]
        spread = [
            f"spread({slot}, n, {'real' if _kind(type_) == 'real' else 'flag' if _kind(type_) == 'flag' else 'whole'})"
            for slot, type_ in zip(self._slots, types, strict=True)
        ]
        lines = [
            f"def first(n{args}{given}):",
            *(f" {line}" for line in first),
            f" return [{', '.join(spread)}]",
            f"def each(tables{args}{given}):",
            f" {''.join(f'{slot}, ' for slot in self._slots)} = tables",
            *(f" {line}" for line in each),
            f" return [{', '.join(self._slots)}]",
        ]
        return "\n".join(lines) + "\n"

    def _lines(self, steps: Iterable[FoldStep]) -> Iterator[str]:
        for step in steps:
            match step:
                case FoldInsert(table=table, values=values):
                    names = [f"{self._places[table]}_{j}" for j in range(len(values))]
                    yield f"{', '.join(names)}, = {', '.join(map(self._stored, self._types(table), values))},"
                case FoldUpdate(table=table, sets=sets, where=where, exists=()):
                    types = dict(zip((f.name for f in self._fields(table)), self._types(table), strict=True))
                    names = [self._names[f"{table}.{name}"] for name, _ in sets]
                    codes = [self._stored(types[name], value) for name, value in sets]
                    if where is not None:
                        condition = self._flags(where)
                        codes = [f"where({condition}, {code}, {old})" for code, old in zip(codes, names, strict=True)]
                    yield f"{', '.join(names)}, = {', '.join(codes)},"
                case _:
                    raise _NotPossible

    def _fields(self, table: str) -> Sequence[Any]:
        return next(each.fields for each in self._fold.tables if each.name == table)

    def _types(self, table: str) -> list[DataType]:
        return [column.type for column in self._fields(table)]

    def _stored(self, type_: DataType, value: Expr) -> str:
        """Return the code of a value of a table; a column of its own, which later steps do not change."""
        code = self._number(value, _kind(type_))
        return f"array({code})" if isinstance(value, Column) else code

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
            sign = _SIGNS.get(function, function)
            return f"(order({left}, {right}) {sign} 0)" if compared == "real" else f"({left} {sign} {right})"
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


def _order(x: Array, y: Array) -> Array:
    """Compare numbers; NaN equals NaN and is greater than all others."""
    strange = (x != x).astype(np.int8) - (y != y).astype(np.int8)
    return np.where(x < y, -1, np.where(x > y, 1, strange))


_NUMBERS: dict[_Kind, Any] = {"whole": np.int64, "time": np.int64, "real": np.float64, "flag": np.bool_}
_HELPERS: dict[str, Any] = {
    "__builtins__": {"abs": abs},
    "where": np.where,
    "array": np.array,
    "to_real": lambda values: np.asarray(values).astype(np.float64),
    "spread": lambda values, count, dtype: np.broadcast_to(np.asarray(values, dtype), (count,)).copy(),
    "real": np.float64,
    "whole": np.int64,
    "flag": np.bool_,
    "order": _order,
    "greatest_whole": lambda x, y: np.where(y > x, y, x),
    "least_whole": lambda x, y: np.where(y < x, y, x),
    "greatest_real": lambda x, y: np.where(_order(y, x) > 0, y, x),
    "least_real": lambda x, y: np.where(_order(y, x) < 0, y, x),
}
