"""Types a call by the table of functions, under all the names that Spark gives to a function."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import reduce

from headrace.errors import NameFault, NotSupported, QueryError, Span, TypeFault
from headrace.language import other_systems
from headrace.language.names import DECIMAL_NAMES, DEFAULT_DECIMAL, TYPE_NAMES, did_you_mean
from headrace.model.decimals import rounded_type
from headrace.model.expressions.constants import check_constants
from headrace.model.expressions.expression import Call, Case, Cast, Expr, Literal
from headrace.model.expressions.functions import AGGREGATES, FUNCTIONS
from headrace.model.limits import PADDED_LENGTH
from headrace.model.types import ArrayType, DataType, DecimalType, Type, is_nested
from headrace.plan.binding.expressions.coerce import (
    SPAN_HINT,
    beside_decimal,
    beside_number,
    check_cast,
    coerce,
    is_text,
    unify,
)
from headrace.plan.binding.expressions.exact import compared
from headrace.plan.binding.expressions.other_functions import other_functions

ALIASES = {
    "char_length": "length", "character_length": "length", "len": "length", "ceiling": "ceil", "power": "pow",
    "ifnull": "coalesce", "nvl": "coalesce",
    "substr": "substring", "concat": "||", "mod": "%", "ucase": "upper", "lcase": "lower",
    "signum": "sign", "negative": "neg", "startswith": "starts_with", "endswith": "ends_with", "locate": "position",
    "charindex": "position", "dayofmonth": "day", "weekofyear": "week",
    "regexp_like": "rlike", "regexp": "rlike", "isnull": "is_null", "date_diff": "datediff", "dateadd": "date_add",
    "dow": "dayofweek", "doy": "dayofyear",
    "days": "day", "epoch": "unix_seconds",
    "years": "year", "months": "month", "hours": "hour", "minutes": "minute", "seconds": "second",
    "char": "chr", "sha": "sha1", "equal_null": "<=>", "bit_not": "~", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan",
    "quantile_cont": "percentile", "quantile_disc": "percentile_disc",
    "percentile_cont": "percentile", "percentile_approx": "approx_percentile",
    "approx_distinct": "approx_count_distinct", "every": "bool_and", "arg_max": "max_by", "arg_min": "min_by",
    "mean": "avg", "std": "stddev", "stddev_samp": "stddev", "var_samp": "variance", "var": "variance",
    "first_value": "first", "last_value": "last", "any_value": "first", "cardinality": "size", "array_size": "size",
    "array_length": "size", "array_to_string": "array_join",
    "make_timestamp_ntz": "make_timestamp", "make_timestamp_ltz": "make_timestamp",
    "logical_or": "bool_or", "logical_and": "bool_and",
    "some": "bool_or", "array_agg": "collect_list", "listagg": "string_agg", "group_concat": "string_agg",
}  # fmt: skip

_CLOCK = ("now", "current_timestamp", "current_date", "current_time", "getdate", "localtimestamp", "curdate")
_CHANCE = ("rand", "random", "randn", "uuid", "shuffle")
#: Arguments that the kernels need as constants.
_CONSTANT = {
    "round": (1,), "like": (1,), "ilike": (1,), "rlike": (1,), "regexp_extract": (1, 2), "lpad": (1, 2), "rpad": (1, 2),
    "split_part": (1, 2), "date_trunc": (0,), "trim": (1,), "ltrim": (1,), "rtrim": (1,), "bround": (1,),
    "repeat": (1,), "translate": (1, 2), "concat_ws": (0,), "regexp_replace": (1, 2), "regexp_count": (1,),
    "regexp_substr": (1,), "sha2": (1,), "get_json_object": (1,), "next_day": (1,), "date_format": (1,),
    "parse_timestamp": (1,), "parse_date": (1,), "encode": (1,), "decode": (1,), "split": (1, 2),
    "regexp_extract_all": (1, 2), "format_number": (1,), "from_utc_timestamp": (1,), "to_utc_timestamp": (1,),
}  # fmt: skip
_UNIT_NAMES = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}
_TRUNCATIONS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
_PARTS = (
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "dayofweek",
    "dayofyear",
    "hour",
    "minute",
    "second",
    "unix_seconds",
    "yearofweek",
    "weekday",
)
_TIME_HINT = "write TIMESTAMP '2026-01-31 12:00:00', DATE '2026-01-31' or INTERVAL 5 MINUTES"
#: Arithmetic that is exact if an operand is a DECIMAL.
_EXACT = ("+", "-", "*", "/", "%", "pmod")
_COMPARING = ("=", "<>", "<", "<=", ">", ">=", "<=>", "in")
_UNIFIED = (*_COMPARING, "coalesce", "nullif", "greatest", "least")


def call(written: str, args: Sequence[Expr], span: Span | None) -> Expr:
    """Apply a scalar function, by the name that the user wrote, to bound arguments."""
    name = written.lower()
    special = _SPECIAL.get(name)
    if special is not None:
        try:
            result = special(tuple(args))
        except QueryError as error:
            error.span = error.span or span  # a function that stands for several does not know where it is written
            raise
        if result is not None:
            return check_cast(result, span)
    if name in ("date_part", "datepart", "extract") and len(args) == 2:
        return part(args[0], args[1], span)
    if name.upper() in TYPE_NAMES and name not in ALIASES and len(args) == 1:
        return check_cast(Cast(args[0], TYPE_NAMES[name.upper()]), span)
    if name.upper() in DECIMAL_NAMES and len(args) == 1:
        return check_cast(coerce(args[0], DEFAULT_DECIMAL), span)
    if name in ("trim", "ltrim", "rtrim") and len(args) == 2:
        side = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}[name]
        raise NotSupported(
            f"{name} with two arguments means different things in different systems",
            span=span,
            hint=f"write TRIM({side} 'xy' FROM s)",
        )
    _refuse(name, span)
    return apply(ALIASES.get(name, name), tuple(args), span, written=written)


def apply(function: str, args: tuple[Expr, ...], span: Span | None, *, written: str | None = None) -> Expr:
    """Apply a function of FUNCTIONS to bound arguments, converted where that loses nothing."""
    shown = written or function
    if function in ("+", "-") and len(args) == 2 and args[0].type is Type.DATE and args[1].type.is_integer:
        return apply("date_add", (args[0], args[1] if function == "+" else _negated(args[1])), span, written=shown)
    entry = FUNCTIONS.get(function)
    if entry is None:
        elsewhere = other_systems.FUNCTIONS.get(shown.lower())
        if elsewhere is not None:
            raise NotSupported(f"function {shown!r} is not supported", span=span, hint=elsewhere)
        if shown.lower() in _SPECIAL:
            raise TypeFault(f"{shown} cannot take {len(args)} arguments of these types: {_types(args)}", span=span)
        names = [name for name in (*FUNCTIONS, *AGGREGATES, *ALIASES, *_SPECIAL) if name[0].isalpha()]
        raise NameFault(f"function {shown!r} does not exist", span=span, hint=did_you_mean(shown, names))
    if len(args) < entry.least or (entry.most is not None and len(args) > entry.most):
        raise TypeFault(f"{shown} takes {_count(entry.least, entry.most)}, not {len(args)}", span=span, hint=entry.help)
    if function == "||":
        args = tuple(coerce(arg, Type.STRING) for arg in args)
    if function in (*_COMPARING, "nullif"):
        exact = compared(function, beside_decimal(args), lambda name, given: apply(name, given, span))
        if exact is not None:
            return exact
    args = _fitting(function, args, span)
    type_ = entry.typing([arg.type for arg in args])
    if type_ is None:
        raise TypeFault(
            f"{shown} cannot take {_types(args)}",
            span=span,
            hint=_cast_hint(function, args) or f"{shown}: {entry.help}",
        )
    if function in ("round", "bround") and isinstance(args[0].type, DecimalType) and len(args) == 2:
        type_ = rounded_type(args[0].type, _digits(args[1]))
    return Call(function, _constants(function, args, span), type_)


def _digits(expr: Expr) -> int:
    return expr.value if isinstance(expr, Literal) and isinstance(expr.value, int) else 0


def part(unit: Expr, arg: Expr, span: Span | None) -> Expr:
    """Apply EXTRACT(unit FROM arg) or date_part('unit', arg)."""
    name = str(unit.value).lower() if isinstance(unit, Literal) else ""
    name = ALIASES.get(name, name)
    if name not in _PARTS:
        raise NotSupported(
            f"{name!r} is not a part of a time",
            span=span,
            hint=did_you_mean(name, _PARTS, otherwise=f"parts are {', '.join(_PARTS)}"),
        )
    if name == "unix_seconds" and arg.type is Type.INTERVAL:  # EXTRACT(EPOCH FROM a - b)
        micros = apply("unix_micros", (apply("+", (Literal(0, Type.TIMESTAMP), arg), span),), span)
        return apply("/", (micros, Literal(1_000_000.0, Type.DOUBLE)), span)
    return apply(name, (arg,), span)


def _fitting(function: str, args: tuple[Expr, ...], span: Span | None) -> tuple[Expr, ...]:
    """Convert arguments to one common type where the function needs that, and dates, times and texts to what fits."""
    try:
        if function in _EXACT:
            args = beside_decimal(args)
        if function in _COMPARING:
            args = beside_number(args)
        if function in _UNIFIED:
            return unify(beside_decimal(args)) or args
    except ValueError as error:
        raise TypeFault(str(error), span=span, hint=_TIME_HINT) from error
    typing = FUNCTIONS[function].typing
    misfit: ValueError | None = None
    if typing([arg.type for arg in args]) is None and any(
        arg.type in (Type.TIMESTAMP, Type.DATE) or is_text(arg) for arg in args
    ):
        for kind in (Type.TIMESTAMP, Type.DATE, Type.INTERVAL):
            try:
                turned = _temporal(function, args, kind)
            except ValueError as error:
                misfit = misfit or error
            else:
                if typing([arg.type for arg in turned]) is not None:
                    return turned
    if misfit is not None and any(arg.type in (Type.TIMESTAMP, Type.DATE, Type.INTERVAL) for arg in args):
        raise TypeFault(str(misfit), span=span, hint=_TIME_HINT) from misfit
    return args


def _temporal(function: str, args: tuple[Expr, ...], target: DataType) -> tuple[Expr, ...]:
    def turn(index: int, arg: Expr) -> Expr:
        if index in _CONSTANT.get(function, ()):
            return arg
        if target is Type.INTERVAL:
            return coerce(arg, target) if is_text(arg) else arg
        return coerce(arg, target) if arg.type in (Type.TIMESTAMP, Type.DATE) or is_text(arg) else arg

    if function in ("+", "-", "*", "/", "%", "div") and target is Type.DATE:
        return args
    return tuple(turn(index, arg) for index, arg in enumerate(args))


def _constants(function: str, args: tuple[Expr, ...], span: Span | None) -> tuple[Expr, ...]:
    for index in _CONSTANT.get(function, ()):
        if index < len(args) and not isinstance(args[index], Literal):
            raise NotSupported(
                f"argument {index + 1} of {function} must be a constant", span=span, hint=FUNCTIONS[function].help
            )
    try:
        check_constants(function, [arg.value if isinstance(arg, Literal) else None for arg in args])
    except QueryError as error:
        error.span = error.span or span
        raise
    length = args[1] if function in ("lpad", "rpad", "repeat") else None
    if isinstance(length, Literal) and isinstance(length.value, int) and length.value > PADDED_LENGTH:
        raise NotSupported(
            f"{function} cannot make a text of {length.value:,} characters; at most {PADDED_LENGTH:,} are allowed",
            span=span,
        )
    if function == "date_trunc" and isinstance(args[0], Literal):
        unit = _UNIT_NAMES.get(str(args[0].value).lower(), str(args[0].value).lower())
        if unit not in _TRUNCATIONS:
            hint = did_you_mean(unit, _TRUNCATIONS, otherwise=f"units are {', '.join(_TRUNCATIONS)}")
            raise TypeFault(f"{unit!r} is not a unit of date_trunc", span=span, hint=hint)
        return (Literal(unit, Type.STRING), *args[1:])
    return args


def _refuse(name: str, span: Span | None) -> None:
    if name in _CLOCK:
        raise NotSupported(
            f"{name} is not supported: a continuous query has no single current time",
            span=span,
            hint="write rowtime, the timestamp of the tuple",
        )
    if name in _CHANCE:
        raise NotSupported(
            f"{name} is not supported: it would give another value when a micro-batch is repeated",
            span=span,
            hint="compute it where the data is produced",
        )


def _cast_hint(function: str, args: Sequence[Expr]) -> str | None:
    """Return a hint for operators, whose description would not help."""
    if any(arg.type is Type.INTERVAL for arg in args):
        return SPAN_HINT
    if any(is_nested(arg.type) for arg in args) and not function[0].isalpha():
        return "compare fields or elements, such as x.name or x[0]; a MAP is not equal to another"
    if function[0].isalpha() and function not in ("in", "coalesce", "nullif", "greatest", "least"):
        return None
    other = next((arg.type for arg in args if arg.type is not Type.STRING), Type.STRING)
    return f"convert one side, such as CAST(... AS {other.value})"


def _types(args: Sequence[Expr]) -> str:
    return " and ".join(dict.fromkeys(arg.type.value for arg in args))


def _count(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least} argument{'s' if least != 1 else ''}"
    return f"{least} argument{'s' if least != 1 else ''}" if least == most else f"{least} to {most} arguments"


def _nvl2(args: tuple[Expr, ...]) -> Expr | None:
    if len(args) != 3 or (unified := unify(args[1:])) is None:
        return None
    missing = Call("is_null", (args[0],), Type.BOOLEAN)
    return Case(((missing, unified[1]),), unified[0], unified[0].type)


def _negated(expr: Expr) -> Expr:
    if isinstance(expr, Literal) and isinstance(expr.value, int | float):
        return Literal(-expr.value, expr.type)
    return Call("neg", (expr,), Type.BIGINT)


def _formatted(args: tuple[Expr, ...], pattern: str, written: str) -> Expr | None:
    if len(args) != 1:
        return None
    return apply("date_format", (args[0], Literal(pattern, Type.STRING)), None, written=written)


def _from_unixtime(args: tuple[Expr, ...]) -> Expr | None:
    if len(args) not in (1, 2):
        return None
    pattern = args[1] if len(args) == 2 else Literal(_PLAIN_FORMAT, Type.STRING)
    instant = apply("timestamp_seconds", args[:1], None, written="from_unixtime")
    return apply("date_format", (instant, pattern), None, written="from_unixtime")


def _unix_timestamp(args: tuple[Expr, ...]) -> Expr | None:
    if len(args) == 1 and args[0].type in (Type.TIMESTAMP, Type.DATE):
        micros = apply("unix_micros", args, None, written="unix_timestamp")
        return apply("div", (micros, Literal(1_000_000, Type.INT)), None)  # toward zero, unlike unix_seconds
    if not args or len(args) > 2 or args[0].type is not Type.STRING:
        return None
    pattern = args[1] if len(args) == 2 else Literal(_PLAIN_FORMAT, Type.STRING)
    return apply("unix_seconds", (apply("parse_timestamp", (args[0], pattern), None, written="unix_timestamp"),), None)


def _elt(args: tuple[Expr, ...]) -> Expr | None:
    if len(args) < 2 or not args[0].type.is_integer or (unified := unify(args[1:])) is None:
        return None
    branches = tuple(
        (apply("=", (args[0], Literal(place, Type.INT)), None), value) for place, value in enumerate(unified, start=1)
    )
    return Case(branches, None, unified[0].type)


def _decode(args: tuple[Expr, ...]) -> Expr | None:
    """decode(x, a, then a, b, then b, ..., otherwise): NULL equals NULL."""
    if len(args) < 3:
        return None
    subject, *rest = args
    default = rest.pop() if len(rest) % 2 else None
    values = rest[1::2] + ([] if default is None else [default])
    if (unified := unify(values)) is None:
        return None
    branches = tuple(
        (apply("<=>", (subject, search), None, written="decode"), value)
        for search, value in zip(rest[::2], unified, strict=False)
    )
    return Case(branches, None if default is None else unified[-1], unified[0].type)


def _rounded(function: str) -> Callable[[tuple[Expr, ...]], Expr | None]:
    """Round numbers to tens, hundreds, ... if the digits are negative; a DECIMAL does that itself."""

    def special(args: tuple[Expr, ...]) -> Expr | None:
        digits = args[1].value if len(args) == 2 and isinstance(args[1], Literal) else None
        if not isinstance(digits, int) or digits >= 0 or isinstance(args[0].type, DecimalType):
            return None
        if digits < -18:
            raise TypeFault(f"{function} to {-digits} digits before the point", hint="write at least -18")
        unit, number = 10**-digits, args[0]
        if not number.type.is_integer:
            size = Literal(float(unit), Type.DOUBLE)
            return apply("*", (apply(function, (apply("/", (number, size), None),), None), size), None)
        if function == "bround":
            raise NotSupported("bround of integers needs digits >= 0", hint="write round(x, -1)")
        half = Literal(unit // 2, Type.BIGINT)
        away = Case(
            ((apply("<", (number, Literal(0, Type.INT)), None), apply("-", (number, half), None)),),
            apply("+", (number, half), None),
            Type.BIGINT,
        )
        return apply("*", (apply("div", (away, Literal(unit, Type.BIGINT)), None), Literal(unit, Type.BIGINT)), None)

    return special


def _width_bucket(args: tuple[Expr, ...]) -> Expr | None:
    """width_bucket(x, low, high, n): the number of the bucket from 1 to n, 0 before the first, n + 1 after the last."""
    if len(args) != 4 or not all(arg.type.is_numeric for arg in args) or not args[3].type.is_integer:
        return None
    x, low, high = (coerce(arg, Type.DOUBLE) for arg in args[:3])
    count, zero, one = args[3], Literal(0, Type.BIGINT), Literal(1, Type.BIGINT)
    after = apply("+", (count, one), None)
    share = apply("/", (apply("*", (count, apply("-", (x, low), None)), None), apply("-", (high, low), None)), None)
    inside = apply("+", (apply("floor", (share,), None), one), None)
    falls = apply(">", (low, high), None)

    def compared(operator: str, left: Expr, right: Expr, falling: bool) -> Expr:
        holds = apply(operator, (left, right), None)
        return apply("and", (falls if falling else apply("not", (falls,), None), holds), None)

    largest = Literal(sys.float_info.max, Type.DOUBLE)
    needed = (
        apply(">", (count, zero), None),
        apply("<>", (low, high), None),
        *(apply("<=", (apply("abs", (bound,), None), largest), None) for bound in (low, high)),
        *(apply("not", (apply(missing, (x,), None),), None) for missing in ("is_null", "isnan")),
    )
    branches = (
        (compared("<", x, low, False), zero),
        (compared(">=", x, high, False), after),
        (compared(">", x, low, True), zero),
        (compared("<=", x, high, True), after),
    )
    bucket = Case(branches, inside, Type.BIGINT)
    sound = reduce(lambda left, right: apply("and", (left, right), None), needed)
    return Case(((sound, bucket),), Literal(None, Type.BIGINT), Type.BIGINT)


def _instant_of(args: tuple[Expr, ...]) -> Expr | None:
    """TO_TIMESTAMP_LTZ(n, 3) of Flink: milliseconds, or with 0 seconds, since 1970."""
    unit = args[1].value if len(args) == 2 and isinstance(args[1], Literal) else 3 if len(args) == 1 else None
    function = {0: "timestamp_seconds", 3: "timestamp_millis", 6: "timestamp_micros"}.get(int(unit or 0))
    if unit is None or function is None or not args[0].type.is_integer:
        return None
    return apply(function, args[:1], None, written="to_timestamp_ltz")


def _days_later(args: tuple[Expr, ...]) -> Expr | None:
    """Refuse an INTERVAL of date_add and date_sub, which take a number of days."""
    if len(args) == 2 and args[1].type is Type.INTERVAL:
        raise TypeFault(
            "date_add and date_sub take a number of days, not an INTERVAL",
            hint="write t + INTERVAL 1 DAY, t - INTERVAL 1 DAY, or date_add(d, 1)",
        )
    return None


_PLAIN_FORMAT = "yyyy-MM-dd HH:mm:ss"
_SPECIAL: dict[str, Callable[[tuple[Expr, ...]], Expr | None]] = {
    **other_functions(lambda name, args, written: apply(name, args, None, written=written)),
    "nvl2": _nvl2,
    "round": _rounded("round"),
    "bround": _rounded("bround"),
    "width_bucket": _width_bucket,
    "to_timestamp_ltz": _instant_of,
    "try_divide": lambda args: apply("/", args, None, written="try_divide") if len(args) == 2 else None,
    "get": lambda args: apply("item", args, None, written="get") if len(args) == 2 else None,
    "try_element_at": lambda args: apply("element_at", args, None) if len(args) == 2 else None,
    "json_value": lambda args: apply("get_json_object", args, None, written="json_value") if len(args) == 2 else None,
    "typeof": lambda args: (
        Literal(args[0].type.value.lower().replace(": ", ":").replace(", ", ","), Type.STRING)
        if len(args) == 1
        else None
    ),
    "isnotnull": lambda args: (
        Call("not", (Call("is_null", args, Type.BOOLEAN),), Type.BOOLEAN) if len(args) == 1 else None
    ),
    "instr": lambda args: apply("position", (args[1], args[0]), None, written="instr") if len(args) == 2 else None,
    "to_timestamp": lambda args: (
        apply("parse_timestamp", args, None, written="to_timestamp")
        if len(args) == 2
        else Cast(args[0], Type.TIMESTAMP)
        if len(args) == 1 and args[0].type is not Type.TIMESTAMP
        else None
    ),
    "to_date": lambda args: (
        apply("parse_date", args, None, written="to_date")
        if len(args) == 2
        else Cast(args[0], Type.DATE)
        if len(args) == 1 and args[0].type is Type.STRING
        else None
    ),
    "unix_timestamp": _unix_timestamp,
    "to_unix_timestamp": _unix_timestamp,
    "date_add": _days_later,
    "date_sub": lambda args: (
        _days_later(args) or apply("date_add", (args[0], _negated(args[1])), None, written="date_sub")
        if len(args) == 2
        else None
    ),
    "concat": lambda args: (
        apply("flatten", (apply("array", args, None),), None, written="concat")
        if args and all(isinstance(arg.type, ArrayType) for arg in args)
        else coerce(args[0], Type.STRING)
        if len(args) == 1
        else None
    ),
    "btrim": lambda args: apply("trim", args, None, written="btrim"),
    "strpos": lambda args: apply("position", (args[1], args[0]), None, written="strpos") if len(args) == 2 else None,
    "space": lambda args: (
        apply("repeat", (Literal(" ", Type.STRING), *args), None, written="space") if len(args) == 1 else None
    ),
    "pi": lambda args: Literal(math.pi, Type.DOUBLE) if not args else None,
    "e": lambda args: Literal(math.e, Type.DOUBLE) if not args else None,
    "positive": lambda args: args[0] if len(args) == 1 and args[0].type.is_numeric else None,
    "zeroifnull": lambda args: apply("coalesce", (*args, Literal(0, Type.INT)), None) if len(args) == 1 else None,
    "nullifzero": lambda args: apply("nullif", (*args, Literal(0, Type.INT)), None) if len(args) == 1 else None,
    "elt": _elt,
    "decode": _decode,
    "dayname": lambda args: _formatted(args, "EEE", "dayname"),
    "monthname": lambda args: _formatted(args, "MMM", "monthname"),
    "from_unixtime": _from_unixtime,
    "trunc": lambda args: (
        apply("to_date", (apply("date_trunc", (args[1], args[0]), None, written="trunc"),), None)
        if len(args) == 2
        else None
    ),
}
_SPECIAL |= {f"try_{name}": _SPECIAL[name] for name in ("to_timestamp", "to_date")}  # NULL for what does not fit anyway
