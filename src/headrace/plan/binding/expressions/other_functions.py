"""Functions of other systems that are written with ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from headrace.errors import NotSupported
from headrace.model.expressions.expression import Expr, Literal
from headrace.model.time import DAY, HOUR, MINUTE, SECOND
from headrace.model.types import ArrayType, Type, is_nested
from headrace.plan.binding.expressions.coerce import coerce

#: Applies one of our functions: its name, the arguments, and what the user called it.
Apply: TypeAlias = Callable[[str, tuple[Expr, ...], str], Expr]
Special: TypeAlias = Callable[[tuple[Expr, ...]], Expr | None]

_UNITS = {"second": SECOND, "minute": MINUTE, "hour": HOUR, "day": DAY, "week": 7 * DAY}


def other_functions(apply: Apply) -> dict[str, Special]:
    """Return what each function stands for, by name; None for arguments that it does not take."""

    def digest(bits: int) -> Special:
        def special(args: tuple[Expr, ...]) -> Expr | None:
            number = Literal(bits, Type.INT)
            return apply("sha2", (*args, number), f"sha{bits}") if len(args) == 1 else None

        return special

    def part_of(args: tuple[Expr, ...]) -> Expr | None:
        """SPLIT_INDEX(s, separator, n) of Flink: part n from 0, NULL if there is none."""
        if len(args) != 3 or not isinstance(args[1], Literal) or not isinstance(args[1].value, str):
            return None
        pattern = Literal(re.escape(args[1].value), Type.STRING)
        return apply("item", (apply("split", (args[0], pattern), "split_index"), args[2]), "split_index")

    def overlay(args: tuple[Expr, ...]) -> Expr | None:
        """Put a text into another one in place of some characters, by default as many as it has."""
        if len(args) not in (3, 4):
            return None
        text, by, start, *rest = args
        length = rest[0] if rest else apply("length", (by,), "overlay")
        one = Literal(1, Type.INT)
        before = apply("substring", (text, one, apply("-", (start, one), "overlay")), "overlay")
        after = apply("substring", (text, apply("+", (start, length), "overlay")), "overlay")
        return apply("||", (before, by, after), "overlay")

    def ceiling(args: tuple[Expr, ...]) -> Expr | None:
        """CEIL(t TO HOUR) of Flink: the first full hour that is not before t."""
        unit = args[0].value if len(args) == 2 and isinstance(args[0], Literal) else None
        if unit not in _UNITS:
            raise NotSupported(f"CEIL of a time to {str(unit).upper()} is not supported", hint="write CEIL(t TO HOUR)")
        before = apply("-", (args[1], Literal(1, Type.INTERVAL)), "ceil")
        return apply(
            "+", (apply("date_trunc", (args[0], before), "ceil"), Literal(_UNITS[unit], Type.INTERVAL)), "ceil"
        )

    def concatenated(args: tuple[Expr, ...]) -> Expr | None:
        return apply("flatten", (apply("array", args, "array_concat"),), "array_concat") if args else None

    def plain_base64(args: tuple[Expr, ...]) -> Expr | None:
        """TO_BASE64 of Flink, in one line."""
        if len(args) != 1:
            return None
        end, nothing = Literal("\r\n", Type.STRING), Literal("", Type.STRING)
        return apply("replace", (apply("base64", args, "to_base64"), end, nothing), "to_base64")

    def joined(args: tuple[Expr, ...]) -> Expr | None:
        """CONCAT_WS(separator, ...): numbers and times as texts, and ARRAYs as their elements, without NULL."""
        separator, *parts = args or (None,)
        of_texts = ArrayType(Type.STRING)
        values = [part.type.element if isinstance(part.type, ArrayType) else part.type for part in parts]
        if separator is None or any(map(is_nested, values)):
            return None
        texts = [coerce(part, of_texts if isinstance(part.type, ArrayType) else Type.STRING) for part in parts]
        if not any(text.type == of_texts for text in texts):
            return apply("concat_ws", (separator, *texts), "concat_ws")
        nothing = apply("array", (Literal(None, Type.STRING),), "concat_ws")
        arrays = tuple(
            apply("coalesce", (text, nothing), "concat_ws")
            if text.type == of_texts
            else apply("array", (text,), "concat_ws")
            for text in texts
        )
        elements = (
            arrays[0] if len(arrays) == 1 else apply("flatten", (apply("array", arrays, "concat_ws"),), "concat_ws")
        )
        return apply("array_join", (elements, separator), "concat_ws")

    return {
        "concat_ws": joined,
        "to_base64": plain_base64,
        **{f"sha{bits}": digest(bits) for bits in (224, 256, 384, 512)},
        "split_index": part_of,
        "overlay": overlay,
        "date_ceil": ceiling,
        "array_concat": concatenated,
        "array_cat": concatenated,
    }
