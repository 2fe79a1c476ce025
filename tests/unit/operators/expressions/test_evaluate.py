"""One table of cases for each function: rows of arguments and the results they must give."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import NotSupported, TypeFault
from headrace.model.expressions.expression import Call, Case, Cast, Column, Expr, Literal
from headrace.model.expressions.functions import FUNCTIONS
from headrace.model.time import parse_instant
from headrace.model.types import ArrayType, DataType, Type, can_cast
from headrace.operators.expressions.evaluate import compile_expr, compile_predicate, evaluate
from headrace.operators.expressions.kernels import KERNELS
from headrace.operators.expressions.kernels.conversion import convert

B, INT, L, F, D, S = Type.BOOLEAN, Type.INT, Type.BIGINT, Type.FLOAT, Type.DOUBLE, Type.STRING
T, DAY, V, N = Type.TIMESTAMP, Type.DATE, Type.INTERVAL, Type.NULL
MAX, MIN = 2**63 - 1, -(2**63)
NAN, INF = math.nan, math.inf


def lit(value: Any, type_: DataType) -> Literal:
    return Literal(value, type_)


def at(text: str) -> int:
    return parse_instant(text)


def day(text: str) -> int:
    return parse_instant(text) // 86_400_000_000


def series(name: str, values: list[Any], type_: DataType) -> pl.Series:
    if type_ is N:
        return pl.Series(name, values, dtype=pl.Null)
    physicals: dict[DataType, Any] = {T: pl.Int64, V: pl.Int64, DAY: pl.Int32}
    physical = physicals.get(type_, type_.polars)
    return pl.Series(name, values, dtype=physical).cast(type_.polars)


def plain(column: pl.Series) -> list[Any]:
    return column.to_physical().to_list()


def run(expr: Expr, frame: pl.DataFrame) -> list[Any]:
    column = evaluate(frame, [expr])[0]
    assert column.dtype == expr.type.polars
    assert len(column) == frame.height
    return plain(column)


def same(got: Any, want: Any) -> bool:
    if isinstance(want, float) and isinstance(got, float):
        return (math.isnan(got) and math.isnan(want)) or got == want or math.isclose(got, want, rel_tol=1e-14)
    return type(got) is type(want) and got == want


def call(name: str, *args: Expr) -> Call:
    type_ = FUNCTIONS[name].typing([arg.type for arg in args])
    assert type_ is not None, f"{name} does not take {[arg.type for arg in args]}"
    return Call(name, args, type_)


# (function, argument types or literals, rows of column values, results)
CASES: list[tuple[str, list[Any], list[tuple[Any, ...]], list[Any]]] = [
    ("and", [B, B], [(True, True), (True, False), (False, None), (True, None), (None, None)],
     [True, False, False, None, None]),
    ("and", [B, lit(None, N)], [(True,), (False,)], [None, False]),
    ("or", [B, B], [(True, None), (False, False), (False, None), (None, None)], [True, False, None, None]),
    ("not", [B], [(True,), (False,), (None,)], [False, True, None]),
    ("=", [INT, L], [(1, 1), (1, 2), (None, 1), (None, None)], [True, False, None, None]),
    ("=", [S, S], [("é", "é"), ("", ""), ("", None)], [True, True, None]),
    ("=", [DAY, T], [(day("2024-01-02"), at("2024-01-02")), (0, 1)], [True, False]),
    ("=", [D, lit(None, N)], [(1.0,)], [None]),
    ("<>", [L, D], [(1, 1.0), (1, 1.5), (None, 1.0)], [False, True, None]),
    ("<", [L, D], [(1, 1.5), (2, 1.5), (-3, -2.5), (1, None)], [True, False, True, None]),
    ("<", [S, S], [("a", "b"), ("Z", "a"), ("", "a"), ("é", "z")], [True, True, True, False]),
    ("<=", [T, T], [(-5, -5), (1, 0)], [True, False]),
    (">", [DAY, T], [(1, 86_400_000_000), (1, 86_399_999_999)], [False, True]),
    (">=", [F, INT], [(1.5, 1), (0.5, 1), (None, 1)], [True, False, None]),
    ("<=>", [INT, L], [(1, 1), (None, None), (None, 1), (2, 1)], [True, True, False, False]),
    ("<=>", [S, lit(None, N)], [("a",), (None,)], [False, True]),
    ("is_null", [S], [("",), (None,)], [False, True]),
    ("in", [L, lit(1, INT), lit(2, L)], [(1,), (3,), (None,)], [True, False, None]),
    ("in", [L, lit(1, INT), lit(None, N)], [(1,), (3,), (None,)], [True, None, None]),
    ("in", [S, S, lit("x", S)], [("a", "a"), ("x", None), ("b", None), ("b", "a")], [True, True, None, False]),
    ("in", [T, lit(5, T), lit(0, DAY)], [(5,), (0,), (1,)], [True, True, False]),
    ("in", [L, lit(None, N)], [(1,)], [None]),
    ("coalesce", [INT, L, lit(9, INT)], [(1, 2), (None, 2), (None, None)], [1, 2, 9]),
    ("coalesce", [S], [(None,), ("",)], [None, ""]),
    ("coalesce", [lit(None, N), S], [("a",)], ["a"]),
    ("nullif", [INT, D], [(1, 1.0), (1, 2.0), (None, 1.0), (1, None)], [None, 1, None, 1]),
    ("nullif", [S, S], [("a", "a"), ("a", "b")], [None, "a"]),
    ("greatest", [INT, D], [(1, 2.5), (None, 1.0), (3, None), (1, NAN)], [2.5, 1.0, 3.0, NAN]),
    ("greatest", [S, S, S], [("a", None, "b"), (None, None, None)], ["b", None]),
    ("least", [L, L], [(1, -2), (None, 5), (None, None)], [-2, 5, None]),
    ("least", [D, D], [(NAN, 1.0)], [1.0]),
    ("least", [D, D], [(NAN, None), (NAN, NAN)], [NAN, NAN]),
    ("greatest", [B, B], [(True, False), (None, False), (None, None)], [True, False, None]),
    ("greatest", [F, F], [(1.5, 2.5), (1.5, NAN), (None, 0.5)], [2.5, NAN, 0.5]),
    ("least", [B, B, B], [(True, False, None)], [False]),
    ("least", [S, S], [("b", "a"), (None, "")], ["a", ""]),
    ("greatest", [INT, INT], [(-1, -2), (None, 3)], [-1, 3]),
    ("greatest", [DAY, T], [(1, 5)], [86_400_000_000]),
    ("least", [V, V], [(1, 5)], [1]),
    ("in", [lit(2, INT), L, L], [(1, 2), (1, None), (None, 2)], [True, None, True]),
    ("in", [D, lit(1, INT), lit(NAN, D)], [(1.0,), (NAN,), (2.0,)], [True, True, False]),
    ("in", [B, lit(True, B)], [(True,), (False,), (None,)], [True, False, None]),
    ("in", [DAY, lit(3, DAY), lit(4, DAY)], [(3,), (5,)], [True, False]),
    ("coalesce", [V, lit(7, V)], [(None,), (1,)], [7, 1]),
    ("nullif", [B, lit(None, N)], [(True,)], [True]),
    ("least", [T, DAY], [(5, 0)], [0]),
    ("+", [INT, INT], [(2**31 - 1, 1), (None, 1), (-3, 1)], [2**31, None, -2]),
    ("+", [L, L], [(MAX, 1)], [MIN]),
    ("+", [L, D], [(1, 0.5)], [1.5]),
    ("+", [F, INT], [(0.5, 1)], [1.5]),
    ("+", [T, V], [(at("2024-01-01"), 1_000_000), (None, 1)], [at("2024-01-01 00:00:01"), None]),
    ("+", [V, T], [(-1, 0)], [-1]),
    ("+", [DAY, V], [(1, 5)], [86_400_000_005]),
    ("+", [V, V], [(1, -3)], [-2]),
    ("-", [L, INT], [(1, 3), (MIN, 1), (1, None)], [-2, MAX, None]),
    ("-", [T, T], [(5, 7)], [-2]),
    ("-", [T, V], [(5, 7)], [-2]),
    ("-", [DAY, V], [(0, 7)], [-7]),
    ("-", [V, V], [(5, 7)], [-2]),
    ("*", [INT, L], [(-3, 4), (2, MAX), (None, 1)], [-12, -2, None]),
    ("*", [D, lit(None, N)], [(2.0,)], [None]),
    ("/", [INT, INT], [(7, 2), (-7, 2), (1, 0), (0, 0), (None, 1)], [3.5, -3.5, None, None, None]),
    ("/", [D, lit(0.0, D)], [(1.0,)], [None]),
    ("%", [INT, INT], [(7, 3), (-7, 3), (7, -3), (-7, -3), (7, 0), (None, 3), (6, -3)], [1, -1, 1, -1, None, None, 0]),
    ("%", [L, L], [(MIN, -1)], [0]),
    ("%", [D, D], [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (1.0, 0.0), (None, 2.0), (1.0, None), (1e17, 3.0)],
     [1.5, -1.5, 1.5, None, None, None, 1.0]),
    ("div", [INT, L], [(7, 2), (-7, 2), (7, -2), (-7, -2), (7, 0), (6, -3), (None, 1)], [3, -3, -3, 3, None, -2, None]),
    ("neg", [INT], [(5,), (-(2**31),), (None,)], [-5, 2**31, None]),
    ("neg", [D], [(1.5,)], [-1.5]),
    ("abs", [INT], [(-5,), (5,), (None,)], [5, 5, None]),
    ("abs", [D], [(-0.5,)], [0.5]),
    ("sign", [L], [(-7,), (0,), (9,), (None,)], [-1.0, 0.0, 1.0, None]),
    ("sign", [D], [(-0.5,)], [-1.0]),
    ("round", [D], [(0.5,), (-0.5,), (2.5,), (-2.5,), (1.4999,), (None,), (0.49999999999999994,)],
     [1.0, -1.0, 3.0, -3.0, 1.0, None, 0.0]),
    ("round", [D, lit(2, INT)], [(2.675,), (1.005,), (-1.005,), (0.125,), (1e300,), (NAN,), (INF,), (None,), (0.0,)],
     [2.68, 1.01, -1.01, 0.13, 1e300, NAN, INF, None, 0.0]),
    ("round", [INT, lit(2, INT)], [(7,), (None,)], [7, None]),
    ("round", [L], [(-7,)], [-7]),
    ("floor", [D], [(1.7,), (-1.2,), (None,), (1e30,)], [1, -2, None, None]),
    ("floor", [INT], [(-3,)], [-3]),
    ("ceil", [D], [(1.2,), (-1.7,), (None,)], [2, -1, None]),
    ("sqrt", [L], [(9,), (-1,), (None,)], [3.0, NAN, None]),
    ("exp", [INT], [(0,), (1,), (None,)], [1.0, math.e, None]),
    ("ln", [D], [(math.e,), (0.0,), (-1.0,), (None,)], [1.0, None, None, None]),
    ("log10", [L], [(1000,), (0,), (-5,), (None,)], [3.0, None, None, None]),
    ("log2", [D], [(8.0,), (0.5,), (0.0,)], [3.0, -1.0, None]),
    ("pow", [INT, INT], [(2, 10), (2, -1), (None, 1), (1, None)], [1024.0, 0.5, None, None]),
    ("pow", [D, lit(0.5, D)], [(9.0,), (-1.0,)], [3.0, NAN]),
    ("sin", [D], [(0.0,), (math.pi / 2,), (None,)], [0.0, 1.0, None]),
    ("cos", [INT], [(0,), (None,)], [1.0, None]),
    ("tan", [D], [(0.0,), (1.0,)], [0.0, math.tan(1.0)]),
    ("||", [S, S], [("a", "é"), ("", ""), ("a", None)], ["aé", "", None]),
    ("||", [S, INT, D, B, DAY], [("x", -1, 1.0, True, 0)], ["x-11.0true1970-01-01"]),
    ("upper", [S], [("aéß",), ("",), (None,)], ["AÉSS", "", None]),
    ("lower", [S], [("AÉ",), ("",), (None,)], ["aé", "", None]),
    ("length", [S], [("añ😀",), ("",), (None,)], [3, 0, None]),
    ("substring", [S, lit(2, INT)], [("añb",), ("a",), ("",), (None,)], ["ñb", "", "", None]),
    ("substring", [S, INT, L],
     [("añbc", 2, 2), ("abc", 1, 0), ("abc", 1, -1), ("abc", None, 1), ("abc", 1, None), ("abc", 9, 1)],
     ["ñb", "", "", None, None, ""]),
    ("left", [S, INT], [("añb", 2), ("a", 5), ("abc", 0), ("abc", -1), ("abc", None), (None, 1)],
     ["añ", "a", "", "", None, None]),
    ("right", [S, INT], [("añb", 2), ("a", 5), ("abc", 0), ("abc", -1), ("abc", None), (None, 1)],
     ["ñb", "a", "", "", None, None]),
    ("trim", [S], [("  a b ",), ("",), (" \t ",), (None,)], ["a b", "", "\t", None]),
    ("ltrim", [S], [("  a ",), (None,)], ["a ", None]),
    ("rtrim", [S], [("  a ",), (None,)], ["  a", None]),
    ("replace", [S, lit("a.", S), lit("$0", S)], [("xa.a.y",), ("ab",), ("",), (None,)], ["x$0$0y", "ab", "", None]),
    ("replace", [S, lit("", S), lit("z", S)], [("ab",)], ["ab"]),
    ("replace", [S, S, S], [("aba", "a", "éé"), ("ab", "", "z"), ("ab", None, "z"), ("ab", "a", None)],
     ["éébéé", "ab", None, None]),
    ("replace", [S, lit("a", S), S], [("aba", "c"), ("aba", None)], ["cbc", None]),
    ("starts_with", [S, S], [("éa", "é"), ("a", ""), ("", "a"), ("a", None), (None, "a")],
     [True, True, False, None, None]),
    ("ends_with", [S, lit("b", S)], [("ab",), ("ba",), (None,)], [True, False, None]),
    ("contains", [S, S], [("a.c", "."), ("abc", "."), ("a", ""), (None, "a"), ("a", None)],
     [True, False, True, None, None]),
    ("position", [lit("b", S), S], [("ñb",), ("bb",), ("x",), ("",), (None,)], [2, 1, 0, 0, None]),
    ("position", [lit("", S), S], [("x",), ("",), (None,)], [1, 1, None]),
    ("position", [lit(None, S), S], [("x",)], [None]),
    ("reverse", [S], [("añb",), ("e\u0301x",), ("",), (None,)], ["bña", "x\u0301e", "", None]),
    ("lpad", [S, lit(4, INT), lit("é", S)], [("ab",), ("abcdef",), ("",), (None,)], ["ééab", "abcd", "éééé", None]),
    ("rpad", [S, lit(3, INT), lit("-", S)], [("ñ",), ("abcdef",), (None,)], ["ñ--", "abc", None]),
    ("rpad", [S, lit(-1, INT), lit("-", S)], [("ñ",)], [""]),
    ("split_part", [S, lit(".", S), lit(2, INT)], [("a.b.c",), ("a",), ("a..c",), ("",), (None,)],
     ["b", "", "", "", None]),
    ("split_part", [S, lit("", S), lit(1, INT)], [("ab",), (None,)], ["ab", None]),
    ("like", [S, lit("a_%c", S)], [("abc",), ("axxc",), ("ac",), ("abcd",), ("a\nc",), ("aéc",), (None,)],
     [True, True, False, False, True, True, None]),
    ("like", [S, lit("50\\%.*", S)], [("50%.*",), ("50x.*",), ("50%xx",)], [True, False, False]),
    ("like", [S, lit("a\\_b\\\\", S)], [("a_b\\",), ("axb\\",)], [True, False]),
    ("like", [S, lit("", S)], [("",), ("a",)], [True, False]),
    ("like", [S, lit("%", S)], [("",), ("a\n",), (None,)], [True, True, None]),
    ("like", [S, lit(None, N)], [("",)], [None]),
    ("ilike", [S, lit("É%", S)], [("éa",), ("Éb",), ("e",), (None,)], [True, True, False, None]),
    ("rlike", [S, lit("b+$", S)], [("abb",), ("ba",), ("",), (None,)], [True, False, False, None]),
    ("regexp_extract", [S, lit("(\\d+)-(\\d+)?", S)], [("x12-3",), ("none",), (None,)], ["12", "", None]),
    ("regexp_extract", [S, lit("(\\d+)-(\\d+)?", S), lit(2, INT)], [("x12-",), ("1-7",)], ["", "7"]),
    ("regexp_extract", [S, lit("\\d+", S), lit(0, INT)], [("x12-",)], ["12"]),
    ("year", [T], [(at("2024-02-29 23:59:59"),), (-1,), (None,)], [2024, 1969, None]),
    ("year", [DAY], [(day("2024-02-29"),)], [2024]),
    ("quarter", [T], [(at("2024-04-01"),), (-1,)], [2, 4]),
    ("month", [DAY], [(day("2024-12-01"),), (None,)], [12, None]),
    ("week", [T], [(at("2021-01-03"),), (at("2021-01-04"),)], [53, 1]),
    ("day", [T], [(at("2024-02-29"),)], [29]),
    ("dayofweek", [DAY], [(day("2024-01-07"),), (day("2024-01-06"),), (day("2024-01-08"),), (None,)], [1, 7, 2, None]),
    ("dayofyear", [T], [(at("2024-12-31"),)], [366]),
    ("hour", [T], [(at("2024-01-01 23:59:58"),), (-1,), (None,)], [23, 23, None]),
    ("minute", [T], [(at("2024-01-01 23:59:58"),)], [59]),
    ("second", [T], [(at("2024-01-01 23:59:58.9"),), (-1,)], [58, 59]),
    ("date_trunc", [lit("second", S), T], [(at("2024-01-01 01:02:03.5"),), (-1,)],
     [at("2024-01-01 01:02:03"), -1_000_000]),
    ("date_trunc", [lit("MINUTE", S), T], [(at("2024-01-01 01:02:03.5"),)], [at("2024-01-01 01:02:00")]),
    ("date_trunc", [lit("hour", S), T], [(at("2024-01-01 01:02:03.5"),)], [at("2024-01-01 01:00:00")]),
    ("date_trunc", [lit("day", S), T], [(at("2024-01-01 01:02:03.5"),), (None,)], [at("2024-01-01"), None]),
    ("date_trunc", [lit("week", S), T], [(at("2024-01-07 01:00"),)], [at("2024-01-01")]),
    ("date_trunc", [lit("month", S), DAY], [(day("2024-02-29"),)], [at("2024-02-01")]),
    ("date_trunc", [lit("quarter", S), T], [(at("2024-06-30"),)], [at("2024-04-01")]),
    ("date_trunc", [lit("year", S), T], [(at("2024-06-30"),)], [at("2024-01-01")]),
    ("to_date", [T], [(at("2024-01-02 23:00"),), (-1,), (None,)], [day("2024-01-02"), -1, None]),
    ("date_add", [DAY, INT], [(0, 3), (0, -3), (None, 1), (0, None)], [3, -3, None, None]),
    ("datediff", [DAY, DAY], [(5, 7), (7, 5), (None, 1)], [-2, 2, None]),
    ("unix_seconds", [T], [(1_999_999,), (-1,), (None,)], [1, -1, None]),
    ("unix_millis", [T], [(1_999,), (-1,)], [1, -1]),
    ("unix_micros", [T], [(-7,), (None,)], [-7, None]),
    ("timestamp_seconds", [INT], [(2,), (-1,), (None,)], [2_000_000, -1_000_000, None]),
    ("timestamp_millis", [L], [(2,)], [2_000]),
    ("timestamp_micros", [L], [(-2,), (None,)], [-2, None]),
]  # fmt: skip


def build(name: str, args: list[Any], rows: list[tuple[Any, ...]]) -> tuple[Call, pl.DataFrame]:
    exprs: list[Expr] = []
    columns = [pl.Series("__ts", range(len(rows)), dtype=pl.Int64)]
    for arg in args:
        if isinstance(arg, Literal):
            exprs.append(arg)
        else:
            column = Column(f"c{len(columns)}", arg)
            columns.append(series(column.name, [row[len(columns) - 1] for row in rows], arg))
            exprs.append(column)
    return call(name, *exprs), pl.DataFrame(columns)


@pytest.mark.parametrize(
    ("name", "args", "rows", "results"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_a_function_means_what_its_table_says(
    name: str, args: list[Any], rows: list[tuple[Any, ...]], results: list[Any]
) -> None:
    expr, frame = build(name, args, rows)
    got = run(expr, frame)
    assert len(got) == len(results)
    assert all(map(same, got, results)), f"{got} instead of {results}"


@pytest.mark.parametrize(
    ("name", "args", "rows", "results"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_constants_and_single_rows_agree_with_columns(
    name: str, args: list[Any], rows: list[tuple[Any, ...]], results: list[Any]
) -> None:
    whole, frame = build(name, args, rows)
    for row, want in zip(rows, results, strict=True):
        values = iter(row)
        constant = call(name, *[arg if isinstance(arg, Literal) else lit(next(values), arg) for arg in args])
        assert all(same(value, want) for value in run(constant, frame.head(2)))
    for i, want in enumerate(results):
        assert same(run(whole, frame.slice(i, 1))[0], want)
    assert run(whole, frame.clear()) == []


@pytest.mark.parametrize(
    ("name", "args", "rows", "results"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_columns_of_one_value_agree_with_constants_on_either_side(
    name: str, args: list[Any], rows: list[tuple[Any, ...]], results: list[Any]
) -> None:
    whole, frame = build(name, args, rows)
    for i, want in enumerate(results):
        # three rows that hold their value once, as Polars keeps the columns of a projection of constants
        value = {column.name: pl.lit(column).first() for column in frame.slice(i, 1)}
        repeated = pl.DataFrame({"rows": [1, 2, 3]}).select(pl.col("rows"), *(x.alias(k) for k, x in value.items()))
        assert all(same(result, want) for result in run(whole, repeated)), f"{name} of columns of one value"
        for at_ in range(len(whole.args)):
            argument = whole.args[at_]
            if not isinstance(argument, Column):
                continue
            constant = lit(plain(frame[argument.name])[i], argument.type)
            mixed = call(name, *whole.args[:at_], constant, *whole.args[at_ + 1 :])
            assert all(same(result, want) for result in run(mixed, repeated)), f"{name} with constant {at_}"


@pytest.mark.parametrize(
    ("name", "args", "rows", "results"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)]
)
def test_computed_arguments_agree_with_columns(
    name: str, args: list[Any], rows: list[tuple[Any, ...]], results: list[Any]
) -> None:
    whole, frame = build(name, args, rows)
    computed = Call(
        name,
        tuple(arg if isinstance(arg, Literal) else Call("coalesce", (arg,), arg.type) for arg in whole.args),
        whole.type,
    )
    nested = Call("coalesce", (Call("nullif", (computed, lit(None, N)), computed.type),), computed.type)
    assert all(map(same, run(computed, frame), results))
    assert all(map(same, run(nested, frame), results))
    assert run(nested, frame.clear()) == []


def test_every_function_has_a_kernel_and_a_case() -> None:
    assert set(KERNELS) == set(FUNCTIONS)
    assert {case[0] for case in CASES} <= set(FUNCTIONS)


CASTS: list[tuple[DataType, DataType, list[tuple[Any, Any]]]] = [
    (L, S, [(5, "5"), (-5, "-5"), (None, None)]),
    (B, S, [(True, "true"), (False, "false"), (None, None)]),
    (
        D,
        S,
        [
            (1.0, "1.0"),
            (-0.5, "-0.5"),
            (1e7, "1.0E7"),
            (1234567.5, "1234567.5"),
            (12345678.9, "1.23456789E7"),
            (1e-3, "0.001"),
            (1.5e-4, "1.5E-4"),
            (0.0, "0.0"),
            (NAN, "NaN"),
            (INF, "Infinity"),
            (-INF, "-Infinity"),
            (1e300, "1.0E300"),
            (None, None),
        ],
    ),
    (F, S, [(0.5, "0.5"), (1e10, "1.0E10")]),
    (
        T,
        S,
        [
            (at("2024-01-02 03:04:05"), "2024-01-02 03:04:05"),
            (at("2024-01-02 03:04:05.5"), "2024-01-02 03:04:05.5"),
            (-1, "1969-12-31 23:59:59.999999"),
            (at("2024-01-01"), "2024-01-01 00:00:00"),
            (None, None),
        ],
    ),
    (DAY, S, [(0, "1970-01-01"), (-1, "1969-12-31"), (None, None)]),
    (
        V,
        S,
        [
            (5_500_000, "INTERVAL '0 00:00:05.5' DAY TO SECOND"),
            (-86_400_000_000, "INTERVAL '-1 00:00:00' DAY TO SECOND"),
            (None, None),
        ],
    ),
    (
        S,
        L,
        [
            ("12", 12),
            (" -12 ", -12),
            ("+7", 7),
            ("1.9", 1),
            ("-1.9", -1),
            ("1e3", None),
            ("", None),
            ("x", None),
            ("9223372036854775808", None),
            (None, None),
        ],
    ),
    (S, INT, [("2147483647", 2147483647), ("2147483648", None)]),
    (S, D, [("1.5", 1.5), (" 1e3 ", 1000.0), ("NaN", NAN), ("-Infinity", -INF), ("", None), ("x", None), (None, None)]),
    (S, F, [("0.5", 0.5), ("x", None)]),
    (S, B, [("true", True), (" T ", True), ("no", False), ("0", False), ("", None), ("2", None), (None, None)]),
    (
        S,
        T,
        [
            ("2024-01-02 03:04:05", at("2024-01-02 03:04:05")),
            ("2024-01-02T03:04:05.123456Z", at("2024-01-02 03:04:05.123456")),
            ("2024-01-02", at("2024-01-02")),
            ("2024-1-2 3:4", at("2024-01-02 03:04")),
            ("2024-01-02 03:04:05+02:00", at("2024-01-02 01:04:05")),
            ("2024-01-02 03:04:05-00:30", at("2024-01-02 03:34:05")),
            ("2024-02-30", None),
            ("2024-13-01", None),
            ("2024-01-02 25:00:00", None),
            ("hello", None),
            ("", None),
            ("2024-01-02x", None),
            ("2024", at("2024-01-01")),
            (" 2024-02 ", at("2024-02-01")),
            ("1969-12-31 23:59:59.9", -100_000),
            (None, None),
        ],
    ),
    (
        S,
        DAY,
        [
            ("2024-01-02", day("2024-01-02")),
            ("2024-01-02 23:00:00", day("2024-01-02")),
            ("1969-12-31", -1),
            ("2023-02-29", None),
            ("x", None),
            (None, None),
        ],
    ),
    (D, L, [(1.9, 1), (-1.9, -1), (NAN, None), (INF, None), (1e30, None), (2.0**63, None), (None, None)]),
    (D, INT, [(1.9, 1), (3e9, None)]),
    (L, INT, [(5, 5), (2**31, None), (None, None)]),
    (L, D, [(5, 5.0)]),
    (INT, L, [(-5, -5)]),
    (D, F, [(0.5, 0.5)]),
    (B, L, [(True, 1), (False, 0), (None, None)]),
    (B, D, [(True, 1.0)]),
    (L, B, [(0, False), (-3, True), (None, None)]),
    (D, B, [(0.0, False), (0.5, True)]),
    (T, DAY, [(-1, -1), (at("2024-01-02 03:00"), day("2024-01-02"))]),
    (DAY, T, [(1, 86_400_000_000), (None, None)]),
    (T, L, [(1_999_999, 1), (-1, -1), (None, None)]),
    (T, D, [(1_500_000, 1.5)]),
    (L, T, [(2, 2_000_000)]),
    (D, T, [(1.5, 1_500_000), (NAN, None)]),
    (N, T, [(None, None)]),
]


@pytest.mark.parametrize(
    ("source", "target", "pairs"), CASTS, ids=[f"{case[0].value}-{case[1].value}" for case in CASTS]
)
def test_a_cast_converts_or_gives_null(source: DataType, target: DataType, pairs: list[tuple[Any, Any]]) -> None:
    frame = pl.DataFrame([series("c", [value for value, _ in pairs], source), pl.Series("__ts", range(len(pairs)))])
    got = run(Cast(Column("c", source), target), frame)
    assert all(map(same, got, [want for _, want in pairs])), f"{got} instead of {[want for _, want in pairs]}"
    for value, want in pairs:
        assert same(run(Cast(lit(value, source), target), frame)[0], want)


def test_a_cast_without_meaning_is_refused() -> None:
    with pytest.raises(NotSupported, match="cannot cast INTERVAL to BIGINT"):
        compile_expr(Cast(Column("c", V), L))


@settings(deadline=None, max_examples=100)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_survives_its_text(value: float) -> None:
    frame = pl.DataFrame({"c": [value]})
    assert run(Cast(Cast(Column("c", D), S), D), frame) == [value]


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd", "HH:mm", "E h a", "mm:ss.SSS", "ss", "D", "'day'", "MMM yy"])
@pytest.mark.parametrize("stride", [1, 1_000_000, 7_000_000, 900_000_000, 86_400_000_000])
def test_instants_in_a_row_are_written_as_each_of_them_alone(pattern: str, stride: int) -> None:
    instants = [at("1969-12-31 23:59:50") + i * stride for i in range(40)]
    frame = pl.DataFrame({"t": series("t", [*instants, *instants[::-1]], Type.TIMESTAMP)})
    written = call("date_format", Column("t", Type.TIMESTAMP), lit(pattern, Type.STRING))
    assert run(written, frame) == [text for i in range(80) for text in run(written, frame[i : i + 1])]


def test_case_takes_the_first_true_branch_and_widens() -> None:
    a = Column("a", L)
    expr = Case(((call(">", a, lit(10, L)), lit(1, INT)), (call(">", a, lit(5, L)), lit(2.5, D))), Column("a", L), D)
    assert run(expr, pl.DataFrame({"a": [11, 6, 1, None]})) == [1.0, 2.5, 1.0, None]


def test_many_arguments_are_no_levels_of_nesting() -> None:
    columns = [Column(f"c{i}", L) for i in range(2_000)]
    rows = [[None] * 2_000, [*([None] * 1_999), 7], [5, *range(100, 2_099)]]
    frame = pl.DataFrame(rows, schema={column.name: pl.Int64 for column in columns}, orient="row")
    assert run(call("coalesce", *columns), frame) == [None, 7, 5]
    assert run(call("coalesce", *columns, lit(9, L)), frame) == [9, 7, 5]
    assert run(call("in", lit(2_098, L), *columns), frame) == [None, None, True]


def test_an_array_holds_its_arguments_with_null_also_many() -> None:
    a, many = Column("a", L), ArrayType(L)
    frame = pl.DataFrame({"a": [1, None]}, schema={"a": pl.Int64})
    assert run(Call("array", (a, lit(None, L), lit(3, L)), many), frame) == [[1, None, 3], [None, None, 3]]
    held = Call("array", (Call("array", (a,), many), lit(None, many)), ArrayType(many))
    assert run(held, frame) == [[[1], None], [[None], None]]
    assert run(Call("array", (a,) * 20_000, many), frame) == [[1] * 20_000, [None] * 20_000]


@pytest.mark.parametrize("count", [33, 5_000])
def test_a_case_of_many_branches_takes_the_first_that_holds(count: int) -> None:
    a = Column("a", L)
    branches = tuple(
        (call(">=", a, lit(7 * (i // 2), L)), lit(None if i % 5 == 1 else i, L)) for i in reversed(range(count))
    )
    values = [None, -1, 0, 8, 7 * (count // 3), 7 * count]
    results = run(Case(branches, lit(-9, L), L), pl.DataFrame({"a": values}, schema={"a": pl.Int64}))
    firsts = [next((i for i in reversed(range(count)) if v is not None and v >= 7 * (i // 2)), None) for v in values]
    assert results == [-9 if i is None else None if i % 5 == 1 else i for i in firsts]


def test_case_without_default_gives_null() -> None:
    expr = Case(((Column("b", B), lit("yes", S)),), None, S)
    assert run(expr, pl.DataFrame({"b": [True, False, None]})) == ["yes", None, None]
    assert run(Case(((lit(False, B), lit(None, N)),), None, T), pl.DataFrame({"b": [1, 2]})) == [None, None]


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (True, B),
        (5, INT),
        (5, L),
        (0.5, F),
        (1, D),
        ("é", S),
        (-1, T),
        (-1, DAY),
        (-1, V),
        (None, N),
        *((None, t) for t in Type),
    ],
)
def test_a_literal_has_its_type_in_every_row(value: Any, type_: DataType) -> None:
    assert run(lit(value, type_), pl.DataFrame({"c": [1, 2, 3]})) == [value] * 3


def test_the_hidden_timestamp_is_a_number() -> None:
    assert run(call("+", Column("__ts", L), lit(1, L)), pl.DataFrame({"__ts": [1, 2]})) == [2, 3]


def test_a_null_predicate_is_false() -> None:
    frame = pl.DataFrame({"b": [True, False, None]})
    assert frame.select(compile_predicate(Column("b", B)))["b"].to_list() == [True, False, False]
    assert frame.with_columns(compile_predicate(lit(None, N)).alias("n"))["n"].to_list() == [False] * 3


def test_constants_that_cannot_work_are_refused_when_compiling() -> None:
    s = Column("s", S)
    with pytest.raises(TypeFault, match="unit 'eon'"):
        compile_expr(Call("date_trunc", (lit("eon", S), Column("t", T)), T))
    with pytest.raises(NotSupported, match="look-around"):
        compile_expr(Call("rlike", (s, lit("(?=x)", S)), B))
    with pytest.raises(TypeFault, match="must be a constant"):
        compile_expr(Call("like", (s, s), B))
    with pytest.raises(TypeFault, match="100 bits"):
        compile_expr(Call("sha2", (s, lit(100, INT)), S))


def test_compiling_the_same_expression_twice_is_free() -> None:
    assert compile_expr(call("upper", Column("s", S))) is compile_expr(call("upper", Column("s", S)))


def test_a_constant_that_decides_for_all_rows_is_still_a_column() -> None:
    n = Column("n", Type.BIGINT)
    zero = Literal(0, Type.BIGINT)
    frame = pl.DataFrame({"n": [None, None, None]}, schema={"n": pl.Int64})
    filled = Call("coalesce", (n, zero), Type.BIGINT)
    for expr, expected in (
        (filled, [0, 0, 0]),
        (Call("=", (zero, filled), Type.BOOLEAN), [True] * 3),
        (Call("=", (filled, zero), Type.BOOLEAN), [True] * 3),
        (Call("coalesce", (zero, n), Type.BIGINT), [0, 0, 0]),
        (Call("+", (zero, filled), Type.BIGINT), [0, 0, 0]),
        (Call("=", (zero, Call("coalesce", (zero, n), Type.BIGINT)), Type.BOOLEAN), [True] * 3),
    ):
        assert evaluate(frame, (expr,))[0].to_list() == expected, expr


@pytest.mark.parametrize("target", Type)
@pytest.mark.parametrize("source", Type)
def test_a_cast_that_is_accepted_has_a_conversion(source: DataType, target: DataType) -> None:
    try:
        convert(pl.col("x"), source, target)
    except NotSupported:
        assert not can_cast(source, target)
    else:
        assert can_cast(source, target)
