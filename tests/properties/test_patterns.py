"""Patterns that are compared, intersected, written as an expression or matched against rows mean the same."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import NotSupported
from headrace.model.expressions.expression import Column
from headrace.model.patterns.match import (
    Between,
    IsNull,
    Match,
    OneOf,
    at_least,
    at_most,
    equal,
    less,
    more,
    shifted,
    turned,
    unequal,
)
from headrace.model.patterns.pattern import (
    ALL_TUPLES,
    Pattern,
    covers,
    format_pattern,
    intersect,
    is_empty,
    keep_expr,
    matches,
    pattern,
    rename,
    restrict,
    to_expr,
)
from headrace.model.types import DataType, Type
from headrace.operators.expressions.evaluate import evaluate

#: For each type, values that patterns name, and all values that matter: those, what lies between, and beyond.
DENSE: dict[DataType, tuple[list[Any], list[Any]]] = {
    Type.INT: ([0, 1, 2], [-1, 0, 1, 2, 3, None]),
    Type.TIMESTAMP: ([0, 1, 2], [-1, 0, 1, 2, 3, None]),
    Type.DOUBLE: ([0.0, 1.0, 2.0], [-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, float("inf"), float("nan"), None]),
    Type.STRING: (["b", "ba", "c"], ["", "b", "b\x00", "ba", "bb", "c", "d", None]),
    Type.BOOLEAN: ([False, True], [False, True, None]),
}


def several(values: list[Any]) -> list[Match]:
    found: list[Match] = [IsNull(), Between(), OneOf(()), OneOf(tuple(values))]
    for value in values:
        found += [less(value), at_most(value), equal(value), more(value), at_least(value), unequal(value)]
    found += [unequal(*values[:2]), OneOf(tuple(values[:2]))]
    for low, high in product(values, values):
        found += [
            Between(low, high),
            Between(low, high, open_low=True),
            Between(low, high, open_high=True, but=(values[1],)),
        ]
    return found


def rows_of(type_: DataType, values: list[Any]) -> pl.DataFrame:
    plain = pl.Int64 if type_ is Type.TIMESTAMP else type_.polars
    return pl.DataFrame({"x": pl.Series(values, dtype=plain).cast(type_.polars)})


@pytest.mark.parametrize("type_", DENSE, ids=lambda type_: type_.value)
def test_cover_and_intersection_agree_with_every_value(type_: DataType) -> None:
    named, domain = DENSE[type_]
    rows = rows_of(type_, domain)
    found = [pattern((Column("x", type_), match)) for match in several(named)]
    hits = {id(one): frozenset(i for i, hit in enumerate(matches(one, rows)) if hit) for one in found}
    for e, f in product(found, found):
        both = hits[id(e)] & hits[id(f)]
        met = intersect(e, f)
        assert frozenset(i for i, hit in enumerate(matches(met, rows)) if hit) == both, f"{e} and {f}"
        assert is_empty(met) == (not both) or type_ in (Type.DOUBLE, Type.STRING), f"{e} and {f}"
        assert not (is_empty(met) and both)
        assert covers(e, f) == (hits[id(f)] <= hits[id(e)]) or (
            type_ in (Type.DOUBLE, Type.STRING) and not covers(e, f)
        ), f"{e} over {f}"
        if covers(e, f):
            assert hits[id(f)] <= hits[id(e)], f"{e} over {f}"


@pytest.mark.parametrize("type_", DENSE, ids=lambda type_: type_.value)
def test_the_expression_is_true_where_the_pattern_matches_and_never_null(type_: DataType) -> None:
    named, domain = DENSE[type_]
    rows = rows_of(type_, domain)
    for match in several(named):
        one = pattern((Column("x", type_), match))
        told, kept = evaluate(rows, [to_expr(one), keep_expr(one)])
        assert told.to_list() == matches(one, rows).to_list(), str(one)
        assert kept.to_list() == [not hit for hit in matches(one, rows)], str(one)
        assert msgspec.json.decode(msgspec.json.encode(one), type=Pattern) == one


def test_two_attributes_256_pairs() -> None:
    x, y = Column("x", Type.INT), Column("y", Type.INT)
    each: list[Match | None] = [None, equal(1), at_most(1), more(1)]
    found = [pattern(*((c, m) for c, m in ((x, a), (y, b)) if m is not None)) for a, b in product(each, each)]
    values = [-1, 0, 1, 2, 3, None]
    rows = pl.DataFrame(list(product(values, values)), schema={"x": pl.Int32, "y": pl.Int32}, orient="row")
    hits = [set(matches(one, rows).arg_true().to_list()) for one in found]
    assert len(found) ** 2 == 256
    for (e, of_e), (f, of_f) in product(zip(found, hits, strict=True), repeat=2):
        assert covers(e, f) == (of_f <= of_e), f"{e} over {f}"
        assert set(matches(intersect(e, f), rows).arg_true().to_list()) == of_e & of_f


def test_a_comparison_never_matches_null_but_no_term_does() -> None:
    rows = rows_of(Type.INT, [None])
    for match in (less(5), at_least(-5), unequal(3), OneOf((1,)), Between()):
        assert matches(pattern((Column("x", Type.INT), match)), rows).to_list() == [False]
    assert matches(ALL_TUPLES, rows).to_list() == [True]
    assert matches(pattern((Column("x", Type.INT), IsNull())), rows).to_list() == [True]


def test_the_vectors_of_cover() -> None:
    ts, bidder, auction, amount = (Column(name, Type.BIGINT) for name in ("ts", "bidder", "auction", "amount"))
    assert covers(pattern((ts, at_most(13))), pattern((ts, less(13))))
    assert covers(pattern((ts, less(14))), pattern((ts, at_most(13))))  # whole numbers
    both = pattern((bidder, equal(2)), (auction, equal(4)))
    assert covers(pattern((auction, equal(4))), both)
    assert covers(pattern((bidder, equal(2))), both)
    assert not covers(pattern((ts, less(10**15))), pattern((amount, more(1))))
    assert not covers(both, pattern((auction, equal(4))))


def test_patterns_are_read_as_people_write_them() -> None:
    segment, at = Column("segment", Type.INT), Column("at", Type.TIMESTAMP)
    assert (
        format_pattern(pattern((segment, unequal(3)), (at, less(36_300_000_000))))
        == "at < TIMESTAMP '1970-01-01 10:05:00', segment <> 3"
    )
    assert str(pattern((segment, unequal(3, 4)))) == "segment NOT IN (3, 4)"
    assert str(pattern((segment, Between(1, 5, open_high=True)))) == "segment >= 1, segment < 5"
    assert str(pattern((segment, OneOf((1, 2))))) == "segment IN (1, 2)"
    assert str(pattern((segment, IsNull()))) == "segment IS NULL"
    assert str(pattern((segment, Between()))) == "segment IS NOT NULL"
    assert str(ALL_TUPLES) == "everything"


def test_names_change_and_terms_go() -> None:
    x, y = Column("x", Type.INT), Column("y", Type.INT)
    one = pattern((x, equal(1)), (y, equal(2)))
    assert rename(one, {"x": "z"}) == pattern((Column("z", Type.INT), equal(1)), (y, equal(2)))
    assert restrict(one, frozenset({"y"})) == pattern((y, equal(2)))
    assert covers(restrict(one, frozenset({"y"})), one)


def test_values_that_a_column_cannot_hold() -> None:
    rows = pl.DataFrame({"x": [1, 2, 3]}, schema={"x": pl.Int32})
    x = Column("x", Type.INT)
    assert matches(pattern((x, less(2.5))), rows).to_list() == [True, True, False]
    assert matches(pattern((x, more(2.0))), rows).to_list() == [False, False, True]
    assert matches(pattern((x, OneOf((1.5, 3.0)))), rows).to_list() == [False, False, True]
    single = pl.DataFrame({"x": [0.1, 0.2]}, schema={"x": pl.Float32})
    f = Column("x", Type.FLOAT)
    limits = (less(0.1), at_most(0.1), more(0.1), at_least(0.1), equal(0.1))
    double = single["x"].cast(pl.Float64)
    expected = (double < 0.1, double <= 0.1, double > 0.1, double >= 0.1, double == 0.1)
    for limit, hits in zip(limits, expected, strict=True):
        assert matches(pattern((f, limit)), single).to_list() == hits.to_list(), str(limit)


def test_only_finite_numbers_are_compared_with() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(NotSupported):
            pattern((Column("x", Type.DOUBLE), less(value)))


NUMBERS = st.integers(-4, 4)
MATCHES = st.one_of(
    st.just(IsNull()),
    st.lists(NUMBERS, max_size=4).map(lambda values: OneOf(tuple(values))),
    st.builds(
        Between,
        st.none() | NUMBERS,
        st.none() | NUMBERS,
        st.booleans(),
        st.booleans(),
        st.lists(NUMBERS, max_size=3).map(tuple),
    ),
)


@given(MATCHES, MATCHES, NUMBERS)
@settings(deadline=None, max_examples=200)
def test_any_two_matches_of_whole_numbers(e: Match, f: Match, by: int) -> None:
    domain: list[int | None] = [*range(-10, 11), None]
    rows, x = rows_of(Type.INT, domain), Column("x", Type.INT)
    one, other = pattern((x, e)), pattern((x, f))
    of_e, of_f = set(matches(one, rows).arg_true().to_list()), set(matches(other, rows).arg_true().to_list())
    assert covers(one, other) == (of_f <= of_e)
    assert set(matches(intersect(one, other), rows).arg_true().to_list()) == of_e & of_f
    assert is_empty(intersect(one, other)) == (not of_e & of_f)
    moved = matches(pattern((x, shifted(e, by))), rows.select(pl.col("x") + by))
    assert set(moved.arg_true().to_list()) == of_e
    assert (
        set(matches(pattern((x, turned(e, by))), rows.select((by - pl.col("x")).alias("x"))).arg_true().to_list())
        == of_e
    )
