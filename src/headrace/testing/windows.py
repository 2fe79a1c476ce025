"""Checks windows against plain Python: aggregates over a column `v`, what they give, and a runner with restarts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import polars as pl

from headrace.model.expressions.expression import Column, Literal
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import SEQ, TS
from headrace.model.time import BEGIN
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.operators.operator import Operator

#: A tuple with ts, seq, k and v.
Row: TypeAlias = dict[str, Any]
#: Pages, bounds that hold, and restarts (None).
History: TypeAlias = list[list[Row] | int | None]

_V = Column("v", Type.DOUBLE)
_TYPES = {"count": Type.BIGINT, "count_distinct": Type.BIGINT}
_FUNCTIONS = (
    "count", "sum", "avg", "min", "max", "stddev", "variance", "count_distinct", "first", "last", "var_pop",
    "sum_distinct", "mode",
)  # fmt: skip

KEYS = (("k", Column("k", Type.INT)),)
#: Every function of `v`, and a user's aggregate.
CALLS = (
    AggregateCall("n", "count", None, Type.BIGINT),
    *(AggregateCall(f"{name}_v", name, _V, _TYPES.get(name, Type.DOUBLE)) for name in _FUNCTIONS),
    AggregateCall("median", "percentile", _V, Type.DOUBLE, (Literal(0.5, Type.DOUBLE),)),
    AggregateCall("latest_k", "max_by", Column("k", Type.INT), Type.INT, (_V,)),
    AggregateCall("covariance", "covar_pop", _V, Type.DOUBLE, (Column("k", Type.INT),)),
    AggregateCall("squares", "python:headrace.testing.windows:SumOfSquares", _V, Type.DOUBLE),
)


class SumOfSquares:
    """A user's aggregate."""

    def zero(self) -> Any:
        return [0.0]

    def add(self, state: Any, values: list[Any]) -> Any:
        return [state[0] + sum(value * value for value in values)]

    def merge(self, left: Any, right: Any) -> Any:
        return [left[0] + right[0]]

    def finish(self, state: Any) -> Any:
        return state[0]


def page(rows: Sequence[dict[str, Any]]) -> Page:
    """Return a page of tuples."""
    schema = {TS: pl.Int64, SEQ: pl.Int64, "k": pl.Int32, "v": pl.Float64}
    return Page(pl.DataFrame([(r["ts"], r["seq"], r["k"], r["v"]) for r in rows], schema=schema, orient="row"))


def expect(rows: Iterable[dict[str, Any]], **more: Any) -> tuple[tuple[str, Any], ...]:
    """Return the result row over these tuples, with `more` added, in a form that compares."""
    ordered = sorted(rows, key=lambda row: (row["ts"], row["seq"]))
    values = [row["v"] for row in ordered if row["v"] is not None]
    result = {
        "n": len(ordered),
        "count_v": len(values),
        "sum_v": sum(values) if values else None,
        "avg_v": statistics.fmean(values) if values else None,
        "min_v": min(values, default=None),
        "max_v": max(values, default=None),
        "stddev_v": statistics.stdev(values) if len(values) > 1 else None,
        "variance_v": statistics.variance(values) if len(values) > 1 else None,
        "count_distinct_v": len(set(values)),
        "first_v": ordered[0]["v"],
        "last_v": ordered[-1]["v"],
        "var_pop_v": statistics.pvariance(values) if values else None,
        "sum_distinct_v": sum(set(values)) if values else None,
        "mode_v": min(statistics.multimode(values), default=None),
        "median": statistics.median(values) if values else None,
        "latest_k": _at_greatest(ordered),
        "covariance": _covariance([(row["v"], row["k"]) for row in ordered if None not in (row["v"], row["k"])]),
        "squares": sum(value * value for value in values),
    }
    return _plain({**result, **more})


def _at_greatest(rows: Sequence[Row]) -> int | None:
    """Return the k where v is greatest; of several the least, None before all."""
    known = [row for row in rows if row["v"] is not None]
    keys = [row["k"] for row in known if row["v"] == max(other["v"] for other in known)]
    return None if None in keys else min(keys, default=None)


def _covariance(pairs: Sequence[tuple[float, float]]) -> float | None:
    if not pairs:
        return None
    means = [statistics.fmean(pair[i] for pair in pairs) for i in (0, 1)]
    return statistics.fmean((x - means[0]) * (y - means[1]) for x, y in pairs)


def results(elements: Iterable[Element]) -> list[tuple[tuple[str, Any], ...]]:
    """Return all result rows in the same form."""
    instant = pl.col("window_start", "window_end").cast(pl.Int64)
    return [
        _plain(row) for item in elements if isinstance(item, Page) for row in item.rows.with_columns(instant).to_dicts()
    ]


def run(build: Callable[[], Sequence[Operator]], inputs: Iterable[Element | None]) -> list[Element]:
    """Push inputs through a chain of new operators; None restarts it from its state.

    Assert on the way that bounds hold and that state which did not change is the same.
    """
    chain, bound = list(build()), BEGIN
    output: list[Element] = []
    for item in inputs:
        if item is None:
            saved = [operator.state() for operator in chain]
            again = [operator.state() for operator in chain]
            assert all(
                a.keys() == b.keys() and all(a[name] is b[name] for name in a)
                for a, b in zip(saved, again, strict=True)
            )
            chain = list(build())
            for operator, state in zip(chain, saved, strict=True):
                operator.restore({name: Page.decode(Page(chunk).encode()).rows for name, chunk in state.items()})
            continue
        flow: list[Element] = [item]
        for operator in chain:
            flow = [out for element in flow for out in _step(operator, element)]
        for out in flow:
            if isinstance(out, Punctuation):
                assert out.bound >= bound
                bound = out.bound
            elif isinstance(out, Page):
                assert all(ts >= bound for ts in out.rows[TS])
        output += flow
    return output


def _step(operator: Operator, element: Element) -> list[Element]:
    return list(operator.on_element(0, element))


def inputs_of(history: History) -> list[Element | None]:
    """Return the elements of a history; a restart is None."""
    elements: list[Element | None] = []
    for item in history:
        match item:
            case None:
                elements.append(None)
            case int():
                elements.append(Punctuation(item))
            case list():
                elements.append(page(item))
    return elements


def _plain(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        sorted(
            # fewer digits would have ties, such as 0.0703125, which the last bit decides
            (name, round(float(value), 12) if isinstance(value, int | float) else value)
            for name, value in row.items()
        )
    )
