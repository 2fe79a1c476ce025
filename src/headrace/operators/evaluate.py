"""Compile expressions to column kernels.

`KERNELS` has one function for each name of `elements.functions.FUNCTIONS`, with the meaning written there. A kernel gets its
arguments compiled and the call itself, for the types and for the arguments that must be literal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import TypeAlias

import numpy as np
import polars as pl

from headrace.elements.expression import Call, Case, Cast, Column, Expr, Literal, columns
from headrace.elements.types import Type, common_type
from headrace.errors import InternalError, NotSupported, TypeFault
from headrace.operators.conversion import convert
from headrace.operators.rounding import round_half_away

Kernel: TypeAlias = Callable[[Sequence[pl.Expr], Call], pl.Expr]


@lru_cache(maxsize=8192)
def compile_expr(expr: Expr) -> pl.Expr:
    """The column expression that computes `expr`; its dtype is exactly `expr.type.polars`."""
    match expr:
        case Column(name=name):
            return pl.col(name)
        case Literal(value=value, type=type_):
            return pl.lit(value, dtype=type_.polars)
        case Cast(arg=arg, type=type_):
            compiled = convert(compile_expr(arg), arg.type, type_)
        case Case():
            compiled = _case(expr)
        case Call(function=name, args=args):
            if name not in KERNELS:
                raise InternalError(f"no kernel for function {name!r}")
            compiled = KERNELS[name]([compile_expr(arg) for arg in args], expr)
    # A constant is computed once, here; this also spares the kernels columns of length one.
    return compiled if columns(expr) else pl.lit(_constant(compiled), dtype=expr.type.polars)


def compile_predicate(expr: Expr) -> pl.Expr:
    """The column expression of a condition: NULL counts as false."""
    return compile_expr(expr).fill_null(False)


def evaluate(frame: pl.DataFrame, exprs: Sequence[Expr]) -> list[pl.Series]:
    """One column for each expression, as long as the frame."""
    if not exprs:
        return []
    if frame.width == 0:
        return [pl.Series(str(i), [], dtype=expr.type.polars) for i, expr in enumerate(exprs)]
    names = [f"__e{i}" for i in range(len(exprs))]
    wide = frame.with_columns([compile_expr(expr).alias(name) for name, expr in zip(names, exprs, strict=True)])
    return [wide[name] for name in names]


def _constant(compiled: pl.Expr) -> bool | int | float | str | bytes | None:
    value: bool | int | float | str | bytes | None = pl.select(compiled).to_series().to_physical().item()
    return value


def _case(expr: Case) -> pl.Expr:
    default = pl.lit(None, dtype=expr.type.polars) if expr.default is None else _as(expr.type, expr.default)
    # From the last branch to the first: a chain of when().then() by nesting, which needs no special first step.
    return reduce(
        lambda rest, branch: pl.when(compile_expr(branch[0])).then(_as(expr.type, branch[1])).otherwise(rest), reversed(expr.branches), default
    )


def _as(type_: Type, expr: Expr) -> pl.Expr:
    """The expression, widened to a type that its own fits into."""
    return compile_expr(expr) if expr.type is type_ else compile_expr(expr).cast(type_.polars)


def _common(call: Call) -> list[pl.Expr]:
    """The arguments, all widened to their common type."""
    found: Type | None = Type.NULL
    for arg in call.args:
        found = None if found is None else common_type(found, arg.type)
    if found is None:
        raise InternalError(f"arguments of {call.function!r} have no common type: {', '.join(arg.type.value for arg in call.args)}")
    return [_as(found, arg) for arg in call.args]


def _literal(call: Call, position: int) -> bool | int | float | str | bytes | None:
    arg = call.args[position]
    if columns(arg):
        raise TypeFault(f"argument {position + 1} of {call.function} must be a constant", hint="write a literal, not a column")
    return _constant(compile_expr(arg))


def _text(call: Call, position: int) -> str | None:
    value = _literal(call, position)
    return None if value is None else str(value)


def _number(call: Call, position: int) -> int | None:
    value = _literal(call, position)
    return None if value is None else int(value)


def _null(call: Call) -> pl.Expr:
    """NULL for every row: a literal argument that decides all is NULL."""
    return pl.lit(None, dtype=call.type.polars)


# --- logic --------------------------------------------------------------------------------------------------------------------


def _boolean(expr: pl.Expr) -> pl.Expr:
    return expr.cast(pl.Boolean)


def _compare(operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Kernel:
    def kernel(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
        left, right = _common(call)
        return _boolean(operation(left, right))

    return kernel


def _in(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    x, *others = _common(call)
    if any(columns(arg) for arg in call.args[1:]) or all(arg.type is Type.NULL for arg in call.args):
        return _boolean(reduce(lambda left, right: left | right, [x == other for other in others]))
    values = pl.select([other.alias(str(i)) for i, other in enumerate(others)]).unpivot()["value"]
    found = x.is_in(values.drop_nulls().implode())
    return found if values.null_count() == 0 else pl.when(found).then(True)


def _nullif(args: Sequence[pl.Expr], call: Call) -> pl.Expr:
    left, right = _common(call)
    return pl.when((left == right).fill_null(False)).then(pl.lit(None, dtype=call.type.polars)).otherwise(args[0])


def _greatest(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    # Not max_horizontal: it does not take NaN for the largest number.
    return reduce(lambda best, x: pl.when(best.is_null() | (x > best)).then(x).otherwise(best), _common(call))


def _least(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    return reduce(lambda best, x: pl.when(best.is_null() | (x < best)).then(x).otherwise(best), _common(call))


# --- numbers ------------------------------------------------------------------------------------------------------------------


def _arithmetic(operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Kernel:
    def kernel(args: Sequence[pl.Expr], call: Call) -> pl.Expr:
        if call.type in (Type.BIGINT, Type.DOUBLE):
            left, right = (_as(call.type, arg) for arg in call.args)
            return operation(left, right)
        # Time: a DATE counts as its midnight.
        left, right = (_as(Type.TIMESTAMP, arg) if arg.type is Type.DATE else done for arg, done in zip(call.args, args, strict=True))
        return operation(left, right).cast(call.type.polars)

    return kernel


def _doubles(call: Call) -> list[pl.Expr]:
    return [_as(Type.DOUBLE, arg) for arg in call.args]


def _divide(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    left, right = _doubles(call)
    return pl.when(right != 0.0).then(left / right)


def _remainder(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    left, right = (_as(call.type, arg) for arg in call.args)
    if call.type is Type.DOUBLE:
        return pl.struct(x=left, y=right).map_batches(_fmod, return_dtype=pl.Float64(), is_elementwise=True)
    floored = left % right  # NULL for a zero divisor; has the sign of the divisor
    return pl.when((floored != 0) & ((left < 0) != (right < 0))).then(floored - right).otherwise(floored)


def _fmod(pair: pl.Series) -> pl.Series:
    left, right = pair.struct.field("x"), pair.struct.field("y")
    right = right.set(right == 0.0, None)
    with np.errstate(all="ignore"):
        result = pl.Series(np.fmod(left.fill_null(0.0).to_numpy(), right.fill_null(1.0).to_numpy()))
    return result.set(left.is_null() | right.is_null(), None) if left.null_count() or right.null_count() else result


def _div(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    left, right = (_as(Type.BIGINT, arg) for arg in call.args)
    floored = left // right
    return pl.when((left % right != 0) & ((left < 0) != (right < 0))).then(floored + 1).otherwise(floored)


def _unary(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    return lambda _, call: operation(_as(call.type, call.args[0]))


def _double(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    return lambda _, call: operation(_as(Type.DOUBLE, call.args[0]))


def _integral(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    def kernel(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
        arg = call.args[0]
        return _as(Type.BIGINT, arg) if arg.type.is_integer else operation(_as(Type.DOUBLE, arg)).cast(pl.Int64, strict=False)

    return kernel


def _round(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    if call.type is Type.BIGINT:
        return _as(Type.BIGINT, call.args[0])
    digits = 0 if len(call.args) == 1 else _number(call, 1)
    return _null(call) if digits is None else round_half_away(_as(Type.DOUBLE, call.args[0]), digits)


def _logarithm(function: np.ufunc) -> Kernel:
    # NumPy's are exact at powers of the base, where a quotient of natural logarithms is not.
    def logarithm(values: pl.Series) -> pl.Series:
        result = pl.Series(function(values.fill_null(1.0).to_numpy()))
        return result.set(values.is_null(), None) if values.null_count() else result

    def kernel(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
        x = _as(Type.DOUBLE, call.args[0])
        return pl.when(x > 0.0).then(x).map_batches(logarithm, return_dtype=pl.Float64(), is_elementwise=True)

    return kernel


def _pow(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    base, exponent = _doubles(call)
    return base**exponent


# --- strings ------------------------------------------------------------------------------------------------------------------


def _string(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    return lambda _, call: operation(_as(Type.STRING, call.args[0]))


def _strings(operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Kernel:
    return lambda _, call: operation(_as(Type.STRING, call.args[0]), _as(Type.STRING, call.args[1]))


def _concat(args: Sequence[pl.Expr], call: Call) -> pl.Expr:
    return pl.concat_str([convert(done, arg.type, Type.STRING) for arg, done in zip(call.args, args, strict=True)], ignore_nulls=False)


def _substring(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    text, start = _as(Type.STRING, call.args[0]), _as(Type.BIGINT, call.args[1])
    offset = pl.when(start > 0).then(start - 1).otherwise(start)
    if len(call.args) == 2:
        return text.str.slice(offset)
    return _slice(text, offset, _as(Type.BIGINT, call.args[2]))


def _slice(text: pl.Expr, offset: pl.Expr | int, length: pl.Expr) -> pl.Expr:
    # A NULL length would mean "to the end".
    return pl.when(length.is_not_null()).then(text.str.slice(offset, length.clip(0)))


def _left(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    return _slice(_as(Type.STRING, call.args[0]), 0, _as(Type.BIGINT, call.args[1]))


def _right(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    text, length = _as(Type.STRING, call.args[0]), _as(Type.BIGINT, call.args[1])
    skipped = (text.str.len_chars().cast(pl.Int64) - length).clip(0)
    return pl.when(length.is_not_null()).then(text.str.slice(skipped))


def _replace(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    text, what, by = (_as(Type.STRING, arg) for arg in call.args)
    if columns(call.args[1]):
        return pl.struct(s=text, t=what, u=by).map_batches(_replace_each, return_dtype=pl.String(), is_elementwise=True)
    literal = _text(call, 1)
    if literal is None:
        return _null(call)
    replaced = text if literal == "" else text.str.replace_all(literal, by.fill_null(""), literal=True)
    return pl.when(by.is_not_null()).then(replaced)


def _replace_each(rows: pl.Series) -> pl.Series:
    triples = zip(*(rows.struct.field(name).to_list() for name in "stu"), strict=True)
    return pl.Series([None if s is None or t is None or u is None else s if t == "" else s.replace(t, u) for s, t, u in triples], dtype=pl.String)


def _position(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    what, text = _text(call, 0), _as(Type.STRING, call.args[1])
    if what is None:
        return _null(call)
    # Not str.find, which counts bytes.
    before = text.str.splitn(what, 2).struct.field("field_0").str.len_chars().cast(pl.Int64) if what else pl.lit(0, dtype=pl.Int64)
    zero = pl.when(text.is_not_null()).then(pl.lit(0, dtype=pl.Int64))
    return pl.when(text.str.contains(what, literal=True)).then(before + 1).otherwise(zero)


def _pad(pad: Callable[[pl.Expr, int, str], pl.Expr]) -> Kernel:
    def kernel(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
        text, length, fill = _as(Type.STRING, call.args[0]), _number(call, 1), _text(call, 2)
        if length is None or fill is None:
            return _null(call)
        if len(fill) != 1:
            raise TypeFault(f"{call.function} fills with one character, not {fill!r}", hint="give a string of length 1")
        length = max(0, length)
        return pad(text, length, fill).str.slice(0, length)

    return kernel


def _split_part(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    text, separator, n = _as(Type.STRING, call.args[0]), _text(call, 1), _number(call, 2)
    if separator is None or n is None:
        return _null(call)
    empty = pl.when(text.is_not_null()).then(pl.lit(""))
    if n == 0 or (separator == "" and n not in (1, -1)):
        return empty
    if separator == "":
        return text
    return pl.coalesce(text.str.split(separator).list.get(n - 1 if n > 0 else n, null_on_oob=True), empty)


def _like(flags: str) -> Kernel:
    def kernel(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
        pattern = _text(call, 1)
        if pattern is None:
            return _null(call)
        return _as(Type.STRING, call.args[0]).str.contains(rf"(?{flags})\A{_like_body(pattern)}\z")

    return kernel


def _like_body(pattern: str) -> str:
    parts, escaped = [], False
    for i, character in enumerate(pattern):
        if escaped:
            parts.append(pl.escape_regex(character))
            escaped = False
        elif character == "\\" and i + 1 < len(pattern):
            escaped = True
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or pl.escape_regex(character))
    return "".join(parts)


def _pattern(call: Call, position: int) -> str | None:
    pattern = _text(call, position)
    if pattern is not None:
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.ComputeError as error:
            reason = next((line for line in str(error).splitlines() if line.startswith("error:")), "error: it cannot be parsed").removeprefix(
                "error: "
            )
            raise NotSupported(f"regular expression {pattern!r}: {reason}", hint="look-around and back-references do not exist here") from error
    return pattern


def _rlike(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    pattern = _pattern(call, 1)
    return _null(call) if pattern is None else _as(Type.STRING, call.args[0]).str.contains(pattern)


def _regexp_extract(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    pattern, group = _pattern(call, 1), 1 if len(call.args) == 2 else _number(call, 2)
    if pattern is None or group is None:
        return _null(call)
    text = _as(Type.STRING, call.args[0])
    return pl.coalesce(text.str.extract(pattern, group), pl.when(text.is_not_null()).then(pl.lit("")))


# --- date and time ------------------------------------------------------------------------------------------------------------

_UNITS = {"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "1w", "month": "1mo", "quarter": "1q", "year": "1y"}


def _part(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    def kernel(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
        arg = call.args[0]
        time = compile_expr(arg) if arg.type is Type.DATE else _as(Type.TIMESTAMP, arg)
        return operation(time).cast(pl.Int64)

    return kernel


def _date_trunc(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    unit = _text(call, 0)
    if unit is None:
        return _null(call)
    if unit.lower() not in _UNITS:
        raise TypeFault(f"date_trunc knows no unit {unit!r}", hint=f"one of {', '.join(_UNITS)}")
    return _as(Type.TIMESTAMP, call.args[1]).dt.truncate(_UNITS[unit.lower()])


def _days(arg: Expr) -> pl.Expr:
    return _as(Type.DATE, arg).cast(pl.Int32).cast(pl.Int64)


def _date_add(_: Sequence[pl.Expr], call: Call) -> pl.Expr:
    return (_days(call.args[0]) + _as(Type.BIGINT, call.args[1])).cast(pl.Int32, strict=False).cast(pl.Date)


def _since_epoch(unit: int) -> Kernel:
    return lambda _, call: _as(Type.TIMESTAMP, call.args[0]).cast(pl.Int64) // unit


def _after_epoch(unit: int) -> Kernel:
    return lambda _, call: (_as(Type.BIGINT, call.args[0]) * unit).cast(pl.Datetime("us"))


KERNELS: dict[str, Kernel] = {
    "and": lambda args, _: _boolean(args[0]) & _boolean(args[1]),
    "or": lambda args, _: _boolean(args[0]) | _boolean(args[1]),
    "not": lambda args, _: ~_boolean(args[0]),
    "=": _compare(lambda left, right: left == right),
    "<>": _compare(lambda left, right: left != right),
    "<": _compare(lambda left, right: left < right),
    "<=": _compare(lambda left, right: left <= right),
    ">": _compare(lambda left, right: left > right),
    ">=": _compare(lambda left, right: left >= right),
    "<=>": _compare(lambda left, right: left.eq_missing(right)),
    "is_null": lambda args, _: args[0].is_null(),
    "in": _in,
    "coalesce": lambda _, call: pl.coalesce(_common(call)),
    "nullif": _nullif,
    "greatest": _greatest,
    "least": _least,
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "/": _divide,
    "%": _remainder,
    "div": _div,
    "neg": _unary(lambda x: -x),
    "abs": _unary(lambda x: x.abs()),
    "sign": _double(lambda x: x.sign()),
    "round": _round,
    "floor": _integral(lambda x: x.floor()),
    "ceil": _integral(lambda x: x.ceil()),
    "sqrt": _double(lambda x: x.sqrt()),
    "exp": _double(lambda x: x.exp()),
    "ln": _logarithm(np.log),
    "log10": _logarithm(np.log10),
    "log2": _logarithm(np.log2),
    "pow": _pow,
    "sin": _double(lambda x: x.sin()),
    "cos": _double(lambda x: x.cos()),
    "tan": _double(lambda x: x.tan()),
    "||": _concat,
    "upper": _string(lambda s: s.str.to_uppercase()),
    "lower": _string(lambda s: s.str.to_lowercase()),
    "length": _string(lambda s: s.str.len_chars().cast(pl.Int64)),
    "substring": _substring,
    "left": _left,
    "right": _right,
    "trim": _string(lambda s: s.str.strip_chars(" ")),
    "ltrim": _string(lambda s: s.str.strip_chars_start(" ")),
    "rtrim": _string(lambda s: s.str.strip_chars_end(" ")),
    "replace": _replace,
    "starts_with": _strings(lambda s, t: s.str.starts_with(t)),
    "ends_with": _strings(lambda s, t: s.str.ends_with(t)),
    "contains": _strings(lambda s, t: s.str.contains(t, literal=True)),
    "position": _position,
    "reverse": _string(lambda s: s.str.split("").list.reverse().list.join("")),  # characters; str.reverse keeps accents in place
    "lpad": _pad(lambda s, n, fill: s.str.pad_start(n, fill)),
    "rpad": _pad(lambda s, n, fill: s.str.pad_end(n, fill)),
    "split_part": _split_part,
    "like": _like("s"),
    "ilike": _like("si"),
    "rlike": _rlike,
    "regexp_extract": _regexp_extract,
    "year": _part(lambda t: t.dt.year()),
    "quarter": _part(lambda t: t.dt.quarter()),
    "month": _part(lambda t: t.dt.month()),
    "week": _part(lambda t: t.dt.week()),
    "day": _part(lambda t: t.dt.day()),
    "dayofweek": _part(lambda t: t.dt.weekday() % 7 + 1),
    "dayofyear": _part(lambda t: t.dt.ordinal_day()),
    "hour": _part(lambda t: t.dt.hour()),
    "minute": _part(lambda t: t.dt.minute()),
    "second": _part(lambda t: t.dt.second()),
    "date_trunc": _date_trunc,
    "to_date": lambda _, call: _as(Type.TIMESTAMP, call.args[0]).cast(pl.Date),
    "date_add": _date_add,
    "datediff": lambda _, call: _days(call.args[0]) - _days(call.args[1]),
    "unix_seconds": _since_epoch(1_000_000),
    "unix_millis": _since_epoch(1_000),
    "unix_micros": _since_epoch(1),
    "timestamp_seconds": _after_epoch(1_000_000),
    "timestamp_millis": _after_epoch(1_000),
    "timestamp_micros": _after_epoch(1),
}
