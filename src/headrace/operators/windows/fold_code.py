"""Aggregates that are written in SQL, as Python functions that are made of their steps.

A table that always has one row is kept in local variables, any other as a list of rows. NULL is None. A value that can
never be NULL is computed without asking for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headrace.errors import InternalError
from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Lambda, Literal
from headrace.model.fold import Fold, FoldDelete, FoldExists, FoldInsert, FoldReturn, FoldStep, FoldUpdate
from headrace.model.types import DataType, Type
from headrace.operators.windows.fold_functions import CALLS, HELPERS, MOST

_Tuples = Sequence[Any]
_SIGNS = {"=": "==", "<>": "!="}
#: Comparisons of numbers of which one may be NaN, which equals NaN and is greater than all others.
_COMPARED = {
    "<": "(not ({0} >= {1}) and {0} == {0})",
    ">": "(not ({0} <= {1}) and {1} == {1})",
    "<=": "({0} <= {1} or {1} != {1})",
    ">=": "({0} >= {1} or {0} != {0})",
    "=": "({0} == {1} or ({0} != {0} and {1} != {1}))",
    "<>": "({0} != {1} and ({0} == {0} or {1} == {1}))",
}


@dataclass(frozen=True, slots=True)
class FoldCode:
    """The functions of a body."""

    #: Takes the tuples of a group; returns everything that it returns, in order.
    whole: Callable[[_Tuples], list[Any]]
    #: Takes the tables after some tuples, and further tuples; returns everything that these and the end return.
    rest: Callable[[_Tuples, _Tuples], list[Any]]
    #: Takes what it returned before (None for a new group) and further tuples; returns that, and what each returned.
    run: Callable[[Any, _Tuples], tuple[Any, list[list[Any]]]]
    source: str


@lru_cache(maxsize=64)
def code_of(fold: Fold, nulls: tuple[bool, ...]) -> FoldCode:
    """Make the functions of a body whose tuples have so many values, which may be NULL or not."""
    writer = FoldWriter(fold, nulls)
    source = writer.source()
    names: dict[str, Any] = {**HELPERS, **writer.constants}
    exec(compile(source, "<aggregate>", "exec"), names)  # our own text: users' names and constants are numbered
    return FoldCode(names["whole"], names["rest"], names["run"], source)


class FoldWriter:
    """Writes the source of a body's functions."""

    def __init__(self, fold: Fold, nulls: tuple[bool, ...]) -> None:
        self._fold, self._nulls = fold, nulls
        self._single = {table.name for table in fold.tables if fold.has_one_row(table.name)}
        self._places = {table.name: f"t{i}" for i, table in enumerate(fold.tables)}
        self._keeps = {table.name: table.keep for table in fold.tables}
        self._names = {
            f"{table.name}.{column.name}": f"t{i}_{j}" if table.name in self._single else f"r[{j}]"
            for i, table in enumerate(fold.tables)
            for j, column in enumerate(table.fields)
        }
        self._slots = [
            slot
            for table in fold.tables
            for slot in (
                [f"{self._places[table.name]}_{j}" for j in range(len(table.fields))]
                if table.name in self._single
                else [self._places[table.name]]
            )
        ]
        self._temporaries = 0
        self.constants: dict[str, Any] = {}
        self._known = self._never_null()

    def source(self) -> str:
        lists = [self._places[table.name] for table in self._fold.tables if table.name not in self._single]
        take = ", ".join(f"a{i}" for i in range(len(self._nulls))) or "_"
        state = f"[{', '.join(self._slots)}]"
        unpack = f"{''.join(f'{slot}, ' for slot in self._slots)} = state" if self._slots else "pass"
        first, each, last = (
            list(self._lines(phase)) for phase in (self._fold.initialize, self._fold.iterate, self._fold.terminate)
        )
        given = "".join(f", {name}={name}" for name in self.constants)
        begin = [*(f"{name} = []" for name in lists), f"{take} = tuples[0]", *first]
        lines = [
            f"def whole(tuples{given}):",
            *_indented(["out = []", *begin, f"for {take} in tuples[1:]:", *_indented(each or ["pass"]), *last]),
            " return out",
            f"def rest(state, tuples{given}):",
            *_indented(["out = []", unpack, f"for {take} in tuples:", *_indented(each or ["pass"]), *last]),
            " return out",
            f"def run(state, tuples{given}):",
            " outs = []",
            " if state is None:",
            *_indented(["out = []", *begin, "outs.append(out)", "tuples = tuples[1:]"], 2),
            " else:",
            f"  {unpack}",
            f" for {take} in tuples:",
            *_indented(["out = []", *each, "outs.append(out)"], 2),
            f" return {state}, outs",
        ]
        return "\n".join(lines) + "\n"

    def _lines(self, steps: Iterable[FoldStep]) -> Iterator[str]:
        for step in steps:
            lines = list(self._step(step))
            for exists in step.exists:
                lines = self._if_exists(exists, lines)
            yield from lines

    def _if_exists(self, exists: FoldExists, lines: list[str]) -> list[str]:
        """Return lines that are taken if a table has a row for which a condition is true, or has none."""
        wanted = "not " if exists.negated else ""
        if exists.table in self._single:
            found = "True" if exists.where is None else self._code(exists.where)
            return [f"if {wanted}({found}):", *_indented(lines)]
        table = self._places[exists.table]
        if exists.where is None:
            return [f"if {wanted}{table}:", *_indented(lines)]
        loop = [f"for r in {table}:", f" if {self._code(exists.where)}:"]
        if exists.negated:
            return [*loop, "  break", "else:", *_indented(lines)]
        return [*loop, *_indented([*lines, "break"], 2)]

    def _step(self, step: FoldStep) -> Iterator[str]:
        match step:
            case FoldReturn(value=value, source=source, where=where):
                yield from self._added("out", self._code(value), source, where)
            case FoldInsert(table=table, values=values) if table in self._single:
                place = self._places[table]
                pairs = [(f"{place}_{j}", self._code(value)) for j, value in enumerate(values)]
                yield f"{', '.join(name for name, _ in pairs)} = {', '.join(code for _, code in pairs)}"
            case FoldInsert(table=table, values=values, source=source, where=where):
                row = f"[{', '.join(map(self._code, values))}]"
                yield from self._added(self._places[table], row, source, where)
                keep = self._keeps[table]
                if keep is not None:
                    yield f"if len({self._places[table]}) > {keep}: del {self._places[table]}[:-{keep}]"
                elif source and source not in self._single:
                    yield f"check_rows({self._places[table]}, {self._code(Literal(table, Type.STRING))})"
            case FoldUpdate(table=table, sets=sets, where=where):
                names = ", ".join(self._names[f"{table}.{name}"] for name, _ in sets)
                change = f"{names} = {', '.join(self._code(value) for _, value in sets)}"
                yield from self._each(table, where, change)
            case FoldDelete(table=table, where=where):
                place = self._places[table]
                kept = "" if where is None else f"r for r in {place} if not ({self._code(where)})"
                yield f"{place} = [{kept}]"

    def _added(self, to: str, value: str, source: str, where: Expr | None) -> Iterator[str]:
        if source and source not in self._single:
            condition = "" if where is None else f" if {self._code(where)}"
            yield f"{to} += [{value} for r in {self._places[source]}{condition}]"
        elif where is None:
            yield f"{to}.append({value})"
        else:
            yield f"if {self._code(where)}: {to}.append({value})"

    def _each(self, table: str, where: Expr | None, change: str) -> Iterator[str]:
        if table in self._single:
            yield change if where is None else f"if {self._code(where)}: {change}"
            return
        yield f"for r in {self._places[table]}:"
        yield f" {change}" if where is None else f" if {self._code(where)}: {change}"

    # --- Expressions ---

    def _never_null(self) -> set[str]:
        """Return the columns of tables that are never NULL: assume all of them, and take back what may be."""
        self._known = set(self._names)
        while True:
            doubtful = set()
            for step in self._fold.steps:
                match step:
                    case FoldInsert(table=table, values=values):
                        fields = next(t.fields for t in self._fold.tables if t.name == table)
                        pairs = [(column.name, value) for column, value in zip(fields, values, strict=True)]
                    case FoldUpdate(table=table, sets=sets):
                        pairs = list(sets)
                    case FoldDelete() | FoldReturn():
                        continue
                doubtful |= {f"{table}.{name}" for name, value in pairs if self._may_be_null(value)}
            if not doubtful & self._known:
                return self._known
            self._known -= doubtful

    def _may_be_null(self, expr: Expr) -> bool:
        match expr:
            case Column(name=name):
                return self._nulls[int(name[1:])] if name.startswith(".") else name not in self._known
            case Literal(value=value):
                return value is None
            case Call(function="is_null" | "<=>"):
                return False
            case Call(function="coalesce" | "greatest" | "least", args=args):
                return all(map(self._may_be_null, args))
            case Call(function=function, args=args):
                return function in ("/", "%", "div", "nullif", "in", "||") or any(map(self._may_be_null, args))
            case Cast(arg=arg, type=type_):
                return (type_ is not Type.DOUBLE and not (type_ is Type.BIGINT and arg.type.is_integer)) or (
                    self._may_be_null(arg)
                )
            case Case(branches=branches, default=default):
                return (
                    default is None
                    or any(self._may_be_null(then) for _, then in branches)
                    or (self._may_be_null(default))
                )
            case Lambda():
                raise InternalError("steps of an aggregate have no lambdas")

    def _code(self, expr: Expr) -> str:
        match expr:
            case Column(name=name):
                return f"a{name[1:]}" if name.startswith(".") else self._names[name]
            case Literal(value=value):
                if value is None or isinstance(value, bool | int):
                    return f"({value!r})"
                name = f"c{len(self.constants)}"
                self.constants[name] = value
                return name
            case Cast(arg=arg, type=type_):
                return self._cast(arg, type_)
            case Case(branches=branches, default=default):
                code = "None" if default is None else self._code(default)
                for when, then in reversed(branches):
                    code = f"({self._code(then)} if {self._code(when)} else {code})"
                return code
            case Call(function=function, args=args, type=type_):
                return self._call(function, args, type_)
            case Lambda():
                raise InternalError("steps of an aggregate have no lambdas")

    def _cast(self, arg: Expr, type_: DataType) -> str:
        code = self._code(arg)
        if arg.type is Type.NULL:
            return code
        match type_:
            case Type.DOUBLE | Type.FLOAT:
                return code if arg.type in (Type.DOUBLE, Type.FLOAT) else self._lifted("float({})", (arg,))
            case Type.BIGINT if arg.type.is_integer:
                return code
            case Type.BIGINT:
                return f"to_int({code}, {MOST})"
            case Type.INT:
                return f"to_int({code}, {2**31})"
            case _:
                return code

    def _call(self, function: str, args: tuple[Expr, ...], type_: DataType) -> str:
        if function in ("+", "-", "*", "neg", "abs"):
            template = {"neg": "(-{})", "abs": "abs({})"}.get(function, f"({{}} {function} {{}})")
            code = self._lifted(template, args)
            if type_ is not Type.BIGINT:
                return code
            if self._may_be_null(Call(function, args, type_)):
                return f"wrap_maybe({code})"
            name = self._temporary()
            return f"({name} if {-MOST} <= ({name} := {code}) < {MOST} else wrap({name}))"
        if function in ("=", "<>", "<", "<=", ">", ">="):
            numbers = any(arg.type in (Type.DOUBLE, Type.FLOAT) for arg in args)
            if numbers:
                return self._lifted(_COMPARED[function], args, repeats=True)
            return self._lifted(f"({{}} {_SIGNS.get(function, function)} {{}})", args)
        if function == "is_null":
            return f"({self._code(args[0])} is None)"
        if function == "||":
            return self._lifted(f"joined({', '.join(['{}'] * len(args))})", args)
        if function in CALLS:
            return f"{CALLS[function]}({', '.join(map(self._code, args))})"
        raise InternalError(f"no code for {function!r}")

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"x{self._temporaries}"

    def _lifted(self, template: str, args: Sequence[Expr], *, repeats: bool = False) -> str:
        """Fill in arguments, with None if one of them is; what a template repeats is computed once."""
        codes, tests = [], []
        for arg in args:
            code = self._code(arg)
            if self._may_be_null(arg) or (repeats and not isinstance(arg, Column | Literal)):
                name = self._temporary()
                tests.append(f"({name} := {code}) is None")
                code = name
            codes.append(code)
        filled = template.format(*codes)
        return f"(None if {' or '.join(tests)} else {filled})" if tests else filled


def _indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    return [" " * depth + line for line in lines]
