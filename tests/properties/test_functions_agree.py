"""Every scalar function: the column kernel and the oracle's plain Python give the same."""

from __future__ import annotations

import math
import os
from decimal import Context, Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.expressions.expression import Call, Cast, Column, Expr, Literal
from headrace.model.expressions.functions import FUNCTIONS
from headrace.model.schema import Field
from headrace.model.time import DAY
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type
from headrace.operators.expressions.evaluate import evaluate
from headrace.operators.expressions.kernels import KERNELS
from headrace.testing.oracle.expressions import value_of
from headrace.testing.oracle.functions import SCALARS
from headrace.testing.oracle.values import plain_value
from headrace.testing.streams import column

pytestmark = pytest.mark.slow

N, L, D, S, B = Type.INT, Type.BIGINT, Type.DOUBLE, Type.STRING, Type.BOOLEAN
T, A, V, Y = Type.TIMESTAMP, Type.DATE, Type.INTERVAL, Type.BINARY

M, M4, WIDE, LONG = DecimalType(10, 2), DecimalType(12, 4), DecimalType(38, 10), DecimalType(38, 0)

XS, WS, XXS = ArrayType(L), ArrayType(S), ArrayType(ArrayType(L))
PAIR = StructType((("a", L), ("b", S)))
SX, XS_OF_PAIRS, MI, MP = MapType(S, L), ArrayType(PAIR), MapType(L, S), MapType(S, ArrayType(L))
NESTED = (XS, WS, XXS, PAIR, SX, XS_OF_PAIRS, MI, MP)

#: Within a few centuries, so that Python's datetime can follow.
INSTANTS = (
    st.integers(-80_000 * DAY, 80_000 * DAY)
    | st.integers(-10, 10).map(lambda n: n * DAY)
    | st.integers(-3_000_000, 3_000_000)
)
TEXT = st.text(st.sampled_from("abAB ,%_\\.1ßé\n"), max_size=6)
HALVES = st.integers(-40, 40).map(lambda n: n / 2)
EXACT = Context(prec=100)


def decimals(type_: DecimalType) -> st.SearchStrategy[Decimal]:
    limit = 10**type_.precision - 1
    quarters = st.integers(-50, 50).map(lambda n: n * 10**type_.scale // 4)
    digits = st.integers(-limit, limit) | st.integers(-300, 300) | quarters.filter(lambda n: abs(n) <= limit)
    return digits.map(lambda n: Decimal(n).scaleb(-type_.scale, EXACT))


VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    B: st.booleans(),
    N: st.integers(-(2**31), 2**31 - 1) | st.integers(-5, 5),
    L: st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1),
    D: HALVES
    | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.1, 2.675, 1e300, 1e-7, 1e16])
    | st.floats(-1e6, 1e6),
    S: TEXT,
    T: INSTANTS,
    A: st.integers(-80_000, 80_000),
    V: st.integers(-DAY, DAY) | st.just(0),
    Y: st.binary(max_size=6) | TEXT.map(str.encode),
    **{type_: decimals(type_) for type_ in (M, M4, WIDE, LONG)},
}


def nested(type_: DataType) -> st.SearchStrategy[Any]:
    match type_:
        case ArrayType(element=element):
            return st.lists(st.none() | nested(element), max_size=4)
        case MapType(key=key, of=of):
            return st.dictionaries(nested(key), st.none() | nested(of), max_size=3)
        case StructType(fields=fields):
            return st.fixed_dictionaries({name: st.none() | nested(kind) for name, kind in fields})
        case _:
            return st.integers(-2, 3) if type_ is L else TEXT


VALUES |= {type_: nested(type_) for type_ in NESTED}
SMALL = st.integers(-2, 7)
ROWS, EXAMPLES = 12, int(os.environ.get("HEADRACE_EXAMPLES", "3"))

#: An argument is a column of a type, or a strategy for a literal.
Argument = DataType | tuple[DataType, st.SearchStrategy[Any]]


def lit(type_: DataType, strategy: st.SearchStrategy[Any]) -> tuple[DataType, st.SearchStrategy[Any]]:
    return (type_, strategy)


_PAIRS: list[list[Argument]] = [
    [L, L],
    [N, L],
    [D, D],
    [L, D],
    [N, D],
    [S, S],
    [B, B],
    [T, T],
    [A, T],
    [A, A],
    [V, V],
    [L, Type.NULL],
    [M, M],
    [M, M4],
    [M, L],
    [M, D],
    [WIDE, LONG],
]
_NUMBER: list[list[Argument]] = [[N], [L], [D], [M]]
_NUMBERS: list[list[Argument]] = [[L, L], [N, N], [D, D], [L, D]]
_EXACT: list[list[Argument]] = [[M, M], [M, M4], [M, N], [L, M], [WIDE, M], [WIDE, WIDE], [LONG, M4], [M, D]]
_EXACT += [[M, Type.NULL], [M, lit(DecimalType(2, 1), st.sampled_from(["1.5", "-0.3", "0.0", None]))]]
_TIME: list[list[Argument]] = [[T], [A]]
_PATTERN = lit(S, st.sampled_from(["a%", "%b_", "_", "%", "", "\\%a", "a\\_%", "A.B", "%\n%"]))
_REGEX = lit(S, st.sampled_from(["a", "^a", "[ab]+", "(a|b)B?", "a.b"]))
_URLS = st.sampled_from(
    ["https://ann:pw@h.com:8080/a/b?k=1&a.=2#end", "/p/7?k", "//h/x//y", "mailto:ann@h.com?k=1", "http://h", "a b",
     "%41%4", "", "file:///a", "?k=a=b&k=c#", "x/y:z", "http://h/?ak=2&k=%20"]
)  # fmt: skip
_URL_PARTS = st.sampled_from(["HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO", "host"])
_GROUPS = lit(S, st.sampled_from(["(a)(b)?", "(.)([A-Z ])", "([0-9]+)(a*)"]))
_CHARSET = lit(S, st.sampled_from(["UTF-8", "US-ASCII", "ISO-8859-1", "UTF-16BE", "UTF-16LE", "UTF-16"]))
_FILL = lit(S, st.sampled_from(["*", " ", "é", "ab", ""]))
_JSON = lit(S, st.sampled_from(['{"a": [1, 2.50, null], "b": {"c": "é"}}', "[1, 2] x", '"a"', '{"a": true', "", "1e9"]))
_PATH = lit(S, st.sampled_from(["$", "$.a", "$.a[0]", "$.a[1]", "$.a[2]", "$.b", "$.b.c", "$[1]", "$.x.y"]))
_FORMAT = lit(
    S, st.sampled_from(["yyyy-MM-dd HH:mm:ss.SSSSSS", "dd MMM yyyy", "hh:mm a", "EEEE, DDD", "E d", "HHmmss.SSS"])
)
_DATES = lit(S, st.sampled_from(["2026-01-31", "2026-02-30", "2026-1-3", "31/12/1969 23:59", "20260131", "", "x"]))
_DATE_FORMAT = lit(S, st.sampled_from(["yyyy-MM-dd", "dd/MM/yyyy HH:mm", "yyyyMMdd"]))
_DIGITS = lit(L, st.integers(-1, 4))
_DAY = lit(A, st.integers(-80_000, 47_000))  # the kernels know of no summer time after 2099
_ZONE = lit(S, st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata"]))
_CHARACTERS = lit(S, st.sampled_from(["a", "ab ", "é.", ""]))
_UNIT = lit(
    S,
    st.sampled_from(
        ["millisecond", "microsecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"]
    ),
)
_SETS: list[list[Argument]] = [[XS, XS], [WS, WS], [XXS, XXS], [XS_OF_PAIRS, XS_OF_PAIRS]]
_ELEMENTS: list[list[Argument]] = [[XS, lit(L, SMALL)], [WS, S], [XXS, XS], [XS_OF_PAIRS, PAIR]]
_DOCUMENTS = lit(
    S,
    st.sampled_from(
        ['{"a": 1, "b": "x"}', '{"a": "1", "b": null}', '{"b": [1, 2]}', "[1, null, 2]", "{", "", "null", '{"a": 1.5}']
    ),
)
_SCHEMA = lit(S, st.just("a BIGINT, b STRING"))
#: The types of calls that depend on names.
TYPED: dict[str, DataType] = {"from_json-0": PAIR, "from_json-1": XS, "from_json-2": SX, "named_struct-0": PAIR}
TYPED |= {"field-0": L, "field-1": S}
_EQUAL: list[list[Argument]] = [*_PAIRS, [XS, XS], [PAIR, PAIR], [XXS, XXS]]
SIGNATURES: dict[str, list[list[Argument]]] = {
    "field": [[PAIR, lit(S, st.just("a"))], [PAIR, lit(S, st.just("b"))]],
    "item": [[XS, lit(L, SMALL)], [XS, N], [SX, S], [SX, lit(S, TEXT)], [MI, lit(L, SMALL)], [MP, S]],
    "element_at": [[XS, lit(L, SMALL)], [WS, N], [SX, S], [XXS, lit(L, SMALL)]],
    "array": [[L, L], [S], [XS, XS], [PAIR, PAIR], [lit(L, SMALL), lit(L, SMALL)]],
    "named_struct": [[lit(S, st.just("a")), L, lit(S, st.just("b")), S]],
    "map": [[S, L], [S, L, S, L], [L, S], [S, XS]],
    "map_from_arrays": [[WS, XS], [XS, WS]],
    "map_concat": [[SX], [SX, SX]],
    "sequence": [[lit(L, SMALL), lit(L, SMALL)], [lit(L, SMALL), lit(L, SMALL), lit(L, SMALL)]],
    "size": [[XS], [SX], [XXS]],
    "array_contains": _ELEMENTS,
    "array_position": _ELEMENTS,
    "array_append": _ELEMENTS,
    "array_remove": _ELEMENTS,
    "array_distinct": [[XS], [WS], [XXS], [XS_OF_PAIRS]],
    **dict.fromkeys(("array_union", "array_intersect", "array_except", "arrays_overlap"), _SETS),
    "array_sort": [[XS], [WS]],
    "sort_array": [[XS], [WS], [XS, B], [WS, lit(B, st.booleans())]],
    "array_min": [[XS], [WS]],
    "array_max": [[XS], [WS]],
    "array_join": [[WS, lit(S, TEXT)], [WS, S, S]],
    "slice": [[XS, lit(L, SMALL), lit(L, SMALL)], [WS, N, N]],
    "flatten": [[XXS]],
    "map_keys": [[SX], [MI]],
    "map_values": [[SX], [MP]],
    "map_contains_key": [[SX, S], [MI, lit(L, SMALL)]],
    "split": [
        [S, lit(S, st.sampled_from([",", " ", "[ab]", "a*", "\\.", ""]))],
        [S, lit(S, st.sampled_from(["a", "[ab]+"])), lit(L, SMALL)],
    ],
    "to_json": [[XS], [PAIR], [SX], [XS_OF_PAIRS], [MP]],
    "from_json": [[_DOCUMENTS, _SCHEMA], [_DOCUMENTS, _SCHEMA], [S, _SCHEMA]],
    "and": [[B, B]],
    "or": [[B, B]],
    "not": [[B]],
    **dict.fromkeys(("<", "<=", ">", ">=", "greatest", "least"), _PAIRS),
    **dict.fromkeys(("=", "<>", "<=>", "nullif"), _EQUAL),
    "coalesce": [*_PAIRS, [XS, XS], [SX, SX, SX]],
    "is_null": [[L], [S], [D], [T], [XS], [SX]],
    "in": [
        [L, L, L],
        [S, S, S],
        [D, L, D],
        [L, lit(L, SMALL), lit(L, SMALL | st.none())],
        [T, A],
        [S, lit(S, TEXT), lit(S, TEXT)],
    ],
    "+": [*_NUMBERS, *_EXACT, [T, V], [V, T], [A, V], [V, V]],
    "-": [*_NUMBERS, *_EXACT, [T, V], [T, T], [A, V], [V, V]],
    "*": [*_NUMBERS, *_EXACT],
    "/": [*_NUMBERS, *_EXACT],
    "%": [*_NUMBERS, *_EXACT],
    "div": [[L, L], [N, L]],
    **dict.fromkeys(
        ("neg", "abs", "sign", "floor", "ceil", "sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan"), _NUMBER
    ),
    "round": [[L], [D], [D, lit(L, st.integers(0, 4))], [M], [LONG], [WIDE, lit(L, st.integers(0, 12))]],
    "pow": [[D, D], [L, lit(L, SMALL)]],
    "||": [[S, S], [S, L, B], [S, D], [S, T, A], [S, V], [S, M, WIDE]],
    **{name: [[S]] for name in ("upper", "lower", "reverse", "initcap", "ascii")},
    **{name: [[S], [Y]] for name in ("length", "bit_length", "octet_length", "md5", "sha1", "crc32", "base64")},
    **{name: [[S], [S, _CHARACTERS]] for name in ("trim", "ltrim", "rtrim")},
    "sha2": [[S, lit(L, st.sampled_from([0, 224, 256, 384, 512]))]],
    "xxhash64": [[M, WIDE, LONG], [S], [N, L, D], [T, A, V, B], [S, Type.NULL, S]],
    "chr": [[N], [lit(L, SMALL)]],
    "repeat": [[S, lit(L, SMALL)]],
    "translate": [[S, lit(S, TEXT), lit(S, TEXT)]],
    "concat_ws": [[lit(S, TEXT), S, S, S], [lit(S, TEXT), S], [lit(S, TEXT)]],
    "substring_index": [[S, lit(S, st.sampled_from(["a", "ab", " ", "aa", ""])), lit(L, SMALL)], [S, S, N]],
    "find_in_set": [[S, S], [lit(S, TEXT), S]],
    "levenshtein": [[S, S]],
    "parse_url": [
        [lit(S, _URLS), lit(S, _URL_PARTS)],
        [S, lit(S, _URL_PARTS)],
        [lit(S, _URLS), S, lit(S, st.just("k"))],
        [lit(S, _URLS), lit(S, st.just("QUERY")), lit(S, st.sampled_from(["k", "a.", ""]))],
    ],
    "url_encode": [[S], [lit(S, st.sampled_from(["a b", "é~*", "100%&x=1", "-._"]))]],
    "url_decode": [[S], [lit(S, st.sampled_from(["a+b", "%C3%A9", "100%", "%zz", "%41b"]))]],
    "regexp_replace": [[S, _GROUPS, lit(S, st.sampled_from(["<$1>", "$2", "x", ""]))]],
    "regexp_count": [[S, _REGEX]],
    "regexp_substr": [[S, _REGEX]],
    "unbase64": [[S], [lit(S, st.sampled_from(["YWI=", "YWI", "a", "YW\r\nI=", "++//", ""]))]],
    "unhex": [[S], [lit(S, st.sampled_from(["0aFF", "f", "", "0g", "é"]))]],
    "encode": [[S, _CHARSET]],
    "decode": [[Y, _CHARSET]],
    "get_json_object": [[_JSON, _PATH], [S, _PATH]],
    "json_array_length": [[_JSON], [S]],
    **dict.fromkeys(("asin", "acos", "atan", "sinh", "cosh", "tanh", "cbrt", "expm1", "log1p"), _NUMBER),
    **dict.fromkeys(("degrees", "radians", "rint", "isnan"), _NUMBER),
    **{name: [[lit(D, st.sampled_from([0.5, -1.0, 2.5, math.inf]))], [N]] for name in ("cot", "sec", "csc")},
    **dict.fromkeys(("atan2", "hypot", "nanvl"), _NUMBERS),
    "log": [*_NUMBER, *_NUMBERS],
    "pmod": [*_NUMBERS, *_EXACT],
    "factorial": [[N], [lit(L, st.integers(-1, 22))]],
    "bround": [[L], [D], [D, lit(L, st.integers(0, 4))], [M], [WIDE, lit(L, st.integers(0, 12))]],
    **{name: [[L, L], [N, L]] for name in ("&", "|", "^")},
    **{name: [[L], [N]] for name in ("~", "bit_count", "bin")},
    "hex": [[L], [N], [S], [Y]],
    **{f"shift{way}": [[L, lit(L, st.integers(-3, 70))], [L, N]] for way in ("left", "right", "rightunsigned")},
    **dict.fromkeys(("weekday", "yearofweek"), _TIME),
    "add_months": [[A, N], [A, lit(L, st.integers(-30, 30))]],
    "months_between": [[T, T], [A, A], [T, A]],
    "last_day": [[A]],
    "next_day": [[A, lit(S, st.sampled_from(["Mon", "tuesday", "WE", "sun"]))]],
    "make_date": [[lit(L, st.sampled_from([0, 1, 2024, 2026, 9999, 10000])), lit(L, SMALL), lit(L, SMALL)], [N, N, N]],
    "make_timestamp": [
        [lit(L, st.sampled_from([1, 2024])), lit(L, SMALL), lit(L, SMALL), lit(L, SMALL), lit(L, SMALL), D],
        [N, N, N, N, N, N],
    ],
    "unix_date": [[A]],
    "date_from_unix_date": [[lit(L, st.integers(-80_000, 80_000))]],
    "date_format": [[T, _FORMAT], [A, _FORMAT]],
    "parse_timestamp": [[_DATES, _DATE_FORMAT], [S, _DATE_FORMAT]],
    "parse_date": [[_DATES, _DATE_FORMAT]],
    "substring": [
        [S, lit(L, st.integers(1, 8))],
        [S, lit(L, st.integers(1, 8)), lit(L, SMALL)],
        [S, lit(L, st.integers(1, 8)), N],
    ],
    "left": [[S, lit(L, SMALL)], [S, N]],
    "right": [[S, lit(L, SMALL)], [S, N]],
    "replace": [[S, lit(S, TEXT), lit(S, TEXT)], [S, S, S]],
    **{name: [[S, S], [S, lit(S, TEXT)]] for name in ("starts_with", "ends_with", "contains")},
    "position": [[lit(S, TEXT), S], [S, S], [S, S, lit(L, SMALL)], [lit(S, TEXT), S, N]],
    "lpad": [[S, lit(L, st.integers(-1, 9)), _FILL], [S, lit(L, st.integers(0, 9))]],
    "rpad": [[S, lit(L, st.integers(-1, 9)), _FILL], [S, lit(L, st.integers(0, 9))]],
    "split_part": [[S, lit(S, st.sampled_from([",", "ab", " "])), lit(L, st.integers(1, 4))]],
    "like": [[S, _PATTERN]],
    "ilike": [[S, _PATTERN]],
    "rlike": [[S, _REGEX]],
    "regexp_extract_all": [[S, _GROUPS, lit(L, st.integers(0, 2))]],
    "format_number": [[N, _DIGITS], [L, _DIGITS], [D, _DIGITS], [M, _DIGITS]],
    "from_utc_timestamp": [[T, _ZONE], [_DAY, _ZONE]],
    "to_utc_timestamp": [[T, _ZONE], [_DAY, _ZONE]],
    "regexp_extract": [[S, _GROUPS], [S, _GROUPS, lit(L, st.integers(0, 2))]],
    **dict.fromkeys(("year", "quarter", "month", "week", "day", "dayofweek", "dayofyear"), _TIME),
    **{name: [[T]] for name in ("hour", "minute", "second", "to_date", "unix_seconds", "unix_millis", "unix_micros")},
    "date_trunc": [[_UNIT, T], [_UNIT, A]],
    "date_add": [[A, lit(L, st.integers(-99, 99))], [A, lit(L, st.none())]],
    "datediff": [[A, A]],
    **{name: [[lit(L, SMALL)]] for name in ("timestamp_seconds", "timestamp_millis", "timestamp_micros")},
}
CASES = [
    pytest.param(name, signature, TYPED.get(f"{name}-{i}"), id=f"{name}-{i}")
    for name, signatures in SIGNATURES.items()
    for i, signature in enumerate(signatures)
]


def test_every_function_is_compared():
    assert set(SIGNATURES) == set(FUNCTIONS) == set(KERNELS) == set(SCALARS)


@pytest.mark.parametrize(("name", "signature", "type_"), CASES)
def test_kernel_and_oracle_agree(name, signature, type_):
    @settings(deadline=None, max_examples=EXAMPLES, database=None, derandomize=True)
    @given(data=st.data())
    def run(data):
        columns: list[pl.Series] = []
        rows: list[dict[str, Any]] = [{} for _ in range(ROWS)]
        args: list[Expr] = []
        for i, argument in enumerate(signature):
            if isinstance(argument, tuple):
                args.append(Literal(data.draw(argument[1]), argument[0]))
                continue
            values = (
                [None] * ROWS
                if argument is Type.NULL
                else data.draw(st.lists(st.none() | VALUES[argument], min_size=ROWS, max_size=ROWS))
            )
            columns.append(column(Field(f"c{i}", argument), values))
            for row, value in zip(rows, values, strict=True):
                row[f"c{i}"] = value
            args.append(Column(f"c{i}", argument))
        check(name, tuple(args), columns or [pl.Series("one", [1] * ROWS)], rows, type_)

    run()


_TEXTS = [
    "1",
    " 12 ",
    "-3",
    "+4",
    "2.9",
    "x",
    "",
    "true",
    "NO",
    "99999999999",
    "2026-01-31",
    "2026-02-30",
    "2026-1-2 03:04:05.678",
]
_TEXTS += ["2026-01-01T00:00Z", "2026-01-01 01:00+01:00", "1.005", "-0.125", "1e3", "1E-9", ".5", "9" * 40, "NaN"]
#: Source and targets.
_CASTS = {"N": "LS", "L": "NDBS", "D": "LNBS", "B": "LDS", "A": "TS", "V": "S", "T": "LDAS", "S": "NLBAT"}
_CASTS |= {"M": "4WXNLDBST", "4": "MW", "W": "MXNLDBST", "X": "W4LD"}
_CASTS = {source: targets + ("MWX" if source in "NLDBTS" else "") for source, targets in _CASTS.items()}
_LETTERS = {"N": N, "L": L, "D": D, "S": S, "B": B, "T": T, "A": A, "V": V, "M": M, "4": M4, "W": WIDE, "X": LONG}


@settings(deadline=None, max_examples=EXAMPLES, database=None, derandomize=True)
@given(data=st.data())
@pytest.mark.parametrize(
    ("source", "target"), [(_LETTERS[one], _LETTERS[other]) for one, others in _CASTS.items() for other in others]
)
def test_casts_agree(data, source, target):
    words = st.sampled_from(_TEXTS)
    strategy = words if source is S else VALUES[source]
    values = data.draw(st.lists(st.none() | strategy, min_size=ROWS, max_size=ROWS))
    expr = Cast(Column("c", source), target)
    compare(expr, [column(Field("c", source), values)], [{"c": value} for value in values])


def check(
    name: str,
    args: tuple[Expr, ...],
    columns: list[pl.Series],
    rows: list[dict[str, Any]],
    type_: DataType | None = None,
) -> None:
    type_ = type_ or FUNCTIONS[name].typing([arg.type for arg in args])
    assert type_ is not None, f"{name} does not take {[arg.type for arg in args]}"
    compare(Call(name, args, type_), columns, rows)


def compare(expr: Expr, columns: list[pl.Series], rows: list[dict[str, Any]]) -> None:
    (found,) = evaluate(pl.DataFrame(columns), [expr])
    assert found.dtype == expr.type.polars
    for row, value in zip(rows, found.to_list(), strict=True):
        expected = value_of(expr, row)
        assert close(plain_value(value), expected), f"kernel {value!r}, oracle {expected!r}, for {row} in {expr}"


def close(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        if math.isnan(found) or math.isnan(expected):
            return math.isnan(found) and math.isnan(expected)
        return math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12)
    return type(found) is type(expected) and bool(found == expected)
