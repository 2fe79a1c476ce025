from __future__ import annotations

import statistics
import sys
import types
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import OperatorFault
from headrace.model.expressions.expression import Cast, Column, Literal
from headrace.model.expressions.functions import AGGREGATES, COMPUTED_BY
from headrace.model.schema import SEQ, TS
from headrace.model.types import DataType, Type
from headrace.model.window import AggregateCall
from headrace.operators.windows.aggregates import Aggregates

X = Column("x", Type.DOUBLE)


def aggregate(calls: tuple[AggregateCall, ...], *pieces: pl.DataFrame) -> dict[str, Any]:
    """Fold each piece, merge the partials, finish."""
    aggregates = Aggregates((), calls)
    one = pl.lit(0, pl.Int64).alias("g")
    partials = pl.concat([aggregates.fold(aggregates.read(piece, one), ["g"]) for piece in pieces])
    merged = aggregates.merge(partials, ["g"])
    zero = pl.lit(0, pl.Int64)
    return aggregates.results(merged, start=zero, end=zero, stamp=zero).row(0, named=True)


def frame(values: list[Any], dtype: Any = pl.Float64, start: int = 0, seq: bool = True) -> pl.DataFrame:
    made = pl.DataFrame(
        {"x": pl.Series(values, dtype=dtype), TS: pl.Series(range(start, start + len(values)), dtype=pl.Int64)}
    )
    return made.with_columns(pl.col(TS).alias(SEQ)) if seq else made


def call(function: str, type_: DataType, arg: Any = X) -> tuple[AggregateCall, ...]:
    return (AggregateCall("a", function, arg, type_),)


def listed() -> Iterator[AggregateCall]:
    """Return a call of every aggregate that has parts of its own."""
    for name, function in AGGREGATES.items():
        if name not in COMPUTED_BY:
            more = (
                (Literal(0.5, Type.DOUBLE),) if name.startswith("percentile") else (X,) if function.least == 2 else ()
            )
            arg = Cast(X, Type.BIGINT) if name.startswith("bit_") else X
            type_ = function.typing([arg.type] * max(1, function.least))
            assert type_ is not None
            yield AggregateCall("a", name, arg, type_, more)


def test_every_listed_aggregate_can_be_split() -> None:
    for call_ in listed():
        assert "a" in aggregate((call_,), frame([1.0]), frame([2.0]))


def test_over_nothing_but_null_counts_are_zero_and_others_null() -> None:
    for call_ in listed():
        empty = {"count": 0, "count_distinct": 0, "shed_error": 0.0, "collect_list": [], "collect_set": []}
        nothing = empty.get(call_.function)
        assert aggregate((call_,), frame([None, None]), frame([None]))["a"] == nothing, call_.function


def test_the_sum_of_ints_is_a_bigint_that_does_not_overflow_at_32_bits() -> None:
    found = aggregate(
        call("sum", Type.BIGINT, Column("x", Type.INT)), frame([2**31 - 1, 2**31 - 1], pl.Int32), frame([5], pl.Int32)
    )
    assert found["a"] == 2**32 + 3


def test_a_literal_argument_counts_for_every_row() -> None:
    assert aggregate(call("sum", Type.BIGINT, Literal(2, Type.INT)), frame([1.0, None, 3.0]), frame([4.0]))["a"] == 8


def test_variance_is_sound_far_from_zero() -> None:
    values = [1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16]
    found = aggregate(call("variance", Type.DOUBLE), frame(values[:1]), frame(values[1:]), frame([None]))
    assert found["a"] == pytest.approx(30.0, rel=1e-12)


def test_nan_is_the_greatest_number() -> None:
    assert str(aggregate(call("max", Type.DOUBLE), frame([1.0]), frame([float("nan"), 2.0]))["a"]) == "nan"
    assert aggregate(call("min", Type.DOUBLE), frame([1.0]), frame([float("nan"), 2.0]))["a"] == 1.0


def test_distinct_values_are_counted_once_over_all_pieces() -> None:
    strings = Column("x", Type.STRING)
    found = aggregate(
        call("count_distinct", Type.BIGINT, strings),
        frame(["a", "b", None], pl.String),
        frame(["b", "c", "c"], pl.String),
    )
    assert found["a"] == 3


def test_first_and_last_go_by_timestamp_then_arrival_and_may_be_null() -> None:
    early = pl.DataFrame({"x": [None, 5.0], TS: [1, 1], SEQ: [7, 8]}, schema_overrides={"x": pl.Float64})
    late = pl.DataFrame({"x": [6.0, None], TS: [2, 2], SEQ: [9, 10]})
    calls = (AggregateCall("a", "first", X, Type.DOUBLE), AggregateCall("b", "last", X, Type.DOUBLE))
    found = aggregate(calls, late, early)
    assert (found["a"], found["b"]) == (None, None)
    found = aggregate(calls, late.filter(pl.col(SEQ) == 9), early.filter(pl.col(SEQ) == 8))
    assert (found["a"], found["b"]) == (5.0, 6.0)


def test_without_arrival_ties_break_by_value_however_rows_are_cut() -> None:
    rows = [pl.DataFrame({"x": [value], TS: [0]}, schema={"x": pl.Float64, TS: pl.Int64}) for value in (3.0, 1.0, 2.0)]
    for pieces in (rows, rows[::-1], [pl.concat(rows)]):
        assert aggregate(call("first", Type.DOUBLE), *pieces)["a"] == 1.0
        assert aggregate(call("last", Type.DOUBLE), *pieces)["a"] == 3.0


def test_calls_share_the_parts_of_equal_arguments() -> None:
    calls = tuple(AggregateCall(name, name, X, Type.DOUBLE) for name in ("sum", "avg")) + call("count", Type.BIGINT)
    assert len(Aggregates((), calls).parts) == 2


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), min_size=1, max_size=6))
def test_merged_variance_agrees_with_the_textbook(pieces: list[list[float]]) -> None:
    values = [value for piece in pieces for value in piece]
    found = aggregate(call("variance", Type.DOUBLE), *(frame(piece) for piece in pieces))["a"]
    expected = statistics.variance(values) if len(values) > 1 else None
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-9, abs=1e-6))


class Longest:
    """A user's aggregate: the longest string."""

    def zero(self) -> Any:
        return {"best": ""}

    def add(self, state: Any, values: list[Any]) -> Any:
        return {"best": max([state["best"], *values], key=len)}

    def merge(self, left: Any, right: Any) -> Any:
        return max(left, right, key=lambda state: len(state["best"]))

    def finish(self, state: Any) -> Any:
        return state["best"]


class Failing(Longest):
    def add(self, state: Any, values: list[Any]) -> Any:
        raise ZeroDivisionError("oops")


class Unkeepable(Longest):
    def add(self, state: Any, values: list[Any]) -> Any:
        return object()


class Incomplete:
    def zero(self) -> Any:
        return 0


@pytest.fixture
def user_module(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("headrace_user_aggregates")
    for defined in (Longest, Failing, Unkeepable, Incomplete):
        setattr(module, defined.__name__, defined)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return f"python:{module.__name__}"


def test_a_users_aggregate_runs_in_pieces(user_module: str) -> None:
    strings = Column("x", Type.STRING)
    found = aggregate(
        call(f"{user_module}:Longest", Type.STRING, strings),
        frame(["a", None], pl.String),
        frame(["bcd", "ef"], pl.String),
    )
    assert found["a"] == "bcd"


@pytest.mark.parametrize(("name", "said"), [("Missing", "cannot load"), ("Incomplete", "lacks add, merge, finish")])
def test_a_users_aggregate_that_cannot_be_had_is_told_at_build(user_module: str, name: str, said: str) -> None:
    with pytest.raises(OperatorFault, match=said):
        Aggregates((), call(f"{user_module}:{name}", Type.STRING))


@pytest.mark.parametrize(
    ("name", "said"), [("Failing", "ZeroDivisionError: oops"), ("Unkeepable", "a state cannot be kept")]
)
def test_a_users_aggregate_that_fails_is_named(user_module: str, name: str, said: str) -> None:
    with pytest.raises(OperatorFault, match=f"{name}.*{said}"):
        aggregate(call(f"{user_module}:{name}", Type.STRING), frame([1.0]))


def test_a_missing_module_and_an_unknown_function_are_told_at_build() -> None:
    with pytest.raises(OperatorFault, match="no_such_module"):
        Aggregates((), call("python:no_such_module:Thing", Type.STRING))
    with pytest.raises(OperatorFault, match="no aggregate function 'median'"):
        Aggregates((), call("median", Type.DOUBLE))
