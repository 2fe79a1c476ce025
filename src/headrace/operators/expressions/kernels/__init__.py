"""One column kernel for each name of `model.expressions.functions.FUNCTIONS`, with the meaning written there."""

from __future__ import annotations

from headrace.operators.expressions.kernels.arguments import Arguments, Kernel, constant
from headrace.operators.expressions.kernels.conversion import convert
from headrace.operators.expressions.kernels.logic import LOGIC
from headrace.operators.expressions.kernels.numbers import NUMBERS
from headrace.operators.expressions.kernels.strings import STRINGS
from headrace.operators.expressions.kernels.times import TIMES

KERNELS: dict[str, Kernel] = {**LOGIC, **NUMBERS, **STRINGS, **TIMES}

#: Functions whose kernel reads an argument more than once.
REPEATING = frozenset(
    {
        *("in", "nullif", "greatest", "/", "%", "div", "ln", "log10", "log2"),
        *("substring", "left", "right", "replace", "position", "split_part", "regexp_extract"),
    }
)

__all__ = ["KERNELS", "REPEATING", "Arguments", "Kernel", "constant", "convert"]
