"""Split aggregate functions into partial columns, their merging, and the final value, all as column expressions.

A partial summarizes some rows of a group in a fixed set of columns, the parts. Calls that need the same part of the
same argument share it: `sum(x)`, `avg(x)` and `count(x)` keep two columns together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import polars as pl

from headrace.errors import OperatorFault
from headrace.model.expressions.expression import Column, Expr
from headrace.model.expressions.expression import Literal as Constant
from headrace.model.patterns.pattern import Pattern, rename
from headrace.model.python_target import is_python_target
from headrace.model.schema import SEQ, TS
from headrace.model.types import ArrayType, DecimalType, Type
from headrace.model.value_order import order_of
from headrace.model.window import AggregateCall
from headrace.operators.expressions.evaluate import compile_expr
from headrace.operators.windows.exact_sums import exact_of_lists, exact_result, exact_sums
from headrace.operators.windows.folds import fold_lists
from headrace.operators.windows.grouping import grouped
from headrace.operators.windows.kept_values import histogram, moment, of_different_rows, ordered_values
from headrace.operators.windows.parts import Part, Split, distinct, gathered, values
from headrace.operators.windows.sketches import approximate_count_distinct, approximate_percentile
from headrace.operators.windows.user_aggregates import UserAggregate, load

#: Lists with so many values in a row, on average, are long.
_LONG = 16
#: GroupKeys of a group: the output name of each and the expression that computes it.
GroupKeys: TypeAlias = tuple[tuple[str, Expr], ...]


@dataclass(slots=True)
class Aggregates:
    """All keys and calls of one aggregate operator, ready to run on frames."""

    keys: GroupKeys
    calls: tuple[AggregateCall, ...]
    names: list[str] = field(init=False)
    needs_order: bool = field(init=False)
    parts: list[Part] = field(init=False)
    _finals: list[pl.Expr] = field(init=False)
    _inputs: list[pl.Expr] = field(init=False)
    _arguments: list[Expr] = field(init=False)

    def __post_init__(self) -> None:
        self.names = [name for name, _ in self.keys]
        self.needs_order = any(call.function in ("first", "last") for call in self.calls)
        args = list(dict.fromkeys(call.arg for call in self.calls if call.arg is not None))
        self._inputs = [compile_expr(expr).alias(name) for name, expr in self.keys]
        # after all first arguments, whose numbers others know
        args = list(dict.fromkeys([*args, *(expr for call in self.calls for expr in _columns(call))]))
        self._inputs += [compile_expr(arg).alias(f"__a{i}") for i, arg in enumerate(args)]
        self._arguments = args
        splits = [
            split(call, "" if call.arg is None else self.argument(call.arg), *map(self.argument, _columns(call)))
            for call in self.calls
        ]
        self.parts = list({part.name: part for divided in splits for part in divided.parts}.values())
        self._finals = [
            divided.final.cast(call.type.polars).alias(call.name)
            for divided, call in zip(splits, self.calls, strict=True)
        ]

    def read(self, rows: pl.DataFrame, *extra: pl.Expr) -> pl.DataFrame:
        """Compute keys and arguments; `extra` columns too. Keeps `__ts`, and `__seq` if a call breaks ties by it."""
        hidden = [pl.col(TS)]
        if self.needs_order:
            hidden.append(pl.col(SEQ) if SEQ in rows.columns else pl.lit(0, pl.Int64).alias(SEQ))
        return rows.select(*self._inputs, *hidden, *extra)

    def argument(self, expr: Expr) -> str:
        """Return the column of what `read` gives that holds an argument of a call."""
        return f"__a{self._arguments.index(expr)}"

    def groups(self, pattern: Pattern) -> Pattern | None:
        """Return a pattern of the input over the group columns; None if it is about anything but plain keys."""
        names = {expr.name: name for name, expr in self.keys if isinstance(expr, Column)}
        return rename(pattern, names) if pattern.names <= names.keys() else None

    def fold(
        self, rows: pl.DataFrame, by: Sequence[str], *extra: pl.Expr, parts: Sequence[Part] | None = None
    ) -> pl.DataFrame:
        """Return partials of what `read` gave, one row per different value of `by`.

        Only some parts if they are named.
        """
        parts = self.parts if parts is None else parts
        frame = grouped(rows, by, [*(part.fold.alias(part.name) for part in parts), *extra])
        work = {part.name: part.folded for part in parts if part.folded}
        return (
            frame.with_columns(function(frame[name]).alias(name) for name, function in work.items()) if work else frame
        )

    def merge(self, partials: pl.DataFrame, by: Sequence[str], *extra: pl.Expr) -> pl.DataFrame:
        """Return partials of partials, one row per different value of `by`."""
        if not extra and self._are_apart(partials, by):
            return partials.select(*by, *(part.name for part in self.parts))
        frame = grouped(partials, by, [*(part.merge.alias(part.name) for part in self.parts), *extra])
        work = {part.name: part.merged for part in self.parts if part.merged}
        return (
            frame.with_columns(function(frame[name]).alias(name) for name, function in work.items()) if work else frame
        )

    def _are_apart(self, partials: pl.DataFrame, by: Sequence[str]) -> bool:
        """Return whether no two partials belong together, if they are long lists, which would be copied for nothing."""
        if not by or not partials.height or not all(part.gathers for part in self.parts):
            return False
        values = sum(int(partials[part.name].list.len().sum() or 0) for part in self.parts)
        return values >= _LONG * partials.height and partials.group_by(by).len().height == partials.height

    def newest(self, partials: pl.DataFrame) -> int:
        """Return the greatest `__seq` that partials remember; -1 if they remember none."""
        names = [part.name for part in self.parts if part.name.endswith(("_first", "_last"))]
        maxima = [partials[name].struct.field("seq").max() for name in names]
        return max((int(seq) for seq in maxima if seq is not None), default=-1)  # type: ignore[arg-type]

    def finals(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Return the values of the calls, a row for each partial."""
        return partials.select(self._finals)

    def results(self, partials: pl.DataFrame, *, start: pl.Expr, end: pl.Expr, stamp: pl.Expr) -> pl.DataFrame:
        """Return final rows in output order: keys, calls, window_start, window_end, `__ts`."""
        instant = Type.TIMESTAMP.polars
        return partials.select(
            *self.names,
            *self._finals,
            start.cast(instant).alias("window_start"),
            end.cast(instant).alias("window_end"),
            stamp.alias(TS),
        )


def _columns(call: AggregateCall) -> tuple[Expr, ...]:
    """Return the further arguments that are computed for each tuple; the fraction of a percentile is not."""
    if call.function.startswith(("percentile", "approx_percentile")):
        return ()
    return tuple(term.expr for term in order) if (order := order_of(call)) else call.more


def split(call: AggregateCall, arg: str, *others: str) -> Split:
    """Say how a call over the column `arg`, and maybe others, is computed in parts."""
    x = pl.col(arg)
    other = others[0] if others else ""
    match call.function:
        case "count":
            part = _count(arg) if call.arg is not None else _rows()
            return Split((part,), pl.col(part.name))
        case "shed_error":
            return Split((_rows(),), pl.lit(0.0))  # where tuples are weighed, the plan says it in other terms
        case "sum" | "avg" if isinstance(call.type, DecimalType):
            return _exact(call, arg, call.type)
        case "sum":
            count, total = _count(arg), _sum(arg, call.type.polars)
            return Split((count, total), _unless_empty(count, pl.col(total.name)))
        case "avg":
            count, total = _count(arg), _sum(arg, pl.Float64())
            return Split((count, total), _unless_empty(count, pl.col(total.name) / pl.col(count.name)))
        case "min":
            return _single(Part(f"{arg}_min", x.min(), pl.col(f"{arg}_min").min(), kind="min", arg=arg))
        case "max" if call.type in (Type.FLOAT, Type.DOUBLE):
            # NaN is the greatest number, as in Spark.
            return _single(Part(f"{arg}_max", x.nan_max(), pl.col(f"{arg}_max").nan_max(), kind="max", arg=arg))
        case "max":
            return _single(Part(f"{arg}_max", x.max(), pl.col(f"{arg}_max").max(), kind="max", arg=arg))
        case "variance":
            return _variance(arg, lambda value: value)
        case "stddev":
            return _variance(arg, lambda value: value.sqrt())
        case "var_pop":
            return _variance(arg, lambda value: value, fewer=0)
        case "stddev_pop":
            return _variance(arg, lambda value: value.sqrt(), fewer=0)
        case "covar_pop" | "covar_samp" | "corr":
            return _covariance(call.function, arg, other)
        case "count_distinct":
            part = distinct(arg)
            return Split((part,), pl.col(part.name).list.len())
        case "sum_distinct" | "avg_distinct" if isinstance(call.type, DecimalType):
            part = distinct(arg)
            return Split((part,), exact_of_lists(pl.col(part.name), call))
        case "sum_distinct" | "avg_distinct":
            part = distinct(arg)
            numbers = pl.col(part.name).list.eval(pl.element().cast(call.type.polars))
            combined = numbers.list.sum() if call.function == "sum_distinct" else numbers.list.mean()
            return Split((part,), pl.when(pl.col(part.name).list.len() > 0).then(combined))
        case "percentile" | "percentile_disc":
            return _percentile(call, arg)
        case "approx_percentile":
            return approximate_percentile(call, arg)
        case "approx_count_distinct":
            return approximate_count_distinct(arg)
        case "mode":
            part = values(arg)
            return Split((part,), pl.col(part.name).list.eval(pl.element().mode()).list.sort().list.first())
        case "collect_list":
            return ordered_values(arg, others, order, call.type) if (order := order_of(call)) else _collected(arg)
        case "collect_set":
            part = distinct(arg)
            return Split((part,), pl.col(part.name).list.sort())
        case "fold":
            return _folded(call, arg, others)
        case "max_by" | "min_by":
            return _of_extreme(call.function, arg, *others)
        case "first" | "last":
            return _extreme(arg, call.function, *others)
        case "histogram":
            return histogram(arg, call.type)
        case "skewness" | "kurtosis":
            return moment(call.function, arg)
        case "bit_and" | "bit_or" | "bit_xor" | "product":
            return _combined(call, arg)
        case function if function.endswith("_distinct"):
            return _of_different(call, (arg, *others))
        case _:
            return _user(call, arg)


def _single(part: Part) -> Split:
    return Split((part,), pl.col(part.name))


def _rows() -> Part:
    return Part("__rows", pl.len().cast(pl.Int64), pl.col("__rows").sum(), kind="rows")


def _count(arg: str) -> Part:
    name = f"{arg}_count"
    return Part(name, pl.col(arg).count().cast(pl.Int64), pl.col(name).sum(), kind="count", arg=arg)


def _sum(arg: str, dtype: pl.DataType) -> Part:
    name = f"{arg}_sum_{dtype}"
    return Part(name, pl.col(arg).cast(dtype).sum(), pl.col(name).sum(), kind="sum", arg=arg)


def _exact(call: AggregateCall, arg: str, type_: DecimalType) -> Split:
    """Add up DECIMALs: as they are where no sum of tuples can be too long, else their digits in two halves."""
    count = _count(arg)
    source = call.arg.type if call.arg is not None else type_
    assert isinstance(source, DecimalType)
    parts = (count, *(Part(name, fold, pl.col(name).sum()) for name, fold in exact_sums(arg, source)))
    return Split(parts, _unless_empty(count, exact_result(call, [part.name for part in parts], source.scale)))


def _unless_empty(count: Part, value: pl.Expr) -> pl.Expr:
    return pl.when(pl.col(count.name) > 0).then(value)


def _collected(arg: str) -> Split:
    """Keep all values with their times, and return them in the order of time, then of value: however they came."""
    name = f"{arg}_collected"
    row = pl.struct(pl.col(TS).alias("ts"), pl.col(arg).alias("value"))
    fold = row.filter(pl.col(arg).is_not_null())
    merge = gathered(name)
    return Split((Part(name, fold, merge),), pl.col(name).list.sort().list.eval(pl.element().struct.field("value")))


def _folded(call: AggregateCall, present: str, columns: Sequence[str]) -> Split:
    """Keep the values of tuples that count, and their times; run the steps of an aggregate in SQL at the end."""
    names = [f"{present}_{column}_kept" for column in (TS, *columns)]
    parts = tuple(
        Part(name, pl.col(column).filter(pl.col(present)), gathered(name), gathers=True)
        for name, column in zip(names, (TS, *columns), strict=True)
    )
    fold, type_ = call.fold, call.type
    assert fold is not None

    def finish(lists: pl.Series) -> pl.Series:
        returned = fold_lists([lists.struct.field(name) for name in names], fold)
        collects = isinstance(type_, ArrayType)
        results = [result if collects else result[-1] if result else None for result in returned]
        return pl.Series(lists.name, results, dtype=type_.polars)

    return Split(parts, pl.struct(names).map_batches(finish, return_dtype=type_.polars, is_elementwise=True))


def _percentile(call: AggregateCall, arg: str) -> Split:
    """Interpolate between the two values nearest to a fraction of all, or take the first that reaches it."""
    part, (fraction,) = values(arg), call.more
    share = float(fraction.value or 0.0) if isinstance(fraction, Constant) else 0.0
    ordered = pl.col(part.name).list.sort()
    count = ordered.list.len().cast(pl.Int64)
    if call.function == "percentile_disc":
        place = ((count * share).ceil().cast(pl.Int64) - 1).clip(lower_bound=0)
        return Split((part,), ordered.list.get(place, null_on_oob=True))
    place = (count - 1).clip(lower_bound=0) * share
    below, above = place.floor(), place.ceil()
    low, high = (ordered.list.get(index.cast(pl.Int64), null_on_oob=True).cast(pl.Float64) for index in (below, above))
    between = (above - place) * low + (place - below) * high
    return Split((part,), pl.when(low == high).then(low).otherwise(between))


def _of_extreme(function: str, arg: str, other: str, place: str | None = None) -> Split:
    """Return the value where another is greatest (least); of several the least value, NULL before all.

    Values that have no order of their own, such as lists, have a place among each other.
    """
    name = f"{arg}_{other}_{function}"
    known, falling = pl.col(other).is_not_null(), [function == "max_by", False]
    columns = {"by": other, "value": arg} | ({"place": place} if place else {})
    row = pl.struct(pl.col(column).alias(field) for field, column in columns.items()).filter(known)
    order = [pl.col(other), pl.col(place or arg)]
    fold = row.sort_by([key.filter(known) for key in order], descending=falling, nulls_last=False)
    by, tie = (pl.col(name).struct.field(part) for part in ("by", "place" if place else "value"))
    kept = pl.col(name).filter(by.is_not_null())
    merge = kept.sort_by(
        by.filter(by.is_not_null()), tie.filter(by.is_not_null()), descending=falling, nulls_last=False
    )
    return Split((Part(name, fold.first(), merge.first()),), pl.col(name).struct.field("value"))


def _covariance(function: str, arg: str, other: str) -> Split:
    """Count, means, and sums of products of distances from the means, of pairs without NULL; merged as variances are.

    As in Spark, a correlation is NULL if one of the two does not vary.
    """
    prefix = f"{arg}_{other}"
    both = pl.col(arg).is_not_null() & pl.col(other).is_not_null()
    x, y = (pl.when(both).then(pl.col(name)).cast(pl.Float64) for name in (arg, other))
    n, mean_x, mean_y = (pl.col(f"{prefix}_{part}") for part in ("pairs", "mean_x", "mean_y"))
    whole_x, whole_y = ((n * mean).sum() / n.sum().clip(lower_bound=1) for mean in (mean_x, mean_y))
    parts = [
        Part(f"{prefix}_pairs", both.sum().cast(pl.Int64), n.sum()),
        Part(f"{prefix}_mean_x", x.mean().fill_null(0.0), whole_x),
        Part(f"{prefix}_mean_y", y.mean().fill_null(0.0), whole_y),
    ]
    distances = {"x": (x - x.mean(), mean_x - whole_x), "y": (y - y.mean(), mean_y - whole_y)}
    for left, right in ("xy", "xx", "yy") if function == "corr" else ("xy",):
        name = f"{prefix}_{left}{right}"
        raw = (distances[left][0] * distances[right][0]).sum()
        moved = (n * distances[left][1] * distances[right][1]).sum()
        parts.append(Part(name, raw, pl.col(name).sum() + moved))
    product = pl.col(f"{prefix}_xy")
    if function == "corr":
        spread = (pl.col(f"{prefix}_xx") * pl.col(f"{prefix}_yy")).sqrt()
        return Split(tuple(parts), pl.when((n > 1) & (spread != 0.0)).then(product / spread))
    fewer = int(function == "covar_samp")
    return Split(tuple(parts), pl.when(n > fewer).then(product / (n - fewer)))


def _variance(arg: str, shape: Callable[[pl.Expr], pl.Expr], *, fewer: int = 1) -> Split:
    """Count, mean and M2 (sum of squared distances from the mean); `fewer` is 1 for a sample.

    Merged by Chan, Golub and LeVeque's formula for many samples.
    """
    x, count = pl.col(arg).cast(pl.Float64), _count(arg)
    n, mean, m2 = pl.col(count.name), pl.col(f"{arg}_mean"), pl.col(f"{arg}_m2")
    whole = (n * mean).sum() / n.sum().clip(lower_bound=1)
    parts = (
        count,
        Part(f"{arg}_mean", x.mean().fill_null(0.0), whole),
        Part(f"{arg}_m2", (x.var(ddof=0) * x.count()).fill_null(0.0), m2.sum() + (n * (mean - whole) ** 2).sum()),
    )
    return Split(parts, pl.when(n > fewer).then(shape(m2 / (n - fewer))))


def _extreme(arg: str, function: str, counts: str | None = None, place: str | None = None) -> Split:
    """Return the row that comes first or last by timestamp, arrival, value; NULL before all values.

    Of rows that count, if not all do. Values that have no order of their own have a place among each other.
    """
    name = "_".join([arg, *filter(None, (counts, place)), function])
    columns = {"ts": TS, "seq": SEQ, "value": arg} | ({"place": place} if place else {})
    row = pl.struct(pl.col(column).alias(field) for field, column in columns.items())
    order = [pl.col(TS), pl.col(SEQ), pl.col(place or arg)]
    if counts is not None:
        row, order = row.filter(pl.col(counts)), [key.filter(pl.col(counts)) for key in order]
    raw = row.sort_by(order, nulls_last=False)
    there = pl.col(name).filter(pl.col(name).struct.field("ts").is_not_null())
    fields = ("ts", "seq", "place" if place else "value")
    kept = there.sort_by([there.struct.field(part) for part in fields], nulls_last=False)
    if counts is not None or place is not None:
        ends = (raw.first(), kept.first()) if function == "first" else (raw.last(), kept.last())
        part = Part(name, *ends)
    elif function == "first":
        part = Part(name, raw.first(), kept.first(), kind="first", arg=arg)
    else:
        part = Part(name, raw.last(), kept.last(), kind="last", arg=arg)
    return Split((part,), pl.col(name).struct.field("value"))


def _combined(call: AggregateCall, arg: str) -> Split:
    """Return the bits that all values have, one of them, or an odd number of them; or the product."""
    name, count = f"{arg}_{call.function}", _count(arg)

    def combine(column: str) -> pl.Expr:
        x = pl.col(column).drop_nulls().cast(call.type.polars)
        match call.function:
            case "bit_and":
                return x.bitwise_and()
            case "bit_or":
                return x.bitwise_or()
            case "bit_xor":
                return x.bitwise_xor()
            case _:
                return x.product()

    return Split((count, Part(name, combine(arg), combine(name))), _unless_empty(count, pl.col(name)))


def _of_different(call: AggregateCall, names: Sequence[str]) -> Split:
    """Compute an aggregate of the different values, or rows of values, at the end."""
    args = (call.arg, *_columns(call)) if call.arg is not None else ()
    first, *more = (Column(str(i), arg.type) for i, arg in enumerate(args))
    constants = call.more[len(more) :]
    plain = AggregateCall("value", call.function.removesuffix("_distinct"), first, call.type, (*more, *constants))
    aggregates = Aggregates((), (plain,))

    def of_rows(rows: pl.DataFrame) -> pl.DataFrame:
        read = aggregates.read(rows.with_columns(pl.lit(0, pl.Int64).alias(TS)), pl.col("group"))
        partials = aggregates.fold(read, ["group"])
        return partials.select("group").hstack(aggregates.finals(partials))

    return of_different_rows(names, of_rows, call.type)


def _user(call: AggregateCall, arg: str) -> Split:
    if not is_python_target(call.function):
        raise OperatorFault(
            f"no aggregate function {call.function!r}", hint="a user's own is written 'python:module:Class'"
        )
    if call.arg is None:
        raise OperatorFault(f"the aggregate {call.function!r} takes one argument")
    user: UserAggregate = load(call.function)
    name = f"{arg}_{call.function}"
    part = Part(name, pl.col(arg).drop_nulls(), pl.col(name), user.fold, user.merge)
    dtype = call.type.polars
    return Split(
        (part,),
        pl.col(name).map_batches(lambda states: user.finish(states, dtype), return_dtype=dtype, is_elementwise=True),
    )
