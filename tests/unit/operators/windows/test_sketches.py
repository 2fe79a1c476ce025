"""Approximate aggregates of large groups: how far off they are, what they keep, and that nothing else matters."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest

from headrace.model.expressions.expression import Column, Literal
from headrace.model.schema import TS
from headrace.model.sketch import DIFFERENT_VALUES, VALUES
from headrace.model.types import DataType, DecimalType, Type
from headrace.model.window import AggregateCall
from headrace.operators.windows.aggregates import Aggregates
from headrace.testing.oracle.expressions import aggregate_of

MONEY = DecimalType(10, 2)


def call(function: str, type_: DataType, share: float | None = None) -> AggregateCall:
    more = () if share is None else (Literal(share, Type.DOUBLE),)
    return AggregateCall("a", function, Column("x", type_), type_ if share is not None else Type.BIGINT, more)


def partials(aggregates: Aggregates, values: Sequence[Any], type_: DataType, cuts: Sequence[int]) -> pl.DataFrame:
    """Fold the values between cuts by themselves, and merge what comes of them one after the other."""
    rows = pl.DataFrame({"x": pl.Series(values, dtype=type_.polars), TS: range(len(values))}, strict=False)
    key = pl.lit(1).alias("k")
    parts = [
        aggregates.fold(aggregates.read(rows.slice(start, stop - start), key), ["k"])
        for start, stop in zip((0, *cuts), (*cuts, len(values)), strict=True)
        if stop > start
    ]
    merged = parts[0]
    for part in parts[1:]:
        merged = aggregates.merge(pl.concat([merged, part]), ["k"])
    return aggregates.merge(merged, ["k"])


def value(wanted: AggregateCall, values: Sequence[Any], type_: DataType, cuts: Sequence[int] = ()) -> Any:
    aggregates = Aggregates((), (wanted,))
    return aggregates.finals(partials(aggregates, values, type_, cuts))["a"].item()


def drawn(kind: str, count: int) -> tuple[list[Any], DataType]:
    chance = np.random.default_rng(7)
    match kind:
        case "lognormal":
            return chance.lognormal(0, 4, count).tolist(), Type.DOUBLE
        case "both signs":
            return (chance.normal(0, 1, count) ** 5).tolist(), Type.DOUBLE
        case "whole numbers":
            return chance.integers(-(10**12), 10**12, count).tolist(), Type.BIGINT
        case "small numbers":
            return chance.integers(-100, 100, count).tolist(), Type.INT
        case _:
            return [Decimal(int(n)).scaleb(-2) for n in chance.integers(1, 10**8, count)], MONEY


@pytest.mark.parametrize("kind", ["lognormal", "both signs", "whole numbers", "small numbers", "money"])
@pytest.mark.parametrize("count", [1, VALUES, VALUES + 1])
def test_a_percentile_is_exact_in_small_groups_and_within_one_percent_in_large_ones(kind: str, count: int) -> None:
    values, type_ = drawn(kind, count)
    for share in (0.0, 0.01, 0.5, 0.99, 1.0):
        found = value(call("approx_percentile", type_, share), values, type_, [count // 3, count // 2])
        exact = value(call("percentile_disc", type_, share), values, type_)
        assert abs(found - exact) <= (abs(exact) / 128 if count > VALUES else 0)
    assert found == aggregate_of(call("approx_percentile", type_, share), [{"x": x} for x in values])


def test_small_whole_numbers_and_special_values_are_exact_in_large_groups() -> None:
    many = list(range(-127, 128)) * 40
    for share in (0.0, 0.1, 0.3, 0.7, 1.0):
        assert value(call("approx_percentile", Type.INT, share), many, Type.INT) == value(
            call("percentile_disc", Type.INT, share), many, Type.INT
        )
    odd = [-np.inf, -0.0, 0.0, np.inf, np.nan] * 2_000
    shares = {0.1: -np.inf, 0.5: 0.0, 0.7: np.inf}
    assert {share: value(call("approx_percentile", Type.DOUBLE, share), odd, Type.DOUBLE) for share in shares} == shares
    assert np.isnan(value(call("approx_percentile", Type.DOUBLE, 1.0), odd, Type.DOUBLE))
    most = [2**63 - 1, -(2**63) + 1] * 3_000
    assert value(call("approx_percentile", Type.BIGINT, 0.9), most, Type.BIGINT) == pytest.approx(2**63, rel=0.01)


def test_a_count_of_different_values_is_exact_in_small_groups_and_close_in_large_ones() -> None:
    wanted = call("approx_count_distinct", Type.BIGINT)
    assert value(wanted, [*range(DIFFERENT_VALUES), None] * 2, Type.BIGINT) == DIFFERENT_VALUES
    errors = []
    for count in (DIFFERENT_VALUES + 1, 10_000, 30_000, 100_000):
        for begin in (0, 10**9, 10**15):
            values = list(range(begin, begin + count))
            errors.append(value(wanted, values, Type.BIGINT, [count // 2]) / count - 1)
    values = list(range(DIFFERENT_VALUES + 1))
    assert value(wanted, values, Type.BIGINT) == aggregate_of(wanted, [{"x": x} for x in values])
    assert max(map(abs, errors)) < 0.05, "three standard errors"
    assert np.mean(np.square(errors)) ** 0.5 < 0.025


@pytest.mark.parametrize("function", ["approx_percentile", "approx_count_distinct"])
def test_how_tuples_are_divided_changes_nothing(function: str) -> None:
    values, type_ = drawn("lognormal", 12_000)
    wanted = call(function, type_, 0.9 if function == "approx_percentile" else None)
    aggregates = Aggregates((), (wanted,))
    whole = aggregates.finals(partials(aggregates, values, type_, [])).item()
    for cuts in ([1], [6_000], [100, 200, 4_500, 11_900], list(range(500, 12_000, 500)), list(range(11_000, 11_100))):
        assert aggregates.finals(partials(aggregates, values, type_, cuts)).item() == whole


def test_state_has_a_bound() -> None:
    values, type_ = drawn("lognormal", 200_000)
    for function, share, most in (("approx_percentile", 0.5, 64 * 70), ("approx_count_distinct", None, 4096)):
        aggregates = Aggregates((), (call(function, type_, share),))
        kept = partials(aggregates, values, type_, [100_000])
        (name,) = [part.name for part in aggregates.parts]
        assert kept[name].list.len().item() <= most  # of 70 octaves, which have 64 steps each; and of the registers


def test_groups_without_values_have_no_percentile_and_no_different_values() -> None:
    assert value(call("approx_percentile", Type.INT, 0.5), [None, None], Type.INT) is None
    assert value(call("approx_count_distinct", Type.INT), [None, None], Type.INT) == 0
