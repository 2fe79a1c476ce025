"""One column kernel for each name of `model.expressions.functions.FUNCTIONS`, with the meaning written there."""

from __future__ import annotations

from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, constant
from headrace.operators.expressions.kernels.bits import BITS
from headrace.operators.expressions.kernels.calendar import CALENDAR
from headrace.operators.expressions.kernels.conversion import convert
from headrace.operators.expressions.kernels.decimals import DECIMALS
from headrace.operators.expressions.kernels.formats import FORMATS
from headrace.operators.expressions.kernels.hashes import HASHES
from headrace.operators.expressions.kernels.json_text import JSON
from headrace.operators.expressions.kernels.logic import LOGIC
from headrace.operators.expressions.kernels.nested import NESTED
from headrace.operators.expressions.kernels.numbers import NUMBERS
from headrace.operators.expressions.kernels.strings import STRINGS
from headrace.operators.expressions.kernels.texts import TEXTS
from headrace.operators.expressions.kernels.times import TIMES
from headrace.operators.expressions.kernels.urls import URLS

KERNELS: dict[str, Kernel] = {
    **LOGIC,
    **NUMBERS,
    **BITS,
    **STRINGS,
    **TEXTS,
    **HASHES,
    **URLS,
    **JSON,
    **NESTED,
    **TIMES,
    **CALENDAR,
    **FORMATS,
}

#: Functions whose kernel reads an argument more than once.
REPEATING = frozenset(
    {
        *("in", "nullif", "greatest", "/", "%", "div", "ln", "log10", "log2"),
        *("log", "log1p", "pmod", "factorial", "nanvl", "cot", "sec", "csc"),
        *("substring", "left", "right", "replace", "position", "split_part", "regexp_extract", "to_utc_timestamp"),
    }
)

__all__ = ["DECIMALS", "KERNELS", "REPEATING", "Arguments", "Kernel", "constant", "convert"]
