"""The scalar and aggregate functions that expressions may name, and what they mean.

This table is the single list: the binder types calls by it, `operators.expressions.evaluate` has one column kernel for
each name, `testing.oracle.oracle` one plain Python function for each name, and a test compares the three.

Meaning, where SQL systems differ (we follow Spark SQL without ANSI mode): NULL in gives NULL out unless said otherwise.
`and`, `or`, `not` are three-valued. Integer `+ - *` and `neg`, `abs` give BIGINT (wrapping); with any FLOAT or DOUBLE
they give DOUBLE. `/` gives DOUBLE; `/`, `div` and `%` by zero give NULL. `div` truncates toward zero and `%` takes the
sign of the dividend. Beside a DECIMAL, exact numbers are computed exactly, with the result types of `model.decimals`; a
value that does not fit becomes NULL. `round` rounds half away from zero. A comparison of INT, BIGINT and DOUBLE is
numeric; TIMESTAMP and DATE compare as instants. String positions count from 1; characters, not bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.model.decimals import arithmetic_type, mean_type, operands, rounded_type, sum_type
from headrace.model.expressions import nested_functions as nested
from headrace.model.types import ArrayType, DataType, DecimalType, MapType, Type, common_type, has_map, is_nested

Typing = Callable[[Sequence[DataType]], DataType | None]


@dataclass(frozen=True, slots=True)
class Function:
    """The arguments and the result type of a function; `typing` returns None for types that do not fit."""

    least: int
    most: int | None
    typing: Typing
    help: str


def _fits(want: DataType | str, have: DataType) -> bool:
    if have is Type.NULL or want == "any" or want == have:
        return True
    if want == "plain":
        return not is_nested(have)
    if want == "number":
        return have.is_numeric
    if want == "integer":
        return have.is_integer
    if want == "bytes":
        return have in (Type.STRING, Type.BINARY)
    if want == "coded":
        return have.is_integer or have in (Type.STRING, Type.BINARY)
    if want == "time":
        return have in (Type.TIMESTAMP, Type.DATE)
    return want is Type.DOUBLE and have.is_numeric


def _fixed(result: DataType, *wants: DataType | str) -> Typing:
    def typing(types: Sequence[DataType]) -> DataType | None:
        expected = [wants[min(i, len(wants) - 1)] for i in range(len(types))] if wants else []
        return result if all(map(_fits, expected, types)) else None

    return typing


def _comparison(types: Sequence[DataType]) -> DataType | None:
    return Type.BOOLEAN if common_type(types[0], types[1]) is not None and not any(map(is_nested, types)) else None


def _equality(types: Sequence[DataType]) -> DataType | None:
    return Type.BOOLEAN if common_type(types[0], types[1]) is not None and not any(map(has_map, types)) else None


def _arithmetic(types: Sequence[DataType]) -> DataType | None:
    if not all(t.is_numeric or t is Type.NULL for t in types):
        return None
    return Type.BIGINT if all(t.is_integer or t is Type.NULL for t in types) else Type.DOUBLE


def _exact(function: str) -> Typing:
    """Return the typing of an operator: a DECIMAL if an operand is one and none is FLOAT or DOUBLE."""

    def typing(types: Sequence[DataType]) -> DataType | None:
        decimals = operands(types)
        if decimals is not None:
            return arithmetic_type(function, decimals[0], decimals[1])
        return (Type.DOUBLE if function == "/" else _arithmetic(types)) if _are_numbers(types) else None

    return typing


def _are_numbers(types: Sequence[DataType]) -> bool:
    return all(t.is_numeric or t is Type.NULL for t in types)


def _signed(types: Sequence[DataType]) -> DataType | None:
    return types[0] if isinstance(types[0], DecimalType) else _arithmetic(types)


def _whole(types: Sequence[DataType]) -> DataType | None:
    if isinstance(types[0], DecimalType):
        return rounded_type(types[0], 0)
    return Type.BIGINT if _are_numbers(types) else None


def _plus(types: Sequence[DataType]) -> DataType | None:
    pair = tuple(types)
    if pair in ((Type.TIMESTAMP, Type.INTERVAL), (Type.INTERVAL, Type.TIMESTAMP), (Type.DATE, Type.INTERVAL)):
        return Type.TIMESTAMP
    return Type.INTERVAL if pair == (Type.INTERVAL, Type.INTERVAL) else _exact("+")(types)


def _minus(types: Sequence[DataType]) -> DataType | None:
    pair = tuple(types)
    if pair in ((Type.TIMESTAMP, Type.INTERVAL), (Type.DATE, Type.INTERVAL)):
        return Type.TIMESTAMP
    if pair in ((Type.TIMESTAMP, Type.TIMESTAMP), (Type.INTERVAL, Type.INTERVAL)):
        return Type.INTERVAL
    return _exact("-")(types)


def _integral(types: Sequence[DataType]) -> DataType | None:
    return Type.BIGINT if all(t.is_integer or t is Type.NULL for t in types) else None


def _common(types: Sequence[DataType]) -> DataType | None:
    result: DataType | None = types[0]
    for type_ in types[1:]:
        result = None if result is None else common_type(result, type_)
    return result


def _membership(types: Sequence[DataType]) -> DataType | None:
    return Type.BOOLEAN if _ordered(types) is not None else None


def _ordered(types: Sequence[DataType]) -> DataType | None:
    return None if any(map(is_nested, types)) else _common(types)


def _round(types: Sequence[DataType]) -> DataType | None:
    if not _are_numbers(types):
        return None
    if isinstance(types[0], DecimalType):  # the binder knows the digits
        return rounded_type(types[0], 0 if len(types) == 1 else types[0].scale)
    return Type.BIGINT if types[0].is_integer else Type.DOUBLE


def _make_timestamp(types: Sequence[DataType]) -> DataType | None:
    wants: Sequence[DataType | str] = (*["integer"] * 5, "number")
    return Type.TIMESTAMP if all(map(_fits, wants, types)) else None


def _first(types: Sequence[DataType]) -> DataType | None:
    return types[0] if _equality(types) is not None else None


def _split(types: Sequence[DataType]) -> DataType | None:
    return _fixed(ArrayType(_S), _S, _S, "integer")(types)


_B = Type.BOOLEAN
_I = Type.BIGINT
_D = Type.DOUBLE
_S = Type.STRING
_T = Type.TIMESTAMP

FUNCTIONS: dict[str, Function] = {
    # logic; `and`, `or` are binary, Kleene
    "and": Function(2, 2, _fixed(_B, _B), "both true"),
    "or": Function(2, 2, _fixed(_B, _B), "either true"),
    "not": Function(1, 1, _fixed(_B, _B), "true if false"),
    "=": Function(2, 2, _equality, "equal"),
    "<>": Function(2, 2, _equality, "not equal"),
    "<": Function(2, 2, _comparison, "less"),
    "<=": Function(2, 2, _comparison, "less or equal"),
    ">": Function(2, 2, _comparison, "greater"),
    ">=": Function(2, 2, _comparison, "greater or equal"),
    "<=>": Function(2, 2, _equality, "equal, NULL being equal to NULL; never NULL"),
    "is_null": Function(1, 1, _fixed(_B, "any"), "true for NULL; never NULL"),
    "in": Function(
        2, None, _membership, "x equals one of the others; NULL if none does and one of them, or x, is NULL"
    ),
    "coalesce": Function(1, None, _common, "the first argument that is not NULL"),
    "nullif": Function(2, 2, _first, "NULL if the two are equal, else the first"),
    "greatest": Function(2, None, _ordered, "the largest, ignoring NULL"),
    "least": Function(2, None, _ordered, "the smallest, ignoring NULL"),
    # numbers
    "+": Function(2, 2, _plus, "sum; also TIMESTAMP + INTERVAL"),
    "-": Function(2, 2, _minus, "difference; also of TIMESTAMP and INTERVAL, or two TIMESTAMPs"),
    "*": Function(2, 2, _exact("*"), "product"),
    "/": Function(2, 2, _exact("/"), "quotient, as DOUBLE or DECIMAL"),
    "%": Function(2, 2, _exact("%"), "remainder with the sign of the dividend"),
    "div": Function(2, 2, _integral, "integer quotient, toward zero"),
    "neg": Function(1, 1, _signed, "the opposite number"),
    "abs": Function(1, 1, _signed, "the absolute value"),
    "sign": Function(1, 1, _fixed(_D, "number"), "-1.0, 0.0 or 1.0"),
    "round": Function(1, 2, _round, "round(x [, digits]), half away from zero; digits is a literal"),
    "floor": Function(1, 1, _whole, "the largest integer not above x"),
    "ceil": Function(1, 1, _whole, "the smallest integer not below x"),
    "sqrt": Function(1, 1, _fixed(_D, "number"), "square root; NaN below zero"),
    "exp": Function(1, 1, _fixed(_D, "number"), "e to the power x"),
    "ln": Function(1, 1, _fixed(_D, "number"), "natural logarithm; NULL for x <= 0"),
    "log10": Function(1, 1, _fixed(_D, "number"), "decimal logarithm; NULL for x <= 0"),
    "log2": Function(1, 1, _fixed(_D, "number"), "binary logarithm; NULL for x <= 0"),
    "pow": Function(2, 2, _fixed(_D, "number"), "x to the power y, as DOUBLE"),
    "sin": Function(1, 1, _fixed(_D, "number"), "sine"),
    "cos": Function(1, 1, _fixed(_D, "number"), "cosine"),
    "tan": Function(1, 1, _fixed(_D, "number"), "tangent"),
    "asin": Function(1, 1, _fixed(_D, "number"), "arc sine; NaN outside of -1 to 1"),
    "acos": Function(1, 1, _fixed(_D, "number"), "arc cosine; NaN outside of -1 to 1"),
    "atan": Function(1, 1, _fixed(_D, "number"), "arc tangent"),
    "atan2": Function(2, 2, _fixed(_D, "number"), "atan2(y, x): the angle of the point (x, y)"),
    "sinh": Function(1, 1, _fixed(_D, "number"), "hyperbolic sine"),
    "cosh": Function(1, 1, _fixed(_D, "number"), "hyperbolic cosine"),
    "tanh": Function(1, 1, _fixed(_D, "number"), "hyperbolic tangent"),
    "cot": Function(1, 1, _fixed(_D, "number"), "cotangent"),
    "sec": Function(1, 1, _fixed(_D, "number"), "secant"),
    "csc": Function(1, 1, _fixed(_D, "number"), "cosecant"),
    "degrees": Function(1, 1, _fixed(_D, "number"), "radians to degrees"),
    "radians": Function(1, 1, _fixed(_D, "number"), "degrees to radians"),
    "cbrt": Function(1, 1, _fixed(_D, "number"), "cube root"),
    "hypot": Function(2, 2, _fixed(_D, "number"), "square root of x*x + y*y"),
    "expm1": Function(1, 1, _fixed(_D, "number"), "exp(x) - 1, exact near zero"),
    "log1p": Function(1, 1, _fixed(_D, "number"), "ln(1 + x), exact near zero; NULL for x <= -1"),
    "log": Function(1, 2, _fixed(_D, "number"), "log(x) is ln(x), log(base, x); NULL if one of them is <= 0"),
    "pmod": Function(2, 2, _exact("pmod"), "the remainder that is not negative, of a positive divisor"),
    "factorial": Function(1, 1, _fixed(_I, "integer"), "n factorial; NULL outside of 0 to 20"),
    "rint": Function(1, 1, _fixed(_D, "number"), "the nearest integer as DOUBLE, ties to the even one"),
    "bround": Function(1, 2, _round, "round(x [, digits]), ties to the even digit; digits is a literal >= 0"),
    "isnan": Function(1, 1, _fixed(_B, "number"), "true for NaN; never NULL"),
    "nanvl": Function(2, 2, _fixed(_D, "number"), "the first, or if that is NaN the second"),
    "&": Function(2, 2, _integral, "bitwise AND"),
    "|": Function(2, 2, _integral, "bitwise OR"),
    "^": Function(2, 2, _integral, "bitwise exclusive OR"),
    "~": Function(1, 1, _integral, "bitwise NOT"),
    "shiftleft": Function(2, 2, _integral, "x shifted to the left by n bits, n modulo 64"),
    "shiftright": Function(2, 2, _integral, "x shifted to the right by n bits, with its sign"),
    "shiftrightunsigned": Function(2, 2, _integral, "x shifted to the right by n bits, with zeros"),
    "bit_count": Function(1, 1, _integral, "number of bits that are set, of 64"),
    "format_number": Function(
        2, 2, _fixed(_S, "number", "integer"), "format_number(x, 2): '12,345.68', ties to the even digit; a literal"
    ),
    "hex": Function(1, 1, _fixed(_S, "coded"), "hexadecimal digits of an integer, or of the bytes of a text"),
    "bin": Function(1, 1, _fixed(_S, "integer"), "binary digits"),
    # strings
    "||": Function(
        2, None, _fixed(_S, "any"), "concatenation (arguments cast to STRING); NULL if any is NULL; also concat"
    ),
    "upper": Function(1, 1, _fixed(_S, _S), "upper case"),
    "lower": Function(1, 1, _fixed(_S, _S), "lower case"),
    "length": Function(1, 1, _fixed(_I, "bytes"), "number of characters, of a BINARY of bytes"),
    "substring": Function(2, 3, _fixed(_S, _S, "integer"), "substring(s, from [, length]); from >= 1"),
    "left": Function(2, 2, _fixed(_S, _S, "integer"), "the first n characters"),
    "right": Function(2, 2, _fixed(_S, _S, "integer"), "the last n characters"),
    "trim": Function(1, 2, _fixed(_S, _S), "without blanks at both ends; also TRIM(BOTH 'xy' FROM s), btrim(s, 'xy')"),
    "ltrim": Function(1, 2, _fixed(_S, _S), "without blanks at the start; also TRIM(LEADING 'xy' FROM s)"),
    "rtrim": Function(1, 2, _fixed(_S, _S), "without blanks at the end; also TRIM(TRAILING 'xy' FROM s)"),
    "replace": Function(2, 3, _fixed(_S, _S), "replace(s, what [, by]): all occurrences, literally"),
    "starts_with": Function(2, 2, _fixed(_B, _S), "s begins with t"),
    "ends_with": Function(2, 2, _fixed(_B, _S), "s ends with t"),
    "contains": Function(2, 2, _fixed(_B, _S), "s contains t"),
    "position": Function(
        2, 3, _fixed(_I, _S, _S, "integer"), "position(t, s [, from]): where t begins in s, from 1; 0 if nowhere"
    ),
    "reverse": Function(1, 1, _fixed(_S, _S), "backwards"),
    "lpad": Function(
        2,
        3,
        _fixed(_S, _S, "integer", _S),
        "lpad(s, n [, fill]): n and fill, a blank by default, are literals; cuts to n",
    ),
    "rpad": Function(
        2,
        3,
        _fixed(_S, _S, "integer", _S),
        "rpad(s, n [, fill]): n and fill, a blank by default, are literals; cuts to n",
    ),
    "split_part": Function(
        3, 3, _fixed(_S, _S, _S, "integer"), "split_part(s, separator, n): part n from 1, '' if there is none; literals"
    ),
    "like": Function(
        2, 2, _fixed(_B, _S), "SQL pattern, literal: % any text, _ one character, \\ escapes; matches the whole"
    ),
    "ilike": Function(2, 2, _fixed(_B, _S), "like, whatever the case"),
    "rlike": Function(2, 2, _fixed(_B, _S), "a literal regular expression matches somewhere"),
    "regexp_extract": Function(
        2, 3, _fixed(_S, _S, _S, "integer"), "group n (default 1) of the first match; '' if none; literals"
    ),
    "regexp_replace": Function(
        3, 3, _fixed(_S, _S), "regexp_replace(s, pattern, by): all matches, $1 being the first group; literals"
    ),
    "regexp_extract_all": Function(
        2, 3, _fixed(ArrayType(_S), _S, _S, "integer"), "group n (default 1) of all matches, as an ARRAY; literals"
    ),
    "regexp_count": Function(2, 2, _fixed(_I, _S), "number of matches of a literal regular expression"),
    "regexp_substr": Function(2, 2, _fixed(_S, _S), "the first match of a literal regular expression; NULL if none"),
    "initcap": Function(1, 1, _fixed(_S, _S), "words, divided by blanks, with a capital first letter"),
    "ascii": Function(1, 1, _fixed(_I, _S), "code of the first character; 0 of ''"),
    "chr": Function(1, 1, _fixed(_S, "integer"), "the character with the code n modulo 256; '' below zero"),
    "repeat": Function(2, 2, _fixed(_S, _S, "integer"), "repeat(s, n): n is a literal"),
    "translate": Function(3, 3, _fixed(_S, _S), "translate(s, from, to): characters one by one; literals"),
    "concat_ws": Function(
        1,
        None,
        _fixed(_S, _S),
        "concat_ws(separator, s, ...): texts, or ARRAYs of them, joined without NULL; a literal",
    ),
    "substring_index": Function(
        3, 3, _fixed(_S, _S, _S, "integer"), "what is before the n-th separator; from the end if n is negative"
    ),
    "find_in_set": Function(2, 2, _fixed(_I, _S), "find_in_set(s, 'a,b,c'): place from 1; 0 if nowhere"),
    "levenshtein": Function(2, 2, _fixed(_I, _S), "edits of one character that make two texts equal"),
    "parse_url": Function(
        2,
        3,
        _fixed(_S, _S),
        "parse_url(url, 'HOST'), or PATH, QUERY, ...; parse_url(url, 'QUERY', key): one value of it",
    ),
    "url_encode": Function(1, 1, _fixed(_S, _S), "a text as it is written in the query of a URL"),
    "url_decode": Function(1, 1, _fixed(_S, _S), "the text that a value in a URL means; NULL if it is none"),
    "bit_length": Function(1, 1, _fixed(_I, "bytes"), "number of bits, of a text in UTF-8"),
    "octet_length": Function(1, 1, _fixed(_I, "bytes"), "number of bytes, of a text in UTF-8"),
    "md5": Function(1, 1, _fixed(_S, "bytes"), "MD5 digest in hexadecimal"),
    "sha1": Function(1, 1, _fixed(_S, "bytes"), "SHA-1 digest in hexadecimal"),
    "sha2": Function(2, 2, _fixed(_S, "bytes", "integer"), "sha2(s, bits): 224, 256, 384 or 512, a literal"),
    "crc32": Function(1, 1, _fixed(_I, "bytes"), "cyclic redundancy check"),
    "xxhash64": Function(1, None, _fixed(_I, "plain"), "hash of all arguments, as in Spark"),
    "base64": Function(1, 1, _fixed(_S, "bytes"), "Base64"),
    "unbase64": Function(1, 1, _fixed(Type.BINARY, _S), "the bytes that a text in Base64 means; NULL if it is none"),
    "unhex": Function(1, 1, _fixed(Type.BINARY, _S), "the bytes that hexadecimal digits mean; NULL if they are none"),
    "encode": Function(2, 2, _fixed(Type.BINARY, _S), "encode(s, 'UTF-8'): the bytes of a text; a literal"),
    "decode": Function(2, 2, _fixed(_S, Type.BINARY, _S), "decode(b, 'UTF-8'): the text that bytes mean; a literal"),
    "get_json_object": Function(
        2, 2, _fixed(_S, _S), "the value at a path such as '$.a.b[0]', a literal, as text; NULL if there is none"
    ),
    "json_array_length": Function(1, 1, _fixed(_I, _S), "length of a JSON list; NULL if it is none"),
    # ARRAY, MAP and STRUCT
    "field": Function(2, 2, nested.by_binder, "s.name: a field of a STRUCT"),
    "item": Function(2, 2, nested.item_type, "a[i], from 0, or m[key]; NULL if there is none"),
    "element_at": Function(2, 2, nested.item_type, "element_at(a, i): from 1, from the end if negative; or of a key"),
    "array": Function(1, None, nested.array_type, "array(x, y, ...), also ARRAY[x, y]: an ARRAY of these values"),
    "named_struct": Function(2, None, nested.by_binder, "named_struct('a', x, 'b', y): a STRUCT; see also struct"),
    "map": Function(2, None, nested.map_type, "map(key, value, ...): a MAP; NULL if a key is NULL, the last counts"),
    "map_from_arrays": Function(2, 2, nested.map_of_arrays, "a MAP of keys and values; NULL if they do not match"),
    "size": Function(1, 1, nested.sized, "number of elements or keys; NULL of NULL"),
    "array_contains": Function(2, 2, nested.with_element(_B), "whether an element is equal; NULL if only NULL may be"),
    "array_position": Function(2, 2, nested.with_element(_I), "place of the first equal element, from 1; 0 if nowhere"),
    "array_append": Function(2, 2, nested.with_element(), "the array with one more element"),
    "array_remove": Function(2, 2, nested.with_element(), "the array without equal elements"),
    "array_distinct": Function(1, 1, nested.of_arrays(), "each different element once, in the order of the first ones"),
    "array_union": Function(2, 2, nested.two_arrays(), "each element of both once"),
    "array_intersect": Function(2, 2, nested.two_arrays(), "each element once that both have"),
    "array_except": Function(2, 2, nested.two_arrays(), "each element once that only the first has"),
    "arrays_overlap": Function(2, 2, nested.two_arrays(_B), "whether an element is in both; NULL if only NULL may be"),
    "array_sort": Function(1, 1, nested.in_order, "ascending, NULL last"),
    "sort_array": Function(1, 2, nested.in_order, "ascending with NULL first; sort_array(a, false) is the reverse"),
    "array_min": Function(1, 1, nested.element_of, "least element that is not NULL"),
    "array_max": Function(1, 1, nested.element_of, "greatest element that is not NULL"),
    "array_join": Function(2, 3, nested.of_text_arrays, "array_join(a, separator [, instead of NULL]) of texts"),
    "slice": Function(3, 3, nested.of_arrays(None, _I, _I), "slice(a, start, length); from 1, or from the end"),
    "flatten": Function(1, 1, nested.flattened, "the elements of the arrays in an array; NULL if one is NULL"),
    "sequence": Function(
        2,
        3,
        nested.sequence_type,
        "sequence(from, to [, step]) of integers or times, to included; NULL if a step never arrives",
    ),
    "map_concat": Function(1, None, nested.same_maps, "the keys of all MAPs; of equal ones the last counts"),
    "map_keys": Function(1, 1, nested.keys_of, "the keys, as an ARRAY"),
    "map_values": Function(1, 1, nested.values_of, "the values, as an ARRAY"),
    "map_contains_key": Function(2, 2, nested.has_key, "whether a MAP has a key"),
    "split": Function(2, 3, _split, "split(s, regular expression [, most parts]): an ARRAY of texts; literals"),
    "to_json": Function(1, 1, nested.written, "an ARRAY, MAP or STRUCT as JSON; fields that are NULL are left out"),
    "from_json": Function(2, 2, nested.by_binder, "from_json(s, 'a INT, b ARRAY<STRING>'); what does not fit is NULL"),
    # date and time; parts of TIMESTAMP or DATE
    "year": Function(1, 1, _fixed(_I, "time"), "calendar year"),
    "quarter": Function(1, 1, _fixed(_I, "time"), "1 to 4"),
    "month": Function(1, 1, _fixed(_I, "time"), "1 to 12"),
    "week": Function(1, 1, _fixed(_I, "time"), "ISO week"),
    "day": Function(1, 1, _fixed(_I, "time"), "day of the month"),
    "dayofweek": Function(1, 1, _fixed(_I, "time"), "1 for Sunday to 7 for Saturday"),
    "dayofyear": Function(1, 1, _fixed(_I, "time"), "1 to 366"),
    "hour": Function(1, 1, _fixed(_I, _T), "0 to 23"),
    "minute": Function(1, 1, _fixed(_I, _T), "0 to 59"),
    "second": Function(1, 1, _fixed(_I, _T), "0 to 59"),
    "date_trunc": Function(
        2, 2, _fixed(_T, _S, "time"), "date_trunc(unit, t): literal second minute hour day week month quarter year"
    ),
    "to_date": Function(1, 1, _fixed(Type.DATE, _T), "the day of an instant"),
    "weekday": Function(1, 1, _fixed(_I, "time"), "0 for Monday to 6 for Sunday"),
    "yearofweek": Function(1, 1, _fixed(_I, "time"), "year of the ISO week"),
    "add_months": Function(
        2, 2, _fixed(Type.DATE, Type.DATE, "integer"), "the same day n months later, or the last day of that month"
    ),
    "months_between": Function(
        2, 2, _fixed(_D, "time"), "months_between(end, start); parts of months by 31 days, to 8 digits"
    ),
    "last_day": Function(1, 1, _fixed(Type.DATE, Type.DATE), "the last day of the month"),
    "next_day": Function(
        2, 2, _fixed(Type.DATE, Type.DATE, _S), "next_day(d, 'Mon'): the first such day after d; a literal"
    ),
    "make_date": Function(3, 3, _fixed(Type.DATE, "integer"), "make_date(year, month, day); NULL if there is none"),
    "make_timestamp": Function(
        6, 6, _make_timestamp, "make_timestamp(year, month, day, hour, minute, second); NULL if there is none"
    ),
    "unix_date": Function(1, 1, _fixed(_I, Type.DATE), "days since 1970"),
    "date_from_unix_date": Function(1, 1, _fixed(Type.DATE, "integer"), "the date n days after 1970-01-01"),
    "date_format": Function(
        2, 2, _fixed(_S, "time", _S), "date_format(t, 'yyyy-MM-dd HH:mm:ss'): see the letters below; a literal"
    ),
    "parse_timestamp": Function(
        2, 2, _fixed(_T, _S), "to_timestamp(s, format): the instant that a text in this format means; NULL if none"
    ),
    "parse_date": Function(
        2, 2, _fixed(Type.DATE, _S), "to_date(s, format): the day that a text in this format means; NULL if none"
    ),
    "from_utc_timestamp": Function(
        2, 2, _fixed(_T, "time", _S), "from_utc_timestamp(t, 'Europe/Paris'): what a clock shows there; a literal"
    ),
    "to_utc_timestamp": Function(
        2, 2, _fixed(_T, "time", _S), "to_utc_timestamp(t, 'Europe/Paris'): when a clock shows t there; a literal"
    ),
    "date_add": Function(2, 2, _fixed(Type.DATE, Type.DATE, "integer"), "n days later"),
    "datediff": Function(2, 2, _fixed(_I, Type.DATE), "datediff(end, start) in days"),
    "unix_seconds": Function(1, 1, _fixed(_I, _T), "whole seconds since 1970, rounded down"),
    "unix_millis": Function(1, 1, _fixed(_I, _T), "whole milliseconds since 1970, rounded down"),
    "unix_micros": Function(1, 1, _fixed(_I, _T), "microseconds since 1970"),
    "timestamp_seconds": Function(1, 1, _fixed(_T, "integer"), "the instant n seconds after 1970"),
    "timestamp_millis": Function(1, 1, _fixed(_T, "integer"), "the instant n milliseconds after 1970"),
    "timestamp_micros": Function(1, 1, _fixed(_T, "integer"), "the instant n microseconds after 1970"),
}


def _numeric_sum(types: Sequence[DataType]) -> DataType | None:
    return sum_type(types[0]) if isinstance(types[0], DecimalType) else _arithmetic(types)


def _mean(types: Sequence[DataType]) -> DataType | None:
    if isinstance(types[0], DecimalType):
        return mean_type(types[0])
    return Type.DOUBLE if _are_numbers(types) else None


def _first_number(types: Sequence[DataType]) -> DataType | None:
    return types[0] if types[0].is_numeric else None


def _same(types: Sequence[DataType]) -> DataType | None:
    return None if any(map(is_nested, types)) else types[0]


def _itself(types: Sequence[DataType]) -> DataType | None:
    return types[0]


def _of_other(types: Sequence[DataType]) -> DataType | None:
    return None if is_nested(types[1]) else types[0]


def _counted_once(types: Sequence[DataType]) -> DataType | None:
    return None if has_map(types[0]) else Type.BIGINT


def _histogram(types: Sequence[DataType]) -> DataType | None:
    return None if is_nested(types[0]) or types[0] is Type.NULL else MapType(types[0], Type.BIGINT)


#: Aggregates skip NULL except `first` and `last`; over nothing but NULL they give NULL, counts 0. `count` takes 0 or 1
#: argument.
#: Functions that take functions; the binder types them.
HIGHER: dict[str, Function] = {
    "transform": Function(
        2, 2, nested.by_binder, "transform(xs, x -> x + 1): each element changed; also (x, i) -> ..."
    ),
    "filter": Function(2, 2, nested.by_binder, "filter(xs, x -> x > 0): the elements of which it is true"),
    "exists": Function(2, 2, nested.by_binder, "exists(xs, x -> x > 0): whether it is true of an element"),
    "forall": Function(2, 2, nested.by_binder, "forall(xs, x -> x > 0): whether it is true of all elements"),
    "aggregate": Function(
        3, 4, nested.by_binder, "aggregate(xs, 0, (acc, x) -> acc + x [, acc -> acc * 2]): one element after the other"
    ),
    "zip_with": Function(3, 3, nested.by_binder, "zip_with(xs, ys, (x, y) -> x + y): by place; the shorter has NULL"),
    "map_filter": Function(2, 2, nested.by_binder, "map_filter(m, (k, v) -> v > 0): the keys of which it is true"),
    "transform_values": Function(2, 2, nested.by_binder, "transform_values(m, (k, v) -> v + 1): each value changed"),
    "transform_keys": Function(2, 2, nested.by_binder, "transform_keys(m, (k, v) -> upper(k)): each key changed"),
}

AGGREGATES: dict[str, Function] = {
    "count": Function(0, 1, _fixed(_I, "any"), "number of rows, or of values that are not NULL"),
    "sum": Function(1, 1, _numeric_sum, "BIGINT of integers, DECIMAL with ten more digits of DECIMALs, else DOUBLE"),
    "avg": Function(1, 1, _mean, "mean; of DECIMALs a DECIMAL with four more digits"),
    "min": Function(1, 1, _same, "least value; of nested values write min_by(x, y)"),
    "max": Function(1, 1, _same, "greatest value; of nested values write max_by(x, y)"),
    "stddev": Function(1, 1, _fixed(_D, "number"), "of the sample; NULL below two values"),
    "variance": Function(1, 1, _fixed(_D, "number"), "of the sample; NULL below two values"),
    "var_pop": Function(1, 1, _fixed(_D, "number"), "variance of the values themselves"),
    "stddev_pop": Function(1, 1, _fixed(_D, "number"), "standard deviation of the values themselves"),
    "covar_samp": Function(2, 2, _fixed(_D, "number"), "covariance of a sample of pairs; NULL below two"),
    "covar_pop": Function(2, 2, _fixed(_D, "number"), "covariance of the pairs themselves"),
    "corr": Function(
        2, 2, _fixed(_D, "number"), "correlation of pairs; NULL below two, or if one of them never varies"
    ),
    "count_distinct": Function(1, 1, _counted_once, "number of different values that are not NULL"),
    "approx_count_distinct": Function(
        1, 2, _fixed(_I, "plain", "number"), "the same, exact up to 4,096 of them; beyond, an estimate"
    ),
    "sum_distinct": Function(1, 1, _numeric_sum, "sum of the different values"),
    "avg_distinct": Function(1, 1, _mean, "mean of the different values"),
    "median": Function(1, 1, _fixed(_D, "number"), "the middle value, or the mean of the two in the middle"),
    "percentile": Function(2, 2, _fixed(_D, "number"), "percentile(x, 0.9), interpolated; the fraction is a literal"),
    "percentile_disc": Function(2, 2, _fixed(_D, "number"), "the least value that reaches the fraction; a literal"),
    "approx_percentile": Function(
        2,
        3,
        _first_number,
        "the least value that reaches the fraction, in its own type; exact up to 1,024 values, beyond within 1 %",
    ),
    "mode": Function(1, 1, _same, "the most frequent value; of several the least"),
    "max_by": Function(2, 2, _of_other, "max_by(x, y): x where y is greatest; of several the least x, NULL before all"),
    "min_by": Function(2, 2, _of_other, "min_by(x, y): x where y is least; of several the least x, NULL before all"),
    "collect_list": Function(1, 1, nested.collected, "an ARRAY of the values, in the order of time, then of value"),
    "collect_set": Function(1, 1, nested.collected_once, "an ARRAY of the different values, in ascending order"),
    "string_agg": Function(1, 2, nested.joined, "string_agg(s, separator): the texts in the order of time, one text"),
    "histogram": Function(1, 1, _histogram, "how often each value occurs: a MAP from values to counts"),
    "skewness": Function(1, 1, _fixed(_D, "number"), "how lopsided the values are; NULL if they do not vary"),
    "kurtosis": Function(
        1, 1, _fixed(_D, "number"), "how heavy the ends are, 0 for a normal distribution; NULL if values do not vary"
    ),
    "product": Function(1, 1, _fixed(_D, "number"), "product of the values, as DOUBLE"),
    "bit_and": Function(1, 1, _fixed(_I, "integer"), "the bits that all values have"),
    "bit_or": Function(1, 1, _fixed(_I, "integer"), "the bits that one of the values has"),
    "bit_xor": Function(1, 1, _fixed(_I, "integer"), "the bits that an odd number of values has"),
    "bool_and": Function(1, 1, _fixed(_B, _B), "true if all values are"),
    "bool_or": Function(1, 1, _fixed(_B, _B), "true if one of the values is"),
    "first": Function(
        1, 1, _itself, "value of the earliest row, NULL included; ties by arrival, of a derived stream the least value"
    ),
    "shed_error": Function(
        0,
        0,
        _fixed(_D),
        "how far count(*) is likely to be off, as a share of it, because tuples were shed by chance; else 0",
    ),
    "last": Function(
        1, 1, _itself, "value of the latest row, NULL included; ties by arrival, of a derived stream the greatest value"
    ),
}

#: Aggregates that the binder writes as an expression of others.
OTHER_AGGREGATES = (
    "count_if", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy", "regr_slope",
    "regr_intercept", "regr_r2",
)  # fmt: skip

#: Aggregates that the binder writes as another one.
COMPUTED_BY = {
    "median": "percentile", "approx_percentile": "percentile_disc", "approx_count_distinct": "count_distinct",
    "bool_and": "min", "bool_or": "max", "string_agg": "collect_list",
}  # fmt: skip
