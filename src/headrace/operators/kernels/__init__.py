"""One column kernel for each name of `elements.functions.FUNCTIONS`, with the meaning written there."""

from __future__ import annotations

from headrace.operators.kernels.arguments import Arguments, Kernel, constant
from headrace.operators.kernels.conversion import convert
from headrace.operators.kernels.logic import LOGIC
from headrace.operators.kernels.numbers import NUMBERS
from headrace.operators.kernels.strings import STRINGS
from headrace.operators.kernels.times import TIMES

KERNELS: dict[str, Kernel] = {**LOGIC, **NUMBERS, **STRINGS, **TIMES}

#: Functions whose kernel reads an argument more than once.
REPEATING = frozenset(
    {
        *("in", "nullif", "greatest", "/", "%", "div", "ln", "log10", "log2"),
        *("substring", "left", "right", "replace", "position", "split_part", "regexp_extract"),
    }
)

__all__ = ["KERNELS", "REPEATING", "Arguments", "Kernel", "constant", "convert"]
