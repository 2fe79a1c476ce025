"""Text; positions and lengths count characters."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from headrace.model.types import Type
from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, each
from headrace.operators.expressions.kernels.conversion import convert
from headrace.operators.expressions.kernels.patterns import like, regexp_extract, rlike


def _string(operation: Callable[[pl.Expr], pl.Expr]) -> Kernel:
    return lambda args: operation(args.get(0, Type.STRING))


def _strings(operation: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Kernel:
    return lambda args: operation(args.get(0, Type.STRING), args.get(1, Type.STRING))


def _concat(args: Arguments) -> pl.Expr:
    texts = [convert(compiled, type_, Type.STRING) for compiled, type_ in zip(args.compiled, args.types, strict=True)]
    return pl.concat_str(texts, ignore_nulls=False)


def _substring(args: Arguments) -> pl.Expr:
    text, start = args.get(0, Type.STRING), args.get(1, Type.BIGINT)
    offset = pl.when(start > 0).then(start - 1).otherwise(start)
    return text.str.slice(offset) if len(args) == 2 else _slice(text, offset, args.get(2, Type.BIGINT))


def _slice(text: pl.Expr, offset: pl.Expr | int, length: pl.Expr) -> pl.Expr:
    # A NULL length would mean "to the end".
    return pl.when(length.is_not_null()).then(text.str.slice(offset, length.clip(0)))


def _left(args: Arguments) -> pl.Expr:
    return _slice(args.get(0, Type.STRING), 0, args.get(1, Type.BIGINT))


def _right(args: Arguments) -> pl.Expr:
    text, length = args.get(0, Type.STRING), args.get(1, Type.BIGINT)
    skipped = (text.str.len_chars().cast(pl.Int64) - length.clip(0)).clip(0)
    return pl.when(length.is_not_null()).then(text.str.slice(skipped))


def _trim(strip: Callable[[pl.Expr, str], pl.Expr]) -> Kernel:
    def kernel(args: Arguments) -> pl.Expr:
        characters = args.text(1) if len(args) == 2 else " "
        text = args.get(0, Type.STRING)
        if characters is None:
            return args.null()
        return strip(text, characters) if characters else text

    return kernel


def _replace(args: Arguments) -> pl.Expr:
    text, what = args.get(0, Type.STRING), args.get(1, Type.STRING)
    by = args.get(2, Type.STRING) if len(args) == 3 else pl.lit("")
    if not args.is_constant(1):
        return pl.struct(s=text, t=what, u=by).map_batches(_replace_each, return_dtype=pl.String(), is_elementwise=True)
    literal = args.text(1)
    if literal is None:
        return args.null()
    # An empty text occurs nowhere, as in Spark; NULL is no replacement that the library takes.
    replaced = text if literal == "" else text.str.replace_all(literal, by.fill_null(""), literal=True)
    return pl.when(by.is_not_null()).then(replaced)


def _replace_each(rows: pl.Series) -> pl.Series:
    triples = zip(*(rows.struct.field(name).to_list() for name in "stu"), strict=True)
    return pl.Series(
        [None if s is None or t is None or u is None else s if t == "" else s.replace(t, u) for s, t, u in triples],
        dtype=pl.String,
    )


def _position(args: Arguments) -> pl.Expr:
    if len(args) == 3 or not args.is_constant(0):
        return each(_locate, args, [Type.STRING, Type.STRING, Type.BIGINT])
    what, text = args.text(0), args.get(1, Type.STRING)
    if what is None:
        return args.null()
    # Not str.find, which counts bytes.
    before = (
        text.str.splitn(what, 2).struct.field("field_0").str.len_chars().cast(pl.Int64)
        if what
        else pl.lit(0, dtype=pl.Int64)
    )
    zero = pl.when(text.is_not_null()).then(pl.lit(0, dtype=pl.Int64))
    return pl.when(text.str.contains(what, literal=True)).then(before + 1).otherwise(zero)


def _locate(what: str, text: str, start: int = 1) -> int:
    if start <= 0:
        return 0
    return text.find(what, start - 1) + 1 if what else 1  # an empty text is at the beginning, as in Spark


def _reverse(values: pl.Series) -> pl.Series:
    # Character by character; the library's own reversal keeps accents on their letters.
    return pl.Series([None if text is None else text[::-1] for text in values.to_list()], dtype=pl.String)


def _pad(pad: Callable[[pl.Expr, int, str], pl.Expr]) -> Kernel:
    def kernel(args: Arguments) -> pl.Expr:
        text, length, fill = args.get(0, Type.STRING), args.number(1), args.text(2) if len(args) == 3 else " "
        if length is None or fill is None:
            return args.null()
        length = max(0, length)
        if len(fill) != 1:
            is_left = args.call.function == "lpad"
            return each(lambda s, *_: _padded(s, length, fill, is_left=is_left), args, _PADDING)
        return pad(text, length, fill).str.slice(0, length)

    return kernel


def _padded(text: str, length: int, fill: str, *, is_left: bool) -> str:
    missing = length - len(text)
    if missing <= 0 or not fill:
        return text[:length]
    added = (fill * (missing // len(fill) + 1))[:missing]
    return added + text if is_left else text + added


def _split_part(args: Arguments) -> pl.Expr:
    text, separator, n = args.get(0, Type.STRING), args.text(1), args.number(2)
    if separator is None or n is None:
        return args.null()
    if separator == "" and n in (1, -1):
        return text
    empty = pl.when(text.is_not_null()).then(pl.lit(""))
    if separator == "" or n == 0:
        return empty
    return pl.coalesce(text.str.split(separator).list.get(n - 1 if n > 0 else n, null_on_oob=True), empty)


_PADDING = (Type.STRING, Type.BIGINT, Type.STRING)


def _length(args: Arguments) -> pl.Expr:
    if args.types[0] is Type.BINARY:
        return args.compiled[0].bin.size().cast(pl.Int64)
    return args.get(0, Type.STRING).str.len_chars().cast(pl.Int64)


STRINGS: dict[str, Kernel] = {
    "||": _concat,
    "upper": _string(lambda s: s.str.to_uppercase()),
    "lower": _string(lambda s: s.str.to_lowercase()),
    "length": _length,
    "substring": _substring,
    "left": _left,
    "right": _right,
    "trim": _trim(lambda s, characters: s.str.strip_chars(characters)),
    "ltrim": _trim(lambda s, characters: s.str.strip_chars_start(characters)),
    "rtrim": _trim(lambda s, characters: s.str.strip_chars_end(characters)),
    "replace": _replace,
    "starts_with": _strings(lambda s, t: s.str.starts_with(t)),
    "ends_with": _strings(lambda s, t: s.str.ends_with(t)),
    "contains": _strings(lambda s, t: s.str.contains(t, literal=True)),
    "position": _position,
    "reverse": _string(lambda s: s.map_batches(_reverse, return_dtype=pl.String(), is_elementwise=True)),
    "lpad": _pad(lambda s, n, fill: s.str.pad_start(n, fill)),
    "rpad": _pad(lambda s, n, fill: s.str.pad_end(n, fill)),
    "split_part": _split_part,
    "like": like("s"),
    "ilike": like("si"),
    "rlike": rlike,
    "regexp_extract": regexp_extract,
}
