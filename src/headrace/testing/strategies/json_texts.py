"""Strategies of Hypothesis for types, and for texts of JSON that hold values of them: good, unusual and bad ones."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from headrace.model.types import ArrayType, DataType, DecimalType, MapType, StructType, Type

PLAIN = [type_ for type_ in Type if type_ is not Type.NULL]
NAMES = ["a", "b", "ü", "a b", "A", 'a"b', "a\\b"]
NUMBERS = [
    "0", "-0", "1", "-1", "7", "2147483647", "-2147483648", "2147483648", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "-9223372036854775809", "123456789012345678901234567890",
    "1.0", "-0.0", "1.5", "0.005", "2.675", "1e3", "1E-3", "12345678.125", "0.1000000000000000055511151231257827",
    "1e308", "1e309", "-1e400", "1e-400", "3.4e39", "9" * 40, "0." + "9" * 40, "1e99999999999999999999", "1" * 400,
    "1" * 4500, "1767225601000", "1767225601000000", "253402300800000000", "-62135596800000001",
]  # fmt: skip
TIMES = [
    "2026-01-31", "2026-01-31 23:59:59", "2026-01-31T23:59:59.123456", "2026-01-31T23:59:59.123456789",
    "2026-01-31T23:59:59Z", "2026-01-31T23:59:59.5+01:00", "20260131T235959", "2026-W05-6", "0000-01-01 00:00:00",
    "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2026-02-30 00:00:00", "2026-01-31 23:59:60",
    "2026-01-31 24:00:00", "soon", "2026-01-31T23:59:59ZZ", "2026-01-31 23:59:59 ",
]  # fmt: skip
TEXTS = [
    "", "x", "true", "NaN", "Infinity", " 2.5", "2.50", "1_0", "1e2", "-7", "01", "500 ms", "1 h 30 min", "AAEC", "A",
    "AA==", "ü", "null", "\u2028", "😀", "line\nend", "back\\slash", '"quoted"',
]  # fmt: skip
#: Values as they must not be written, and values of other kinds.
ODD = [
    "", "NaN", "-Infinity", "nul", "tru", "01", "1.", ".5", "+1", "-", "1e", "[1,]", '{"a":1,}', "'x'", '"\\ud800"',
    '"\\udc00x"', '"\\ud83d\\ude00"', '"\\x"', '"\\u00zz"', '"\t"', "[", "{", '"', "[]", "{}", "[null]", '{"a":null}',
    '{"":1}', "[" * 50 + "]" * 50, "0x1", "\ufeff1", "1 2", "/**/1", '"\\u0000"', '"\\/"', '"\x7f"',
]  # fmt: skip


@st.composite
def types(draw: DrawFn, depth: int = 3) -> DataType:
    """Return a type, with others inside it down to a depth."""
    kind = draw(st.integers(0, 8 if depth else 5))
    if kind <= 4:
        return draw(st.sampled_from(PLAIN))
    if kind == 5:
        precision = draw(st.sampled_from([1, 5, 12, 38]))
        return DecimalType(precision, draw(st.sampled_from([0, min(2, precision), precision])))
    if kind == 6:
        return ArrayType(draw(types(depth - 1)))
    if kind == 7:
        key = draw(
            st.sampled_from([Type.STRING, Type.STRING, Type.INT, Type.BIGINT, Type.DATE, Type.DOUBLE, Type.BOOLEAN])
        )
        return MapType(key, draw(types(depth - 1)))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    return StructType(tuple((name, draw(types(depth - 1))) for name in names))


def fitting(type_: DataType) -> SearchStrategy[str]:
    """Return texts of JSON most of which fit a type."""
    match type_:
        case ArrayType(element=element):
            return st.lists(values(element), max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
        case StructType(fields=fields):
            return st.tuples(*(values(part) for _, part in fields)).flatmap(
                lambda parts: objects([(name, part) for (name, _), part in zip(fields, parts, strict=True)])
            )
        case MapType(key=key, of=of):
            keys = ["1", "2", "01", " 2", "-3", "x", "1.5"] if key.is_numeric or key is Type.DOUBLE else ["k", "ü", ""]
            keys = ["true", "false", "True"] if key is Type.BOOLEAN else keys
            names = st.sampled_from(TIMES if key is Type.DATE else keys)
            return st.lists(st.tuples(names, values(of)), max_size=3).flatmap(objects)
        case DecimalType():
            return st.sampled_from(
                [*NUMBERS, *NUMBERS, '"2.50"', '"-7"', '" 1e2"', '"x"', '"1_0"', '"\u0661"', '"\\u0031"']
            )
        case Type.BOOLEAN:
            return st.sampled_from(["true", "false"])
        case Type.INT | Type.BIGINT | Type.FLOAT | Type.DOUBLE:
            return st.sampled_from(NUMBERS)
        case Type.TIMESTAMP | Type.DATE:
            return st.sampled_from([*map(json.dumps, TIMES), *NUMBERS[:9], *NUMBERS[-4:], "9" * 40])
        case Type.INTERVAL:
            return st.sampled_from(['"500 ms"', '"1 h 30 min"', '"7"', '"soon"', *NUMBERS[:13]])
        case _:
            return st.sampled_from(TEXTS).map(json.dumps)


def objects(parts: list[tuple[str, str]]) -> SearchStrategy[str]:
    """Return objects with some members, of which one may be missing, twice or in another place, beside others."""

    def written(parts: list[tuple[str, str]], change: int) -> str:
        match change:
            case 0:
                parts = parts[1:]
            case 1:
                parts = [*parts, *parts[:1]]
            case 2:
                parts = [("unknown", '{"x": [1, "y"]}'), *parts]
            case 3:
                parts = [*parts, ("unknown", "1e99999999999999999999")]
            case _:
                pass
        blank = " " if change % 2 else ""
        return "{" + f",{blank}".join(f"{json.dumps(name)}:{blank}{part}" for name, part in parts) + "}"

    return st.tuples(st.permutations(parts), st.integers(0, 30)).map(lambda drawn: written(*drawn))


def values(type_: DataType) -> SearchStrategy[str]:
    """Return values: nearly all of a type, some NULL, few of other kinds or malformed."""
    odd = st.sampled_from([*ODD, *map(json.dumps, TEXTS + TIMES), *NUMBERS, "true"])
    return st.integers(0, 60).flatmap(lambda n: odd if n == 0 else st.just("null") if n <= 4 else fitting(type_))


@st.composite
def damaged(draw: DrawFn, type_: DataType) -> bytes:
    """Return the bytes of a text in one line; few are damaged."""
    line = draw(fitting(type_)).encode("utf-8", "surrogatepass")
    change = draw(st.integers(0, 60))
    at = draw(st.integers(0, len(line)))
    match change:
        case 0:
            line += draw(st.sampled_from([b"x", b"{}", b" ", b"\r", b",", b"\x00", b"\xff"]))
        case 1:
            line = line[:at]
        case 2:
            line = line[:at] + draw(st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\x01", b'"', b"\\", b"}"])) + line[at:]
        case 3:
            line = draw(st.sampled_from([b"", b"[]", b"null", b"5", b"{}", b"\xef\xbb\xbf{}", b'{"": 1}']))
        case _:
            pass
    return line.replace(b"\n", b" ")
