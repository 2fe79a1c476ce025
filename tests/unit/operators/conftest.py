"""What the window tests share: plain Python aggregates, and a way to run operators with restarts."""

from __future__ import annotations

import statistics
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import polars as pl
import pytest

from headrace.model.expressions.expression import Column
from headrace.model.page import Element, Page, Punctuation
from headrace.model.schema import SEQ, TS
from headrace.model.time import BEGIN
from headrace.model.types import Type
from headrace.model.window import AggregateCall
from headrace.operators.operator import Operator

_V = Column("v", Type.DOUBLE)
_TYPES = {"count": Type.BIGINT, "count_distinct": Type.BIGINT}


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


class WindowTools:
    """Calls over a column `v`, what they give in plain Python, and a runner."""

    functions = ("count", "sum", "avg", "min", "max", "stddev", "variance", "count_distinct", "first", "last")
    keys = (("k", Column("k", Type.INT)),)
    calls = (
        AggregateCall("n", "count", None, Type.BIGINT),
        *(AggregateCall(f"{name}_v", name, _V, _TYPES.get(name, Type.DOUBLE)) for name in functions),
        AggregateCall("squares", "python:headrace_window_tests:SumOfSquares", _V, Type.DOUBLE),
    )

    def page(self, rows: Sequence[dict[str, Any]]) -> Page:
        """Rows have ts, seq, k and v."""
        schema = {TS: pl.Int64, SEQ: pl.Int64, "k": pl.Int32, "v": pl.Float64}
        return Page(pl.DataFrame([(r["ts"], r["seq"], r["k"], r["v"]) for r in rows], schema=schema, orient="row"))

    def expect(self, rows: Iterable[dict[str, Any]], **more: Any) -> tuple[tuple[str, Any], ...]:
        """The result row over these tuples, `more` added, in a form that compares."""
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
            "squares": sum(value * value for value in values),
        }
        return _plain({**result, **more})

    def results(self, elements: Iterable[Element]) -> list[tuple[tuple[str, Any], ...]]:
        """All result rows, in the same form."""
        instant = pl.col("window_start", "window_end").cast(pl.Int64)
        return [
            _plain(row)
            for item in elements
            if isinstance(item, Page)
            for row in item.rows.with_columns(instant).to_dicts()
        ]

    def run(self, build: Callable[[], Sequence[Operator]], inputs: Iterable[Element | None]) -> list[Element]:
        """Push the inputs through a chain of fresh operators; None restarts it from its state. Checks promises and state on the way."""
        chain, output, promised = list(build()), [], BEGIN
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
                flow = [out for element in flow for out in self._step(operator, element)]
            for out in flow:
                if isinstance(out, Punctuation):
                    assert out.bound >= promised
                    promised = out.bound
                else:
                    assert out.rows[TS].min() >= promised
            output += flow
        return output

    def _step(self, operator: Operator, element: Element) -> list[Element]:
        return list(operator.on_page(0, element) if isinstance(element, Page) else operator.on_punctuation(0, element))


def _plain(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        sorted(
            (name, round(float(value), 6) if isinstance(value, int | float) else value) for name, value in row.items()
        )
    )


@pytest.fixture(scope="session")
def windows() -> WindowTools:
    module = types.ModuleType("headrace_window_tests")
    module.SumOfSquares = SumOfSquares  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    return WindowTools()
