"""Functions that take functions: transform, filter, exists, forall, aggregate, zip_with, and those of maps.

All elements of a page are laid out in one column, with the values of their tuples beside them. The body of the lambda
is computed on columns, once for all elements, and its results are put together again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.model.expressions.expression import Call, Cast, Column, Expr, Lambda, Literal, columns, walk
from headrace.model.limits import GROWN_ARRAY, GROWN_TEXT, SEQUENCE
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel
from headrace.operators.expressions.kernels.sizes import limited, sizes

#: Computes the body of a lambda over a frame that has its parameters and the columns that it reads.
Body: TypeAlias = Callable[[Lambda, pl.DataFrame], pl.Series]
Counts: TypeAlias = npt.NDArray[np.int64]
#: So many characters of a text count as one element.
_BYTES = GROWN_TEXT // GROWN_ARRAY
#: Texts that are filled to this length are short.
_SHORT = 100


def kernels(body: Body) -> dict[str, Kernel]:
    """Return the kernels of functions that take functions; `body` computes a lambda."""

    def kernel(work: Callable[[Arguments, _Rows], pl.Series]) -> Kernel:
        def made(args: Arguments) -> pl.Expr:
            functions = [arg for arg in args.call.args if isinstance(arg, Lambda)]
            read = sorted(set[str]().union(*map(columns, functions)))
            plain = [i for i, arg in enumerate(args.call.args) if not isinstance(arg, Lambda)]
            named = [args.compiled[i].alias(f"->{i}") for i in plain] + [pl.col(name) for name in read]

            def apply(held: pl.Series) -> pl.Series:
                frame = held.struct.unnest()
                page = _Rows(body, [frame[f"->{i}"] for i in plain], frame.select(read))
                return page.unless_too_large(work(args, page))

            return pl.struct(named).map_batches(apply, return_dtype=args.call.type.polars, is_elementwise=True)

        return made

    return {
        "transform": kernel(_transform),
        "filter": kernel(_filter),
        "exists": kernel(_exists),
        "forall": kernel(_forall),
        "aggregate": kernel(_aggregate),
        "zip_with": kernel(_zip_with),
        "map_filter": kernel(_map_filter),
        "transform_values": kernel(_transform_values),
        "transform_keys": kernel(_transform_keys),
    }


class _Rows:
    """The rows of a page: the arguments that are values, and the columns that lambdas read."""

    def __init__(self, body: Body, values: Sequence[pl.Series], read: pl.DataFrame) -> None:
        self._body, self.values, self._read = body, values, read
        self._is_too_large = np.zeros(len(values[0]), np.bool_)

    def step(self, function: Lambda, rows: Counts, *params: pl.Series) -> pl.Series:
        """Return the body for each of these rows, given the parameters beside them."""
        named = [values.alias(param.name) for param, values in zip(function.params, params, strict=False)]
        return self._body(function, self._read[rows].hstack(named) if self._read.width else pl.DataFrame(named))

    def compute(self, function: Lambda, rows: Counts, *params: pl.Series) -> pl.Series:
        """Return the same for all elements of the rows; a few at a time if they are large, up to a limit of each row.

        What such a function reads or makes, such as a sequence, would be there for all elements at once.
        """
        weights = np.cumsum(self._weights(function, rows, params))
        if not len(rows) or weights[-1] <= GROWN_ARRAY:
            return self.step(function, rows, *params)
        held = np.zeros(len(self._is_too_large), np.int64)
        found: list[pl.Series] = []
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(weights // GROWN_ARRAY)) + 1):
            if not self._is_too_large[rows[part]].all():
                values = self.step(function, rows[part], *(given[part] for given in params))
                np.add.at(held, rows[part], sizes(values))
                self._is_too_large |= held > GROWN_ARRAY
            else:
                values = pl.Series([None], dtype=function.type.polars).new_from_index(0, len(part))
            found.append(values)
        return pl.concat(found)

    def unless_too_large(self, values: pl.Series) -> pl.Series:
        """Return NULL for rows whose elements became too large."""
        if not self._is_too_large.any():
            return values
        return pl.select(pl.when(pl.Series(~self._is_too_large)).then(values)).to_series()

    def _weights(self, function: Lambda, rows: Counts, params: Sequence[pl.Series]) -> Counts:
        """Return about how much there is for each element, in elements, while the function is computed."""
        read = np.zeros(len(self._is_too_large), np.int64)
        for name in columns(function):
            read += sizes(self._read[name])
        weights = read[rows]
        inner = {id(part) for nested in walk(function.body) if isinstance(nested, Lambda) for part in walk(nested)}
        for part in walk(function.body):
            match part:
                case Literal(value=str(text)):
                    weights += len(text) // _BYTES
                case Call(function="lpad" | "rpad", args=(_, Literal(value=int(length)), *_)) if length <= _SHORT:
                    weights += 1
                case Call(function="sequence" | "repeat" | "lpad" | "rpad") if id(part) in inner:
                    weights += SEQUENCE  # for each of many
                case Call(function="repeat", args=(_, Literal(value=int(times)))):
                    repeated = read[rows] + 1
                    for values in params:
                        repeated += sizes(values)
                    weights += np.minimum(repeated * max(0, times), GROWN_ARRAY)
                case Call(function="sequence", args=(first, last, *_)) if _is_counted(first, last):
                    ends = [self.step(Lambda(function.params, end, end.type), rows, *params) for end in (first, last)]
                    steps = (ends[1].cast(pl.Int64) - ends[0].cast(pl.Int64)).abs().fill_null(0).to_numpy()
                    weights += np.where(steps < SEQUENCE, steps, 0)
                case Call(function="sequence" | "repeat" | "lpad" | "rpad"):
                    weights += SEQUENCE
                case _:
                    pass
        return weights


def _is_counted(*ends: Expr) -> bool:
    """Return whether the length of a sequence of integers can be computed before it: its ends are plain enough."""
    plain = (
        isinstance(part, Literal | Cast | Column) or (isinstance(part, Call) and part.type.is_numeric)
        for end in ends
        for part in walk(end)
    )
    return all(end.type.is_integer for end in ends) and all(plain)


class _Elements:
    """The elements of a column of arrays, one after the other, and the row that each is of."""

    def __init__(self, arrays: pl.Series) -> None:
        self._missing = arrays.is_null()
        self.lengths: Counts = arrays.list.len().fill_null(0).cast(pl.Int64).to_numpy()
        self.rows: Counts = np.repeat(np.arange(len(arrays)), self.lengths)
        self.values = arrays.filter(pl.Series(self.lengths > 0)).explode()

    def places(self) -> pl.Series:
        """Return the place of each element in its array, from 0."""
        before = np.cumsum(self.lengths) - self.lengths
        return pl.Series(np.arange(len(self.rows)) - np.repeat(before, self.lengths), dtype=pl.Int32)

    def together(self, rows: Counts, values: pl.Series) -> pl.Series:
        """Return arrays of values, given the row of each in order."""
        filled = np.unique(rows)
        empty = pl.Series("v", [[]], dtype=pl.List(values.dtype))
        frame = pl.DataFrame({"r": rows, "v": values}).group_by("r", maintain_order=True).agg("v")
        place = np.zeros(len(self.lengths), np.int64)
        place[filled] = np.arange(1, len(filled) + 1)
        return self.unless_missing(pl.concat([empty, frame["v"]])[place])

    def unless_missing(self, values: pl.Series) -> pl.Series:
        """Return NULL where the array is NULL."""
        return pl.select(pl.when(~self._missing).then(values)).to_series()

    def any_of(self, holds: pl.Series) -> npt.NDArray[np.bool_]:
        """Return for each row whether something holds of one of its elements."""
        return np.bincount(self.rows, holds.to_numpy(), len(self.lengths)) > 0


def _lambda(args: Arguments, position: int) -> Lambda:
    function = args.call.args[position]
    assert isinstance(function, Lambda)
    return function


def _each(args: Arguments, rows: _Rows) -> tuple[_Elements, pl.Series]:
    """Return the elements of the first argument, and the lambda of each of them, and maybe of its place."""
    elements = _Elements(rows.values[0])
    return elements, rows.compute(_lambda(args, 1), elements.rows, elements.values, elements.places())


def _transform(args: Arguments, rows: _Rows) -> pl.Series:
    elements, values = _each(args, rows)
    return elements.together(elements.rows, values)


def _filter(args: Arguments, rows: _Rows) -> pl.Series:
    elements, holds = _each(args, rows)
    kept = holds.fill_null(value=False)
    return elements.together(elements.rows[kept.to_numpy()], elements.values.filter(kept))


def _exists(args: Arguments, rows: _Rows) -> pl.Series:
    elements, holds = _each(args, rows)
    found, unknown = elements.any_of(holds.fill_null(value=False)), elements.any_of(holds.is_null())
    known = pl.when(pl.Series(found)).then(True).when(pl.Series(~unknown)).then(False)
    return elements.unless_missing(pl.select(known).to_series())


def _forall(args: Arguments, rows: _Rows) -> pl.Series:
    elements, holds = _each(args, rows)
    failed, unknown = elements.any_of(~holds.fill_null(value=True)), elements.any_of(holds.is_null())
    known = pl.when(pl.Series(failed)).then(False).when(pl.Series(~unknown)).then(True)
    return elements.unless_missing(pl.select(known).to_series())


def _aggregate(args: Arguments, rows: _Rows) -> pl.Series:
    """Go through all arrays at once: in each step, every array that is long enough takes in its next element."""
    elements, merge = _Elements(rows.values[0]), _lambda(args, 2)
    result = rows.values[1]
    before = np.cumsum(elements.lengths) - elements.lengths
    for step in range(int(elements.lengths.max(initial=0))):
        longer = np.flatnonzero(elements.lengths > step)
        taken = rows.step(merge, longer, result[longer], elements.values[before[longer] + step])
        place = np.arange(len(result))
        place[longer] = len(result) + np.arange(len(longer))
        result = limited(pl.concat([result, taken.alias(result.name)])[place])
    if len(args) == 4:
        result = rows.step(_lambda(args, 3), np.arange(len(result)), result)
    return elements.unless_missing(result)


def _zip_with(args: Arguments, rows: _Rows) -> pl.Series:
    """Pair elements by place; the shorter array has NULL at its end."""
    left, right = map(_Elements, rows.values)
    lengths = np.maximum(left.lengths, right.lengths)
    of_row = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(of_row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    sides = [_at(side, of_row, place) for side in (left, right)]
    values = rows.compute(_lambda(args, 2), of_row, *sides)
    return right.unless_missing(left.together(of_row, values))


def _at(side: _Elements, rows: Counts, places: Counts) -> pl.Series:
    before = np.cumsum(side.lengths) - side.lengths
    inside = places < side.lengths[rows]
    index = np.where(inside, before[rows] + places, 0)
    if not len(side.values):
        return pl.Series("v", [None], dtype=side.values.dtype)[np.zeros(len(rows), np.int64)]
    return pl.select(pl.when(pl.Series(inside)).then(side.values[index])).to_series()


def _entries(args: Arguments, rows: _Rows) -> tuple[_Elements, _Elements, pl.Series]:
    """Return the keys and values of maps, and the lambda of each pair."""
    maps = rows.values[0].to_frame("m")
    keys, values = (
        _Elements(maps.select(part).to_series()) for part in (pl.col("m").map.keys(), pl.col("m").map.values())
    )
    return keys, values, rows.compute(_lambda(args, 1), keys.rows, keys.values, values.values)


def _maps(args: Arguments, keys: pl.Series, values: pl.Series) -> pl.Series:
    """Return maps of arrays of keys and values; NULL if a key is NULL, and the last of equal keys counts."""
    made = [
        None if names is None or None in names else dict(zip(names, held, strict=True))
        for names, held in zip(keys.to_list(), values.to_list(), strict=True)
    ]
    return pl.Series(made, dtype=args.call.type.polars)


def _map_filter(args: Arguments, rows: _Rows) -> pl.Series:
    keys, values, holds = _entries(args, rows)
    kept = holds.fill_null(value=False)
    of_row = keys.rows[kept.to_numpy()]
    return _maps(
        args, keys.together(of_row, keys.values.filter(kept)), values.together(of_row, values.values.filter(kept))
    )


def _transform_values(args: Arguments, rows: _Rows) -> pl.Series:
    keys, _, changed = _entries(args, rows)
    return _maps(args, keys.together(keys.rows, keys.values), keys.together(keys.rows, changed))


def _transform_keys(args: Arguments, rows: _Rows) -> pl.Series:
    keys, values, changed = _entries(args, rows)
    return _maps(args, keys.together(keys.rows, changed), values.together(keys.rows, values.values))
