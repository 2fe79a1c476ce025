"""The value of an expression for one tuple, and of an aggregate for a list of tuples."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cmp_to_key, reduce
from typing import Any

import polars as pl
import pyarrow as pa
from msgspec import structs

from headrace.errors import OperatorFault
from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Lambda, Literal
from headrace.model.fold import Fold, FoldDelete, FoldInsert, FoldReturn, FoldStep, FoldUpdate
from headrace.model.python_function import is_python_function, parse_function
from headrace.model.python_target import PythonTarget, is_python_target
from headrace.model.schema import TS
from headrace.model.sketch import VALUES
from headrace.model.types import ArrayType, DataType, DecimalType, Type, is_nested
from headrace.model.value_order import order_of
from headrace.model.window import AggregateCall
from headrace.testing.oracle import decimals
from headrace.testing.oracle.functions import SCALARS
from headrace.testing.oracle.nested import HIGHER
from headrace.testing.oracle.sketches import approximated, count_approximately
from headrace.testing.oracle.values import compare, convert, identity, lift, sort_key, wrap


def value_of(expr: Expr, row: Mapping[str, Any]) -> Any:
    """Evaluate an expression; `row` holds the visible columns and `__ts`."""
    match expr:
        case Column(name=name):
            return row[name]
        case Literal(value=value, type=type_):
            return Decimal(value) if isinstance(type_, DecimalType) and isinstance(value, str) else value
        case Lambda(params=params, body=body):
            names = [param.name for param in params]
            return lambda *values: value_of(body, {**row, **dict(zip(names, values, strict=False))})
        case Call(function=function, args=args, type=type_) if any(isinstance(arg, Lambda) for arg in args):
            return HIGHER[function]([value_of(arg, row) for arg in args], [arg.type for arg in args], type_)
        case Call(function=function, args=args) if is_python_function(function):
            return _user_function(function, [value_of(arg, row) for arg in args])
        case Call(function=function, args=args, type=type_) if decimals.is_exact(function, type_):
            return decimals.compute(function, [value_of(arg, row) for arg in args], type_)
        case Call(function=function, args=args, type=type_):
            return SCALARS[function]([value_of(arg, row) for arg in args], [arg.type for arg in args], type_)
        case Cast(arg=arg, type=type_):
            return convert(value_of(arg, row), arg.type, type_)
        case Case(branches=branches, default=default, type=type_):
            for when, then in branches:
                if value_of(when, row) is True:
                    return _widened(then, row, type_)
            return None if default is None else _widened(default, row, type_)


def aggregate_of(call: AggregateCall, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Evaluate an aggregate over the rows of one group, which are in order."""
    if call.function == "shed_error":
        return 0.0  # nothing is shed here
    if call.arg is None:
        return len(rows)
    if call.function in ("first", "last"):
        counted = [row for row in rows if not call.more or value_of(call.more[0], row) is True]
        return value_of(call.arg, counted[0 if call.function == "first" else -1]) if counted else None
    plain = call.function.removesuffix("_distinct")
    if plain != call.function and plain not in ("count", "sum", "avg", "approx_count"):
        return aggregate_of(structs.replace(call, function=plain), _different_rows(call, rows))
    values = [value_of(call.arg, row) for row in rows]
    if call.function == "fold":
        counted = [row for row, counts in zip(rows, values, strict=True) if counts is True]
        stamped = [(row.get(TS, 0), [value_of(expr, row) for expr in call.more]) for row in counted]
        ordered = sorted(stamped, key=lambda pair: (pair[0], [sort_key(value) for value in pair[1]]))
        returned = [value for result in folded(call, [args for _, args in ordered]) for value in result]
        return returned if isinstance(call.type, ArrayType) else returned[-1] if returned else None
    if call.function in _PAIRED:
        others = [value_of(call.more[0], row) for row in rows]
        return _PAIRED[call.function](list(zip(values, others, strict=True)), call)
    if call.function == "collect_list":
        kept = [(row, value) for row, value in zip(rows, values, strict=True) if value is not None]
        kept.sort(key=lambda pair: (pair[0].get(TS, 0), sort_key(pair[1])))
        for term in reversed(order_of(call)):
            held = [(value_of(term.expr, row), row, value) for row, value in kept]
            missing = [(row, value) for key, row, value in held if key is None]
            there = [(key, row, value) for key, row, value in held if key is not None]
            there.sort(key=lambda kept: sort_key(kept[0]), reverse=term.descending)  # equal ones stay as they are
            known = [(row, value) for _, row, value in there]
            kept = [*missing, *known] if term.nulls_first else [*known, *missing]
        return [value for _, value in kept]
    present = [value for value in values if value is not None]
    if call.function == "collect_set":
        return sorted({identity(value): value for value in reversed(present)}.values(), key=sort_key)
    if call.function in ("percentile", "percentile_disc", "approx_percentile"):
        return _percentile(present, call) if present else None
    if is_python_target(call.function):
        return _user_defined(call.function, present)
    if call.function in _COUNTS:
        return _COUNTS[call.function](present)
    if isinstance(call.type, DecimalType) and call.function in _EXACT:
        return _EXACT[call.function](present, call.type) if present else None
    if isinstance(call.arg.type, DecimalType) and call.type is Type.DOUBLE:
        return _SUMMARIES[call.function](list(map(float, present)), Type.DOUBLE) if present else None
    return _SUMMARIES[call.function](present, call.arg.type) if present else None


def folded(call: AggregateCall, tuples: Sequence[Sequence[Any]], *, ends: bool = True) -> list[list[Any]]:
    """Run an aggregate in SQL statement by statement; return what each tuple returned, then the end."""
    fold = call.fold
    assert fold is not None
    tables: dict[str, list[dict[str, Any]]] = {table.name: [] for table in fold.tables}
    runs = [(fold.iterate if i else fold.initialize, args) for i, args in enumerate(tuples)]
    if tuples and ends:
        runs.append((fold.terminate, ()))
    return [[value for step in phase for value in _take_step(step, fold, tables, args)] for phase, args in runs]


def _take_step(step: FoldStep, fold: Fold, tables: dict[str, list[dict[str, Any]]], args: Sequence[Any]) -> list[Any]:
    """Run one statement of an aggregate; return what it returns."""
    given = {f".{i}": value for i, value in enumerate(args)}

    def meets(where: Expr | None, row: Mapping[str, Any]) -> bool:
        return where is None or value_of(where, {**given, **row}) is True

    for exists in step.exists:
        if any(meets(exists.where, row) for row in tables[exists.table]) is exists.negated:
            return []
    match step:
        case FoldUpdate(table=table, sets=sets, where=where):
            for row in [row for row in tables[table] if meets(where, row)]:
                row.update({f"{table}.{name}": value_of(value, {**given, **row}) for name, value in list(sets)})
            return []
        case FoldDelete(table=table, where=where):
            tables[table] = [row for row in tables[table] if not meets(where, row)]
            return []
        case FoldInsert(table=table, values=values, source=source, where=where):
            names = next(known for known in fold.tables if known.name == table)
            for row in [row for row in (tables[source] if source else [{}]) if meets(where, row)]:
                pairs = zip(names.fields, values, strict=True)
                new = {f"{table}.{column.name}": value_of(value, {**given, **row}) for column, value in pairs}
                tables[table] = [*tables[table], new]
            tables[table] = tables[table] if names.keep is None else tables[table][-names.keep :]
            return []
        case FoldReturn(value=value, source=source, where=where):
            rows = [row for row in (tables[source] if source else [{}]) if meets(where, row)]
            return [value_of(value, {**given, **row}) for row in rows]


def _widened(expr: Expr, row: Mapping[str, Any], want: DataType) -> Any:
    value = value_of(expr, row)
    return None if value is None else lift(value, expr.type, want)


def _user_function(function: str, args: Sequence[Any]) -> Any:
    style, target = parse_function(function)
    code = target.load("the function", error=OperatorFault)
    if None in args:
        return None
    match style:
        case "rows":
            return code(*args)
        case "polars":
            return code(*(pl.Series([arg]) for arg in args))[0]
        case "arrow":
            return code(*(pa.array([arg]) for arg in args))[0].as_py()


def _user_defined(function: str, values: Sequence[Any]) -> Any:
    aggregate = PythonTarget.parse_prefixed(function).load("the aggregate", error=OperatorFault)()
    state = aggregate.zero()
    for value in values:
        state = aggregate.add(state, [value])  # add takes any number of values
    return aggregate.finish(state)


def _different_rows(call: AggregateCall, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one row of each different combination of arguments without NULL."""
    kept: dict[Any, Mapping[str, Any]] = {}
    for row in rows:
        args = [value_of(arg, row) for arg in call.args]
        if None not in args:
            kept.setdefault(tuple(map(identity, args)), row)
    return list(kept.values())


def _sum(values: Sequence[Any], type_: DataType) -> Any:
    return wrap(sum(values)) if type_.is_integer else _float_sum(values)


def _float_sum(values: Sequence[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _avg(values: Sequence[Any], type_: DataType) -> float:
    return _float_sum(values) / len(values)


def _variance(values: Sequence[Any], type_: DataType) -> float | None:
    if len(values) < 2:
        return None
    mean = _float_sum(values) / len(values)
    return _float_sum([(value - mean) ** 2 for value in values]) / (len(values) - 1)


def _stddev(values: Sequence[Any], type_: DataType) -> float | None:
    variance = _variance(values, type_)
    return None if variance is None else math.sqrt(variance)


def _sorted(values: Sequence[Any], type_: DataType) -> list[Any]:
    return sorted(values, key=cmp_to_key(lambda x, y: compare(x, type_, y, type_)))


def _population_variance(values: Sequence[Any], type_: DataType) -> float:
    mean = _float_sum(values) / len(values)
    return _float_sum([(value - mean) ** 2 for value in values]) / len(values)


def _different(values: Sequence[Any]) -> list[Any]:
    return list({identity(value): value for value in values}.values())


def _percentile(values: Sequence[Any], call: AggregateCall) -> Any:
    assert call.arg is not None
    share = value_of(call.more[0], {})
    ordered = _sorted(values, call.arg.type)
    if call.function != "percentile":
        if call.function == "approx_percentile" and len(ordered) > VALUES:
            ordered = [approximated(value, call.arg.type) for value in ordered]
        value = ordered[max(0, math.ceil(len(ordered) * share) - 1)]
        return float(value) if call.type is Type.DOUBLE else value
    place = (len(ordered) - 1) * share
    low, high = float(ordered[math.floor(place)]), float(ordered[math.ceil(place)])
    if low == high:
        return low
    return (math.ceil(place) - place) * low + (place - math.floor(place)) * high


def _mode(values: Sequence[Any], type_: DataType) -> Any:
    counts: dict[Any, int] = {}
    for value in values:
        counts[identity(value)] = counts.get(identity(value), 0) + 1
    most = max(counts.values())
    return _sorted([value for value in values if counts[identity(value)] == most], type_)[0]


def _by(sign: int) -> Callable[[list[tuple[Any, Any]], AggregateCall], Any]:
    """Return the value where the other is greatest (1) or least (-1); of several the least one, NULL before all."""

    def best(pairs: list[tuple[Any, Any]], call: AggregateCall) -> Any:
        assert call.arg is not None
        known = [(value, by) for value, by in pairs if by is not None]
        if not known:
            return None
        by_type = call.more[0].type
        top = sorted((by for _, by in known), key=cmp_to_key(lambda x, y: -sign * compare(x, by_type, y, by_type)))[0]
        values = [value for value, by in known if compare(by, by_type, top, by_type) == 0]
        if is_nested(call.arg.type):
            kind = call.arg.type
            return None if None in values else min(values, key=lambda x: SCALARS["to_json"]([x], [kind], Type.STRING))
        return None if None in values else _sorted(values, call.arg.type)[0]

    return best


def _covariance(pairs: list[tuple[Any, Any]], call: AggregateCall) -> float | None:
    known = [(float(x), float(y)) for x, y in pairs if x is not None and y is not None]
    count = len(known)
    if count < (1 if call.function == "covar_pop" else 2):
        return None
    mean_x, mean_y = (_float_sum([pair[i] for pair in known]) / count for i in (0, 1))
    product = _float_sum([(x - mean_x) * (y - mean_y) for x, y in known])
    if call.function != "corr":
        return product / (count if call.function == "covar_pop" else count - 1)
    spread = math.sqrt(
        _float_sum([(x - mean_x) ** 2 for x, _ in known]) * _float_sum([(y - mean_y) ** 2 for _, y in known])
    )
    return None if spread == 0 else product / spread


def _moment(power: int) -> Callable[[Sequence[Any], DataType], float | None]:
    """Return the skewness (3) or the kurtosis (4) of values; None if they do not vary."""

    def moment(values: Sequence[Any], type_: DataType) -> float | None:
        mean = _float_sum(values) / len(values)
        squares, powers = (_float_sum([(value - mean) ** n for value in values]) for n in (2, power))
        if squares == 0:
            return None
        count = len(values)
        skewness = math.sqrt(count) * powers / squares**1.5
        return skewness if power == 3 else count * powers / squares**2 - 3

    return moment


def _bits(operation: Callable[[int, int], int]) -> Callable[[Sequence[Any], DataType], int]:
    return lambda values, type_: reduce(operation, values)


def _histogram(values: Sequence[Any], type_: DataType) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    for value in _sorted(values, type_):
        counts[value] = counts.get(value, 0) + 1
    return counts


_PAIRED: dict[str, Callable[[list[tuple[Any, Any]], AggregateCall], Any]] = {
    "max_by": _by(1),
    "min_by": _by(-1),
    "covar_pop": _covariance,
    "covar_samp": _covariance,
    "corr": _covariance,
}
_EXACT: dict[str, Callable[[Sequence[Any], DataType], Any]] = {
    "sum": decimals.decimal_sum,
    "avg": decimals.decimal_mean,
    "sum_distinct": lambda values, type_: decimals.decimal_sum(_different(values), type_),
    "avg_distinct": lambda values, type_: decimals.decimal_mean(_different(values), type_),
}
_COUNTS: dict[str, Callable[[Sequence[Any]], int]] = {
    "count": len,
    "count_distinct": lambda values: len({identity(value) for value in values}),
    "approx_count_distinct": count_approximately,
}
_SUMMARIES: dict[str, Callable[[Sequence[Any], DataType], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "min": lambda values, type_: _sorted(values, type_)[0],
    "max": lambda values, type_: _sorted(values, type_)[-1],
    "stddev": _stddev,
    "variance": _variance,
    "var_pop": _population_variance,
    "stddev_pop": lambda values, type_: math.sqrt(_population_variance(values, type_)),
    "sum_distinct": lambda values, type_: _sum(_different(values), type_),
    "avg_distinct": lambda values, type_: _avg(_different(values), type_),
    "mode": _mode,
    "histogram": _histogram,
    "skewness": _moment(3),
    "kurtosis": _moment(4),
    "product": lambda values, type_: math.prod(map(float, values)),
    "bit_and": _bits(operator.and_),
    "bit_or": _bits(operator.or_),
    "bit_xor": _bits(operator.xor),
}
